package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// settings are what the command line says; a child process gets the same and which
// cell is its own.
type settings struct {
	store   string
	rows    string
	rounds  int
	callers int
	length  time.Duration
	json    bool
	redis   string
	cell    string // "row/limiter" of a child
}

func main() {
	var s settings
	flag.StringVar(&s.store, "store", "memory", "memory or redis: libraries; services: programs that limit for others")
	flag.StringVar(&s.rows, "rows", "", "which rows, separated by commas; all when empty")
	flag.IntVar(&s.rounds, "rounds", 5, "how often each cell is measured")
	flag.IntVar(&s.callers, "callers", 64, "how many callers a service has at once")
	flag.DurationVar(&s.length, "length", time.Second, "how long a round of a cell takes")
	flag.BoolVar(&s.json, "json", false, "print the results for machines")
	flag.StringVar(&s.redis, "redis", "", "a Redis to use, as redis://host:port/db; one is started when empty")
	flag.StringVar(&s.cell, "cell", "", "measure one cell, as row/limiter, and print it")
	flag.Parse()
	if err := s.do(); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func (s settings) do() error {
	if s.cell != "" {
		return s.child()
	}
	if s.rounds < 1 || s.callers < 1 {
		return fmt.Errorf("-rounds %d and -callers %d must be at least 1", s.rounds, s.callers)
	}
	if s.store == "services" {
		return s.measureServices()
	}
	if s.store == "redis" && s.redis == "" {
		server, err := startRedis()
		if err != nil {
			return err
		}
		defer server.stop()
		s.redis = server.url
	}
	rows, rivals, err := s.choose()
	if err != nil {
		return err
	}
	t := newTable(rows, rivals)
	for round := range s.rounds {
		for _, w := range rows {
			for _, v := range rivals {
				progress("round %d of %d: %s, %s", round+1, s.rounds, w.name, v.name)
				r, err := s.ask(w, v)
				if err != nil {
					return err
				}
				t.add(w, v, r)
			}
		}
	}
	progress("")
	if s.json {
		return json.NewEncoder(os.Stdout).Encode(t.machine())
	}
	t.print(os.Stdout)
	return nil
}

// progress overwrites the last line where somebody watches.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
	}
}

// choose gives the rows and limiters that the settings name.
func (s settings) choose() ([]row, []rival, error) {
	rows, rivals := memoryRows, inMemory
	switch s.store {
	case "memory":
	case "redis":
		rows, rivals = redisRows, onRedis(s.redis)
	default:
		return nil, nil, fmt.Errorf("-store %s is not known: use memory, redis or services", s.store)
	}
	if s.rows == "" {
		return rows, rivals, nil
	}
	var chosen []row
	for name := range strings.SplitSeq(s.rows, ",") {
		i := slices.IndexFunc(rows, func(w row) bool { return w.name == name })
		if i < 0 {
			var all []string
			for _, w := range rows {
				all = append(all, w.name)
			}
			return nil, nil, fmt.Errorf("-rows %s is not known: there are %s", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, rows[i])
	}
	return chosen, rivals, nil
}

// ask lets a process of its own measure a cell.
func (s settings) ask(w row, v rival) (r result, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	c := exec.Command(self, "-store", s.store, "-redis", s.redis, "-length", s.length.String(), "-cell", w.name+"/"+v.name)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return r, fmt.Errorf("%s, %s: %w", w.name, v.name, err)
	}
	return r, json.Unmarshal(out, &r)
}

func (s settings) child() error {
	name, limiter, _ := strings.Cut(s.cell, "/")
	s.rows = name
	rows, rivals, err := s.choose()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rivals, func(v rival) bool { return v.name == limiter })
	if i < 0 {
		return fmt.Errorf("-cell %s: there is no such limiter", s.cell)
	}
	r, err := rows[0].run(rivals[i], s.length)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
