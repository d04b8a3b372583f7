package redisstore

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
)

// Callers who ask the same of one counter get what they would have got one after the
// other, in the order in which they came, and the counter is read and written once.
// Others in the same script call are not touched by it, nor by one that fails.
func TestShareOfTheSame(t *testing.T) {
	r := redistest.Start(t)
	s, err := Open(context.Background(), r.URL(), Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ses, err := s.link.session("test")
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []caudal.Limit{
		caudal.PerDay(12), caudal.Per(12, caudal.Year).WithBurst(12), caudal.PerDay(1).WithQueue(11, 0),
		caudal.PerDay(12).With(caudal.FixedWindow), caudal.PerDay(12).With(caudal.SlidingWindow), caudal.PerDay(12).With(caudal.SlidingLog),
	} {
		l, err := limit.Compile("", limit.String())
		if err != nil {
			t.Fatal(err)
		}
		wait := func(key string) *waiter {
			c := &caudal.Call{Limit: l, Cost: 1}
			return &waiter{ses: ses, done: make(chan struct{}), ask: &ask{
				forms: 1 << formOf(l), keys: []string{s.name(counterOf(l, key))},
				args: []string{string(s.appendCall(nil, c, 1, time.Now().UnixMicro()))},
			}}
		}
		r.Do("SET", s.name(counterOf(l, "bad")), "not ours", "PX", "60000")
		var batch []*waiter
		for i := range 20 {
			batch = append(batch, wait("hot"))
			if i%8 == 0 {
				batch = append(batch, wait("bad"), wait("other"))
			}
		}
		all := append([]*waiter(nil), batch...)
		s.askShared(batch)
		hot, other := 0, 0
		for i, w := range all {
			name, q := w.ask.keys[0], w.ask
			if name == s.name(counterOf(l, "bad")) {
				if q.err == nil || !strings.Contains(q.err.Error(), "BADSTATE") {
					t.Errorf("%s: a counter that cannot be read = %v, want BADSTATE", limit, q.err)
				}
				continue
			}
			if q.err != nil {
				t.Fatalf("%s: waiter %d = %v", limit, i, q.err)
			}
			n := &hot
			if name == s.name(counterOf(l, "other")) {
				n = &other
			}
			*n++
			var d caudal.Decision
			parseVerdict(q.verdicts).decide(l, counter{}, 1, q.now, 1, &d)
			if d.Allowed != (*n <= 12) || d.Remaining != uint64(max(12-*n, 0)) {
				t.Errorf("%s: caller %d of one counter: allowed %v, %d remain; want it as if each came alone", limit, *n, d.Allowed, d.Remaining)
			}
			if turn := time.Duration(*n-1) * 24 * time.Hour; limit.Algorithm == caudal.LeakyBucket && d.Allowed && d.Delay != turn {
				t.Errorf("%s: caller %d waits %s, want %s", limit, *n, d.Delay, turn)
			}
		}
		if hot != 20 || other != 3 {
			t.Errorf("%s: %d and %d callers were answered, want 20 and 3", limit, hot, other)
		}
	}
}
