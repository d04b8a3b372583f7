package rlsbench

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// startFloor gives the address of a floor.
func startFloor(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Floor(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Floor() = %v, want nil", err)
		}
	})
	return l.Addr().String()
}

func TestRunMeasuresTheFloor(t *testing.T) {
	var lines []string
	results, err := Run(t.Context(), Options{Target: startFloor(t), Domain: "d", Descriptors: []string{"api_key=%d,path=/login", "one=x"},
		Callers: []int{1, 4}, Warmup: 20 * time.Millisecond, Duration: 100 * time.Millisecond, PID: os.Getpid(),
		Progress: func(line string) { lines = append(lines, line) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || results[0].Callers != 1 || results[1].Callers != 4 || len(lines) != 4 {
		t.Fatalf("results %+v, progress %q, want two of each", results, lines)
	}
	for _, r := range results {
		if r.Requests == 0 || r.Errors != 0 || r.OverLimit != 0 || r.PerSecond <= 0 || r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.P999 || r.P999 > r.Max*1.01 {
			t.Errorf("result %+v is not plausible", r)
		}
	}
	var table, data bytes.Buffer
	if err := Print(&table, results); err != nil || strings.Count(table.String(), "\n") != 3 {
		t.Errorf("Print() = %v, want three lines:\n%s", err, table.String())
	}
	var read []Result
	if err := PrintJSON(&data, results); err != nil || json.Unmarshal(data.Bytes(), &read) != nil || read[1] != results[1] {
		t.Errorf("PrintJSON() = %v, want the results back:\n%s", err, data.String())
	}
}

func TestRunRefuses(t *testing.T) {
	good := Options{Target: "127.0.0.1:1", Domain: "d", Descriptors: []string{"k=v"}, Callers: []int{1}}
	for name, change := range map[string]func(*Options){
		"no target":        func(o *Options) { o.Target = "" },
		"no domain":        func(o *Options) { o.Domain = "" },
		"no descriptors":   func(o *Options) { o.Descriptors = nil },
		"no callers":       func(o *Options) { o.Callers = nil },
		"0 callers":        func(o *Options) { o.Callers = []int{0} },
		"descriptor \"k\"": func(o *Options) { o.Descriptors = []string{"k"} },
	} {
		o := good
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(name, "s")) {
			t.Errorf("%s: error = %v, want one that says so", name, err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, Options{Target: startFloor(t), Domain: "d", Descriptors: []string{"k=v"}, Callers: []int{2}}); err == nil {
		t.Error("Run gives no error when its context ends")
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20"
	if got, err := parseStat([]byte(line)); err != nil || got != 1750*time.Millisecond {
		t.Errorf("parseStat(%q) = %s, %v, want 1.75s", line, got, err)
	}
	for _, bad := range []string{"", "42 S 1", "42 (a) S 1 2", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x y z"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) = %s, want an error", bad, got)
		}
	}
}
