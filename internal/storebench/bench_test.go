package storebench

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/redisstore"
)

func compile(t *testing.T, limit caudal.Limit) *caudal.Compiled {
	t.Helper()
	c, err := limit.Compile("bench", "bench", caudal.WithAccuracy(caudal.Exact))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRunMeasuresMemoryAndItsFloor(t *testing.T) {
	store := Store("memory", memstore.New(memstore.Options{}), compile(t, caudal.PerDay(1)))
	var lines []string
	results, err := Run(t.Context(), Options{Floor: MemoryFloor(), Store: store, Distributions: []string{"hot", "churn"}, Keys: 10, Callers: 2,
		Warmup: time.Millisecond, Duration: 20 * time.Millisecond, Progress: func(line string) { lines = append(lines, line) }})
	if err != nil || len(results) != 8 || len(lines) != 8 {
		t.Fatalf("Run() = %d results, %v and %d lines; want 8 of each", len(results), err, len(lines))
	}
	for i, r := range results {
		ours := r.Target == "memory"
		if ours != (i%2 == 1) || r.Decisions == 0 || r.Errors != 0 || r.Calls != nil || r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.P999 || r.P999 > r.Max*1.01 {
			t.Errorf("result %d = %+v is not plausible", i, r)
		}
		// The one of a hot key passed in the warm-up; every new key passes once.
		if denied := r.Denied > 0.9; denied != (ours && r.Keys == "hot") {
			t.Errorf("result %d = %+v: denied share is wrong", i, r)
		}
		if (r.OfFloor > 0) != (ours && r.Loop == Closed) || (r.Rate > 0) != (r.Loop == Open) {
			t.Errorf("result %d = %+v: ratio or rate is wrong", i, r)
		}
	}
	var table, data strings.Builder
	if err := Print(&table, results); err != nil || strings.Count(table.String(), "\n") < 9 {
		t.Errorf("Print() = %v:\n%s", err, table.String())
	}
	var read []Result
	if err := PrintJSON(&data, results); err != nil || json.Unmarshal([]byte(data.String()), &read) != nil || read[3] != results[3] {
		t.Errorf("PrintJSON() = %v, want the results back:\n%s", err, data.String())
	}
}

// calls counts the calls of Redis.
type calls struct{ atomic.Int64 }

func (c *calls) Call(string, time.Duration, error) { c.Add(1) }
func (c *calls) DeniedLocally()                    {}
func (c *calls) Connected(bool, error)             {}

func TestRunCountsCallsOfRedis(t *testing.T) {
	r := redistest.Start(t)
	counted := &calls{}
	s, err := redisstore.Open(t.Context(), r.URL(), redisstore.Options{Observer: counted})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	floor, closeFloor, err := RedisFloor(r.URL(), "floor:")
	if err != nil {
		t.Fatal(err)
	}
	defer closeFloor()
	store := Store("redis", s, compile(t, caudal.PerHour(1_000_000)))
	store.Calls = counted.Load
	results, err := Run(t.Context(), Options{Floor: floor, Store: store, Callers: 4, Loops: []string{Open}, Rate: 200, Duration: 100 * time.Millisecond})
	if err != nil || len(results) != 2 {
		t.Fatalf("Run() = %+v, %v; want 2 results", results, err)
	}
	for _, r := range results {
		if r.Decisions+r.Unsent != 20 || r.Calls == nil || *r.Calls <= 0 || *r.Calls > 1 || r.Errors != 0 {
			t.Errorf("200/s for 100 ms = %+v, want 20 decisions by at most 20 calls", r)
		}
	}
}

// In an open loop a stall counts for all calls that it held up: what a closed loop
// does not see.
func TestOpenLoopTakesTimesFromWhenCallsWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once sync.Once
		stall := Target{Name: "stall", Ask: func(context.Context, string) (bool, error) {
			once.Do(func() { time.Sleep(time.Second) })
			return true, nil
		}}
		l := load{loop: Open, distribution: "hot", callers: 1, rate: 100, keys: newKeys("hot", keyNames(1))}
		r, err := l.runPaced(t.Context(), stall, 2*time.Second, false)
		if err != nil || r.Decisions != 200 || r.Unsent != 0 {
			t.Fatalf("run = %+v, %v; want 200 decisions", r, err)
		}
		// The first was held up for 1 s, and the 99 behind it for 0.99 s, 0.98 s ...
		if r.P50 > 20_000 || r.P99 < 970_000 || r.Max < 999_000 {
			t.Errorf("a stall of 1 s in 2 s = %+v, want p50 of about 0.01 s, p99 of 0.98 s and max of 1 s", r)
		}
	})
}

