package main

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results holds every measurement: benchmark name -> unit -> one figure per run.
type results map[string]map[string][]float64

// procs is the "-8" that the testing package appends to a name when GOMAXPROCS
// is not 1.
var procs = regexp.MustCompile(`-\d+$`)

// parse reads lines such as
//
//	BenchmarkHotKey-2   30000000   36.1 ns/op   0 B/op   0 allocs/op
//
// and skips all others.
func parse(in io.Reader) (results, error) {
	all := results{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		if _, err := strconv.ParseUint(fields[1], 10, 64); err != nil {
			continue
		}
		name := procs.ReplaceAllString(fields[0], "")
		if all[name] == nil {
			all[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			figure, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				break
			}
			all[name][fields[i+1]] = append(all[name][fields[i+1]], figure)
		}
	}
	return all, lines.Err()
}

// median gives the middle figure of a benchmark's runs.
func (r results) median(name, unit string) (float64, bool) {
	figures := slices.Sorted(slices.Values(r[name][unit]))
	n := len(figures)
	if n == 0 {
		return 0, false
	}
	return (figures[(n-1)/2] + figures[n/2]) / 2, true
}
