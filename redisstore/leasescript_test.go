package redisstore

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
	"github.com/caudal-dev/caudal/internal/redistest"
)

// scriptStep is one step of a timeline of a leased counter.
type scriptStep struct {
	at                float64 // seconds
	take              uint32  // an exact call of somebody else; 0 peeks
	want, spent, back uint64  // the holder asks instead, when one is set
	reset             bool
	remaining, out    uint64 // afterwards
}

// What the scripts do with leases, on a clock that the test sets. A bucket of 100 a
// second and a burst of 100, narrow and wide; the wide one was emptied to 100 before
// and refills no further, because it is asked in one instant.
func TestLeaseScripts(t *testing.T) {
	bucket := []scriptStep{
		{at: 0, want: 40, remaining: 100, out: 40},
		{at: 0, remaining: 60},
		{at: 0, take: 60, remaining: 0},
		{at: 0.5, remaining: 50},
		{at: 1, remaining: 60}, // only to the burst less what is out
		{at: 1.9, remaining: 60},
		{at: 1.9, spent: 30, remaining: 60}, // consumed now: 10 out, 30 used
		{at: 2, remaining: 70},              // the 10 are lost, as if spent now
		{at: 2.2, remaining: 90},
		{at: 2.3, remaining: 100},
		{at: 3, want: 1000, remaining: 100, out: 50}, // half of what is left
		{at: 3, back: 20, remaining: 70},
		{at: 3, want: 10, remaining: 70, out: 40}, // one lease per holder
		{at: 3, reset: true, remaining: 60},       // what is out stays out
		{at: 3, back: 40, remaining: 100},
		{at: 9, spent: 50, remaining: 100}, // ended long ago: nothing to say
	}
	window := []scriptStep{
		{at: 0, want: 40, remaining: 100, out: 40},
		{at: 0, remaining: 60},
		{at: 0.1, take: 60, remaining: 0},
		{at: 0.2, back: 15, remaining: 15},
		{at: 0.3, spent: 25, remaining: 15}, // counted when it was leased
		{at: 0.3, take: 15, remaining: 0},
	}
	r := redistest.Start(t)
	s, err := Open(context.Background(), r.URL(), Options{CallerTime: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, c := range []struct {
		limit caudal.Limit
		drain uint32
		steps []scriptStep
	}{
		{caudal.PerSecond(100), 0, bucket},
		{caudal.PerSecond(100).With(caudal.FixedWindow), 0, window},
		{caudal.PerSecond(100).With(caudal.SlidingWindow), 0, window},
		{caudal.PerSecond(1).WithBurst(4_000_000_000), 4_000_000_000 - 100, []scriptStep{
			{at: 0, want: 40, remaining: 100, out: 40},
			{at: 0, take: 60, remaining: 0},
			{at: 1, remaining: 1},
			{at: 1, spent: 30, remaining: 1},
			{at: 2, remaining: 2}, // the 10 that ended are lost
			{at: 60, remaining: 60},
		}},
	} {
		runScriptSteps(t, s, c.limit, c.drain, c.steps)
	}
}

func runScriptSteps(t *testing.T, s *Store, limit caudal.Limit, drain uint32, steps []scriptStep) {
	t.Helper()
	l, err := limit.Compile("", limit.String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, start := context.Background(), caudal.At(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
	ses, err := s.link.session("test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.TakeKey(ctx, start, l, "k", drain); err != nil {
		t.Fatal(err)
	}
	for i, step := range steps {
		at := start.Add(time.Duration(step.at * float64(time.Second)))
		var d caudal.Decision
		w := &wanted{lease: &lease{limit: l, ends: at.Add(time.Hour)}, limit: l, counter: counterOf(l, "k"), want: step.want, spent: step.spent, back: step.back, at: start.Wall}
		switch {
		case step.want+step.spent+step.back > 0:
			s.leases.shard(w.hash).m = map[keyhash.Hash]*lease{w.hash: w.lease}
			err = s.askLease(ctx, ses, w, at, 0, &d)
			if got := w.lease.left; step.want > 0 && got != min(step.out, step.want) && got != step.out {
				t.Errorf("%s, step %d at %v: the holder got %d, want %d", limit, i, step.at, got, step.out)
			}
		case step.reset:
			if err = s.Reset(ctx, l, "k"); err == nil {
				d, err = s.TakeKey(ctx, at, l, "k", 0)
			}
		default:
			d, err = s.TakeKey(ctx, at, l, "k", step.take)
		}
		if err != nil {
			t.Fatalf("%s, step %d at %v: %v", limit, i, step.at, err)
		}
		if !d.Allowed || d.Remaining != step.remaining {
			t.Errorf("%s, step %d at %v: allowed %v, %d remain, want %d", limit, i, step.at, d.Allowed, d.Remaining, step.remaining)
		}
	}
}
