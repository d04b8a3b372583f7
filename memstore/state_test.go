package memstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

// never is an interval at which nothing is written by itself.
const never = 1000 * time.Hour

func openState(tb testing.TB, path string, o memstore.Options) *memstore.Store {
	tb.Helper()
	s, err := memstore.Open(o, memstore.StateOptions{Path: path, Interval: never, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatalf("Open(%s) = %v", path, err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func closeStore(tb testing.TB, s *memstore.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Fatalf("Close() = %v", err)
	}
}

func TestStoreWithAStateFileKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock caudal.Clock) caudal.Store {
		return openState(t, filepath.Join(t.TempDir(), "state"), memstore.Options{Clock: clock})
	}, storetest.Options{Rounds: 2, Traces: 2})
}

// restored are limits of each algorithm that keep much between calls.
var restored = []caudal.Limit{
	caudal.PerMinute(40).WithBurst(15),
	caudal.PerMinute(30).WithQueue(12, 0),
	caudal.PerMinute(20).With(caudal.FixedWindow),
	caudal.PerMinute(20).With(caudal.SlidingLog),
	caudal.PerMinute(20).With(caudal.SlidingWindow),
	caudal.PerDay(60).With(caudal.FixedWindow),
	caudal.PerHour(100),
}

// TestReopenedStoreDecidesAsOneThatNeverClosed runs the same calls through a store
// that is closed and opened again and again, and through one that lives on.
func TestReopenedStoreDecidesAsOneThatNeverClosed(t *testing.T) {
	for _, seed := range [][]byte{nil, []byte("supplied")} {
		t.Run(fmt.Sprintf("seed %q", seed), func(t *testing.T) { compareReopened(t, seed) })
	}
}

func compareReopened(t *testing.T, seed []byte) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "state")
	clock := storetest.NewClock(storetest.Start)
	options := memstore.Options{Clock: clock, Seed: seed}
	kept, lives := openState(t, path, options), memstore.New(options)
	var compiled []*caudal.Compiled
	for n, l := range restored {
		c, err := l.Compile("", fmt.Sprintf("scope %d", n))
		if err != nil {
			t.Fatal(err)
		}
		compiled = append(compiled, c)
	}
	r := rand.New(rand.NewPCG(7, 9))
	same := func(what string, a, b caudal.Decision) {
		t.Helper()
		a.Receipt, b.Receipt = caudal.Receipt{}, caudal.Receipt{}
		if a != b {
			t.Fatalf("%s = %+v after a restart, want %+v", what, a, b)
		}
	}
	for step := range 6000 {
		clock.Advance(time.Duration(r.IntN(700)) * time.Millisecond)
		c, key := compiled[r.IntN(len(compiled))], fmt.Sprintf("key %d", r.IntN(40))
		cost := uint32(r.IntN(4))
		a, err := kept.TakeKey(ctx, caudal.Instant{}, c, key, cost)
		if err != nil {
			t.Fatal(err)
		}
		b, err := lives.TakeKey(ctx, caudal.Instant{}, c, key, cost)
		if err != nil {
			t.Fatal(err)
		}
		same(fmt.Sprintf("step %d: %v %s cost %d", step, c.Limit(), key, cost), a, b)
		switch r.IntN(30) {
		case 0: // a receipt means nothing to the next process, so it is used at once
			if a.Charged && cost > 0 {
				for s, d := range map[*memstore.Store]caudal.Decision{kept: a, lives: b} {
					if err := s.Refund(ctx, caudal.Instant{}, []caudal.Refund{{Receipt: d.Receipt, N: 1}}); err != nil {
						t.Fatal(err)
					}
				}
			}
		case 1:
			for _, s := range []*memstore.Store{kept, lives} {
				if err := s.Reset(ctx, c, key); err != nil {
					t.Fatal(err)
				}
			}
		case 2:
			if err := kept.Sync(); err != nil {
				t.Fatal(err)
			}
		case 3:
			closeStore(t, kept)
			clock.Advance(time.Duration(r.IntN(3000)) * time.Millisecond)
			kept = openState(t, path, options)
		case 4:
			call := []caudal.Call{{Limit: compiled[1], Key: []byte(key), Cost: 1, MinDelay: time.Second},
				{Limit: compiled[2], Key: []byte(key), Cost: 30, CountDenied: true}}
			var out [2][2]caudal.Decision
			for n, s := range []*memstore.Store{kept, lives} {
				if err := s.Take(ctx, caudal.Instant{}, call, out[n][:]); err != nil {
					t.Fatal(err)
				}
			}
			same("batch 0", out[0][0], out[1][0])
			same("batch 1", out[0][1], out[1][1])
		}
	}
	if err := kept.Sync(); err != nil {
		t.Fatal(err)
	}
}

