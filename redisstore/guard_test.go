package redisstore_test

import (
	"context"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// TestWhatADecisionCosts guards what does not depend on the machine: what a decision
// allocates, and what it makes Redis do, which is one round trip at most. Requests of
// several limits are in TestOneRoundTripPerRequest.
func TestWhatADecisionCosts(t *testing.T) {
	const times = 4000
	for _, c := range []struct {
		name     string
		limit    caudal.Limit
		accuracy caudal.Accuracy
		ready    int // calls before it is measured
		// At most so much, of all decisions together or of one.
		commands          int // of the client
		gets, sets        int // of the scripts
		allocs, in, bytes float64
	}{
		{name: "exact", limit: caudal.PerHour(1_000_000), ready: 10,
			commands: times, gets: times, sets: times, allocs: 9, in: 160, bytes: 50},
		{name: "exact window", limit: caudal.PerHour(1_000_000).With(caudal.FixedWindow), ready: 10,
			commands: times, gets: times, sets: times, allocs: 9, in: 160, bytes: 50},
		{name: "leased", limit: caudal.PerHour(1_000_000).WithBurst(500_000), accuracy: caudal.Leased, ready: 2000,
			commands: times / 10, gets: times, sets: times / 2, allocs: 0, in: 25, bytes: 10},
		{name: "leased window", limit: caudal.PerDay(4_000_000_000).With(caudal.SlidingWindow), accuracy: caudal.Leased, ready: 2000,
			commands: times / 10, gets: times, sets: times / 2, allocs: 0, in: 25, bytes: 10},
		{name: "denied and remembered", limit: caudal.PerDay(5).With(caudal.FixedWindow), ready: 10, allocs: 0, in: 1, bytes: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := redistest.Start(t)
			s := remembering(t, r.URL(), &counts{})
			l, err := c.limit.Compile("n", "s", caudal.WithAccuracy(c.accuracy))
			if err != nil {
				t.Fatal(err)
			}
			for range c.ready {
				take(t, s, caudal.Instant{}, l, "client", 1)
			}
			r.Do("CONFIG", "RESETSTAT")
			in, out := r.InfoInt("stats", "total_net_input_bytes"), r.InfoInt("stats", "total_net_output_bytes")
			allocs := testing.AllocsPerRun(times-1, func() { // and once before
				_, _ = s.TakeKey(context.Background(), caudal.Instant{}, l, "client", 1)
			})
			in, out = r.InfoInt("stats", "total_net_input_bytes")-in, r.InfoInt("stats", "total_net_output_bytes")-out
			if got := calls(r, "evalsha") + calls(r, "eval"); got > c.commands || c.commands == times && got != times {
				t.Errorf("%d decisions made %d script calls, want at most %d", times, got, c.commands)
			}
			if gets, sets := calls(r, "get"), calls(r, "set"); gets > c.gets || sets > c.sets {
				t.Errorf("%d decisions made %d reads and %d writes, want at most %d and %d", times, gets, sets, c.gets, c.sets)
			}
			// The questions of this test itself are some hundred bytes each.
			if perIn, perOut := float64(in)/times, (float64(out)-8000)/times; perIn > c.in || perOut > c.bytes {
				t.Errorf("a decision sent %.1f bytes and got %.1f, want at most %.0f and %.0f", perIn, perOut, c.in, c.bytes)
			}
			if allocs > c.allocs {
				t.Errorf("a decision allocated %.0f times, want at most %.0f", allocs, c.allocs)
			}
			t.Logf("%.0f allocations, %d script calls, %d bytes in, %d out", allocs, calls(r, "evalsha"), in, out)
		})
	}
}

// What is leased goes back when the store is closed: the next instance finds it.
func TestLeasesGoBackOnClose(t *testing.T) {
	r := redistest.Start(t)
	for _, limit := range []caudal.Limit{
		caudal.PerDay(10_000), caudal.PerDay(10_000).With(caudal.FixedWindow), caudal.PerDay(10_000).With(caudal.SlidingWindow),
	} {
		l, err := limit.Compile("n", "s", caudal.WithAccuracy(caudal.Leased))
		if err != nil {
			t.Fatal(err)
		}
		const spent = 300
		first, second := open(t, r.URL(), redisstore.Options{}), open(t, r.URL(), redisstore.Options{})
		for range spent {
			take(t, first, caudal.Instant{}, l, "k", 1)
		}
		if d := take(t, second, caudal.Instant{}, l, "k", 0); d.Remaining > 10_000-spent {
			t.Errorf("%s: %d remain for others while a lease is out, want at most what is not spent", limit, d.Remaining)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if d := take(t, second, caudal.Instant{}, l, "k", 0); d.Remaining != 10_000-spent {
			t.Errorf("%s: %d remain after the holder closed, want %d", limit, d.Remaining, 10_000-spent)
		}
		if _, err := first.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1); err == nil {
			t.Errorf("%s: a closed store decided a call from its lease", limit)
		}
	}
}
