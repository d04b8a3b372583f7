package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const printed = `goos: linux
pkg: github.com/caudal-dev/caudal/memstore
BenchmarkHotKey-2   	30000000	        50.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkHotKey-2   	30000000	        52.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkHotKey-2   	30000000	        90.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkFloorTimeSince-2 	40000000	        26.0 ns/op
BenchmarkZipf1M 	1000000	       120 ns/op	       1 allocs/op
BenchmarkOther/case-2 	1000	    1234567 ns/op	        40.5 bytes/key
BenchmarkBroken-2 	--- FAIL
PASS
ok  	github.com/caudal-dev/caudal/memstore	9.9s
`

func TestReport(t *testing.T) {
	table := []row{
		{what: "hot", bench: "BenchmarkHotKey", floor: "BenchmarkFloorTimeSince", bar: ratio(2), goal: ratio(1.3)},
		{what: "zipf", bench: "BenchmarkZipf1M", floor: "BenchmarkFloorMissing", bar: ratio(0.65), goal: figure(100)},
		{what: "zipf allocations", bench: "BenchmarkZipf1M", unit: "allocs/op", bar: figure(0)},
		{what: "never ran", bench: "BenchmarkMissing", bar: figure(1)},
	}
	want := `
WHAT                  FIGURE         FLOOR        RATIO  BAR             GOAL
hot                   52 ns/op       26 ns/op     2.00x  2.00x yes       1.30x no
zipf                  120 ns/op      did not run         0.65x           100 ns/op no
zipf allocations      1 allocs/op                        0 allocs/op no

BenchmarkOther/case   40.50 bytes/key
BenchmarkOther/case   1234567 ns/op
`
	all, err := parse(strings.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report(&out, table, all); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(out.String(), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	var wanted []string
	for _, line := range strings.Split(want[1:], "\n") {
		wanted = append(wanted, strings.Join(strings.Fields(line), " "))
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(wanted, "\n") {
		t.Errorf("report =\n%s\nwant\n%s", out.String(), want)
	}
}

func TestMedianOfAnEvenNumberOfRuns(t *testing.T) {
	all := results{"B": {nsPerOp: {40, 10, 20, 30}}}
	if got, ok := all.median("B", nsPerOp); got != 25 || !ok {
		t.Errorf("median(10, 20, 30, 40) = %v, %v, want 25, true", got, ok)
	}
	if _, ok := all.median("C", nsPerOp); ok {
		t.Error("median of a benchmark that did not run = ok, want not ok")
	}
}

func TestRunNeedsResults(t *testing.T) {
	var out strings.Builder
	if err := run(nil, strings.NewReader("PASS\n"), &out); err == nil {
		t.Errorf("run on output without benchmarks = %q, want an error", out.String())
	}
	if err := run([]string{"testdata/none.txt"}, nil, &out); err == nil {
		t.Error("run on a file that is not there: want an error")
	}
}

func TestRowsAreComplete(t *testing.T) {
	for _, r := range rows {
		if r.what == "" || !strings.HasPrefix(r.bench, "Benchmark") || !r.bar.set || !r.goal.set {
			t.Errorf("row %+v lacks a text, a benchmark, a bar or a goal", r)
		}
		if r.floor == "" && (!r.bar.abs || !r.goal.abs) {
			t.Errorf("row %q has a ratio but no floor", r.what)
		}
	}
}

// TestRowsNameBenchmarks finds rows that nothing measures any more.
func TestRowsNameBenchmarks(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for _, name := range []string{r.bench, r.floor} {
			top, _, _ := strings.Cut(name, "/")
			if top != "" && !strings.Contains(code.String(), "func "+top+"(") {
				t.Errorf("row %q names %s, which no test file has", r.what, name)
			}
		}
	}
}