// steppedClock tells elapsed and wall time apart.
type steppedClock struct{ mono, wall int64 }

func (c *steppedClock) Now() caudal.Instant { return caudal.Instant{Mono: c.mono, Wall: c.wall} }

// TestElapsedTimeAcrossARestart: what passed between two processes counts by the
// wall clock, and never backwards.
func TestElapsedTimeAcrossARestart(t *testing.T) {
	const second = 1_000_000
	start := storetest.Start.UnixMicro()
	for _, c := range []struct {
		name    string
		mono    int64 // of the new process
		passed  int64 // on the wall
		allowed bool
	}{
		{"the wall clock ran on", start + 7200*second, 3600 * second, true},
		{"the new process counts from an earlier instant", start - 7200*second, 3600 * second, true},
		{"not long enough", start + 7200*second, 3599 * second, false},
		{"the wall clock was set back", start - 7200*second, -7200 * second, false},
	} {
		for _, limit := range []caudal.Limit{caudal.PerHour(1), caudal.PerHour(1).With(caudal.SlidingLog), caudal.PerHour(1).WithQueue(0, 0)} {
			t.Run(c.name+" "+limit.Algorithm.String(), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				first := &steppedClock{start, start}
				l, err := limit.Compile("", "s")
				if err != nil {
					t.Fatal(err)
				}
				s := openState(t, path, memstore.Options{Clock: first})
				take := func(s *memstore.Store) caudal.Decision {
					d, err := s.TakeKey(t.Context(), caudal.Instant{}, l, "a", 1)
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				take(s)
				closeStore(t, s)
				then := &steppedClock{c.mono, start + c.passed}
				s = openState(t, path, memstore.Options{Clock: then})
				d := take(s)
				if d.Allowed != c.allowed {
					t.Fatalf("a second call = %+v, want allowed %v", d, c.allowed)
				}
				if want := time.Hour - max(0, time.Duration(c.passed)*time.Microsecond); !d.Allowed && d.RetryAfter != want {
					t.Errorf("retry after %v, want %v", d.RetryAfter, want)
				}
			})
		}
	}
}

// TestExpiredStateIsNotRestored and neither does it stay in the file.
func TestExpiredStateIsNotRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	clock := storetest.NewClock(storetest.Start)
	s := openState(t, path, memstore.Options{Clock: clock})
	charge(t, s, caudal.PerMinute(5), "short", 1000)
	charge(t, s, caudal.PerDay(5), "long", 10)
	closeStore(t, s)
	before := fileSize(t, path)
	clock.Advance(time.Hour)
	s = openState(t, path, memstore.Options{Clock: clock})
	if got := s.StateStats(); got.Restored != 10 || got.Expired != 1000 {
		t.Errorf("restored %d and expired %d, want 10 and 1000", got.Restored, got.Expired)
	}
	if after := fileSize(t, path); after > before/2 {
		t.Errorf("the file has %d bytes after, %d before", after, before)
	}
}

func charge(tb testing.TB, s *memstore.Store, limit caudal.Limit, scope string, keys int) {
	tb.Helper()
	l, err := limit.Compile("", scope)
	if err != nil {
		tb.Fatal(err)
	}
	for n := range keys {
		if _, err := s.TakeKey(context.Background(), caudal.Instant{}, l, fmt.Sprintf("key %d", n), 1); err != nil {
			tb.Fatal(err)
		}
	}
}

func fileSize(tb testing.TB, path string) int64 {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		tb.Errorf("mode of %s = %v, want 0600", path, info.Mode())
	}
	return info.Size()
}
