package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/internal/storebench"
)

func TestBenchStoreInMemory(t *testing.T) {
	o := operator{t: t}
	out, errs := o.run(exitFine, "bench", "store", "--keys", "hot,zipf", "--key-count", "100", "--limit", "5/day", "--algorithm", "fixed_window",
		"--warmup", "1ms", "--duration", "5ms")
	for _, want := range []string{"decisions/s", "floor: time.Since", "hot", "zipf", "closed", "open", "memory"} {
		if !strings.Contains(out, want) {
			t.Errorf("caudal bench store prints\n%s\nwant %q in it", out, want)
		}
	}
	lines := strings.Split(out, "\n")
	for _, line := range lines[:min(9, len(lines))] {
		if len(line) != len(lines[0]) {
			t.Errorf("the table does not align:\n%s", out)
		}
	}
	if strings.Count(errs, "\n") != 8 || !strings.Contains(errs, "closed loop, keys hot: memory") {
		t.Errorf("progress is %q, want a line for each measurement", errs)
	}
}

func TestBenchStoreOnRedis(t *testing.T) {
	r := redistest.Start(t)
	for _, c := range []struct {
		store, accuracy string
	}{{r.URL(), "exact"}, {"redis", "leased"}} {
		out, _ := operator{t: t}.run(exitFine, "bench", "store", "--store", c.store, "--accuracy", c.accuracy, "--keys", "hot", "--callers", "4",
			"--warmup", "1ms", "--duration", "20ms", "--json")
		var results []storebench.Result
		if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != 4 {
			t.Fatalf("%s: %d results, %v, want 4:\n%s", c.store, len(results), err, out)
		}
		for _, r := range results {
			if r.Errors != 0 || r.Decisions == 0 || r.Denied != 0 || r.Calls == nil || c.accuracy == "exact" && *r.Calls > 1 {
				t.Errorf("%s: %+v, want decisions by at most as many calls, and none denied", c.store, r)
			}
		}
	}
	if keys := r.Do("KEYS", "caudal:*"); keys != "" {
		t.Errorf("keys %q among those that count, want none", keys)
	}
}

func TestBenchStoreRefuses(t *testing.T) {
	for _, c := range []struct {
		exit int
		want string
		args []string
	}{
		{exitUsage, "--limit", []string{"--limit", "many"}},
		{exitUsage, `--algorithm "gcra" is not known`, []string{"--algorithm", "gcra"}},
		{exitUsage, `--accuracy "about" is not known`, []string{"--accuracy", "about"}},
		{exitUsage, "--accuracy leased goes with token_bucket", []string{"--algorithm", "sliding_log", "--accuracy", "leased"}},
		{exitUsage, `"mysql"`, []string{"--store", "mysql://127.0.0.1"}},
		{exitUsage, `--keys "gauss" is not known`, []string{"--keys", "gauss"}},
		{exitFailed, "needs a rate", []string{"--loop", "open"}},
		{exitFailed, "redisstore", []string{"--store", "redis://127.0.0.1:1"}},
	} {
		_, errs := operator{t: t}.run(c.exit, append([]string{"bench", "store"}, c.args...)...)
		if !strings.Contains(errs, c.want) {
			t.Errorf("caudal bench store %v says %q, want %q", c.args, errs, c.want)
		}
	}
}