// A store that cannot keep the rate ends the run all the same.
func TestOpenLoopGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := Target{Name: "slow", Ask: func(context.Context, string) (bool, error) {
			time.Sleep(100 * time.Millisecond)
			return true, nil
		}}
		l := load{loop: Open, distribution: "hot", callers: 1, rate: 100, keys: newKeys("hot", keyNames(1))}
		start := time.Now()
		r, err := l.runPaced(t.Context(), slow, time.Second, false)
		if took := time.Since(start); err != nil || took > 3*time.Second || r.Decisions+r.Unsent != 100 || r.Unsent < 70 {
			t.Errorf("10/s asked for 100/s = %+v, %v after %v; want 100 made and unsent within 2 s", r, err, took)
		}
		var out strings.Builder
		if err := Print(&out, []Result{r}); err != nil || !strings.Contains(out.String(), "slow, keys hot: could not keep 100 a second") {
			t.Errorf("Print() = %v:\n%s", err, &out)
		}
	})
}

func TestRunTellsErrors(t *testing.T) {
	broken := Target{Name: "broken", Ask: func(context.Context, string) (bool, error) { return false, errors.New("no route") }}
	_, err := Run(t.Context(), Options{Store: broken, Callers: 1, Duration: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "no route") {
		t.Errorf("Run() = %v, want what failed", err)
	}
	if _, _, err := RedisFloor("redis://127.0.0.1:1", "x"); err == nil {
		t.Error("RedisFloor() without a server = nil error")
	}
	if _, _, err := RedisFloor("mysql://127.0.0.1:1", "x"); err == nil {
		t.Error("RedisFloor() of another scheme = nil error")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Store: MemoryFloor(), Callers: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %v, want the context's error", err)
	}
}

func TestRunRefuses(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"no store":          func(o *Options) { o.Store = Target{} },
		"0 callers":         func(o *Options) { o.Callers = 0 },
		"1025 callers":      func(o *Options) { o.Callers = 1025 },
		"10000001 keys":     func(o *Options) { o.Keys = 10_000_001 },
		"a rate of -1":      func(o *Options) { o.Rate = -1 },
		"needs a rate":      func(o *Options) { o.Loops = []string{Open} },
		`loop "both"`:       func(o *Options) { o.Loops = []string{"both"} },
		`keys "gauss"`:      func(o *Options) { o.Distributions = []string{"gauss"} },
		"from 0 to 1h0m0s":  func(o *Options) { o.Duration = 2 * time.Hour },
		"warm up and durat": func(o *Options) { o.Warmup = -1 },
	} {
		o := Options{Store: MemoryFloor(), Callers: 1}
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run(%+v) = %v, want %q", o, err, want)
		}
	}
}

func TestDistributions(t *testing.T) {
	names := keyNames(1000)
	for _, c := range []struct {
		name        string
		least, most int // different keys among 10 000
	}{{"hot", 1, 1}, {"zipf", 100, 999}, {"uniform", 990, 1000}, {"churn", 10_000, 10_000}} {
		k := newKeys(c.name, names)
		seen := map[string]int{}
		for range 2 { // callers
			next := k.walker()
			for range 5000 {
				seen[next()]++
			}
		}
		if n := len(seen); n < c.least || n > c.most {
			t.Errorf("%s: %d different keys of 10 000 calls, want %d to %d", c.name, n, c.least, c.most)
		}
	}
}
