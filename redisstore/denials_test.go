package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// counts is an observer that counts.
type counts struct {
	calls, local, up, down atomic.Int64
	failed                 atomic.Int64
}

func (c *counts) Call(_ string, _ time.Duration, err error) {
	c.calls.Add(1)
	if err != nil {
		c.failed.Add(1)
	}
}
func (c *counts) DeniedLocally() { c.local.Add(1) }
func (c *counts) Connected(up bool, _ error) {
	if up {
		c.up.Add(1)
	} else {
		c.down.Add(1)
	}
}

// remembering opens a store that remembers denials, and waits until it does.
func remembering(t testing.TB, url string, seen *counts) *redisstore.Store {
	t.Helper()
	s := open(t, url, redisstore.Options{Denials: 1000, Observer: seen})
	for deadline := time.Now().Add(10 * time.Second); !s.RemembersDenials(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the store does not remember denials after 10 s")
		}
	}
	return s
}

// A counter that denies until T is not asked again before T for that cost or more;
// it is for less.
func TestDenialsAnsweredLocally(t *testing.T) {
	r := redistest.Start(t)
	seen := &counts{}
	s := remembering(t, r.URL(), seen)
	for _, limit := range everyAlgorithm(10) {
		l := compile(t, limit)
		take(t, s, caudal.Instant{}, l, "k", 8)
		first := take(t, s, caudal.Instant{}, l, "k", 5)
		before := seen.local.Load()
		again := take(t, s, caudal.Instant{}, l, "k", 5)
		more := take(t, s, caudal.Instant{}, l, "k", 6)
		local := seen.local.Load() - before
		if limit.Algorithm == caudal.LeakyBucket {
			if local != 0 {
				t.Errorf("%s: %d calls denied locally, want none: a turn may be freed", limit, local)
			}
			continue
		}
		if local != 2 || again.Allowed || more.Allowed {
			t.Errorf("%s: %d of 2 calls denied locally (%+v, %+v), want both", limit, local, again, more)
		}
		if again.RetryAfter <= 0 || again.RetryAfter > first.RetryAfter || again.Limit != 10 || again.Never {
			t.Errorf("%s: %+v, want a wait of at most %s", limit, again, first.RetryAfter)
		}
		if d := take(t, s, caudal.Instant{}, l, "k", 2); !d.Allowed {
			t.Errorf("%s: a call of cost 2 = %+v, want allowed: only 5 and more were denied", limit, d)
		}
		if d := take(t, s, caudal.Instant{}, l, "k", 11); !d.Never {
			t.Errorf("%s: a call above the limit = %+v, want never", limit, d)
		}
	}
}

// Remembered answers what Take would without Redis, and nothing else: not before a
// denial, not after a refund, not for a cost that fits.
func TestRemembered(t *testing.T) {
	s := remembering(t, redistest.Start(t).URL(), &counts{})
	l := compile(t, caudal.PerHour(3).With(caudal.FixedWindow))
	other := compile(t, caudal.PerDay(100))
	remembered := func(want bool, calls ...caudal.Call) {
		t.Helper()
		out := make([]caudal.Decision, len(calls))
		if got := s.Remembered(caudal.Instant{}, calls, out); got != want {
			t.Errorf("Remembered(%d calls of cost %d) = %v, want %v", len(calls), calls[0].Cost, got, want)
		} else if got && (out[0].Allowed || out[0].RetryAfter <= 0) {
			t.Errorf("Remembered: %+v, want a denial with a wait", out[0])
		}
	}
	call := func(cost uint32) caudal.Call { return caudal.Call{Limit: l, Key: []byte("k"), Cost: cost} }
	remembered(false, call(2))
	d := take(t, s, caudal.Instant{}, l, "k", 2)
	take(t, s, caudal.Instant{}, l, "k", 2)
	remembered(true, call(2))
	remembered(true, call(3), caudal.Call{Limit: other, Key: []byte("k"), Cost: 1})
	remembered(false, call(1))
	shadow := call(2)
	shadow.Mode = caudal.Shadow
	remembered(false, shadow)
	if err := s.Refund(context.Background(), caudal.Instant{}, []caudal.Refund{{Receipt: d.Receipt, N: 2, Left: true}}); err != nil {
		t.Fatal(err)
	}
	remembered(false, call(2))
}

// When the time has come, Redis is asked, and the call passes exactly then.
func TestDenialsEnd(t *testing.T) {
	r := redistest.Start(t)
	s := remembering(t, r.URL(), &counts{})
	l := compile(t, caudal.PerSecond(10).WithBurst(1))
	take(t, s, caudal.Instant{}, l, "k", 1)
	d := take(t, s, caudal.Instant{}, l, "k", 1)
	time.Sleep(d.RetryAfter + time.Millisecond)
	if d := take(t, s, caudal.Instant{}, l, "k", 1); !d.Allowed {
		t.Errorf("a call after its wait = %+v, want allowed", d)
	}
}

// A known denial answers a request of several limits. It names itself alone; the
// others are unasked and count nothing. A limit that is not enforced makes Redis be
// asked.
func TestDenialsOfSeveralLimits(t *testing.T) {
	r := redistest.Start(t)
	seen := &counts{}
	s := remembering(t, r.URL(), seen)
	narrow, broad := compile(t, caudal.PerHour(1)), compile(t, caudal.PerHour(100).With(caudal.SlidingLog))
	calls := []caudal.Call{{Limit: broad, Key: []byte("k"), Cost: 1}, {Limit: narrow, Key: []byte("k"), Cost: 1}}
	out := make([]caudal.Decision, 2)
	request := func() caudal.Verdict {
		t.Helper()
		if err := s.Take(context.Background(), caudal.Instant{}, calls, out); err != nil {
			t.Fatal(err)
		}
		return caudal.Judge(calls, out)
	}
	request()
	request()
	v := request()
	if seen.local.Load() != 1 || v.Allowed || v.Nearest != 1 || !out[0].Unasked || out[0].Charged || out[1].Unasked {
		t.Errorf("a known denial gives %+v, want limit 1 denied and limit 0 unasked, without Redis", out)
	}
	if v.RetryAfter <= 0 || v.RetryAfter > time.Hour {
		t.Errorf("retry after = %s, want up to an hour", v.RetryAfter)
	}
	calls[0].Mode = caudal.Shadow
	if request(); seen.local.Load() != 1 || out[0].Unasked {
		t.Errorf("with a shadow limit: %+v, want Redis asked", out)
	}
	calls[0].Mode = caudal.Enforce
	if d := take(t, s, caudal.Instant{}, broad, "k", 0); d.Remaining != 99 {
		t.Errorf("the broad limit has %d remaining, want 99", d.Remaining)
	}
}

// A refund, a credit and a reset end a denial on other instances within 100 ms.
func TestDenialsEndWithARefund(t *testing.T) {
	r := redistest.Start(t)
	seen := &counts{}
	a, b := remembering(t, r.URL(), seen), open(t, r.URL(), redisstore.Options{})
	l := compile(t, caudal.PerHour(1))
	ctx := context.Background()
	var receipt caudal.Receipt
	for name, mend := range map[string]func(key string) error{
		"refund": func(string) error { return b.Refund(ctx, caudal.Instant{}, []caudal.Refund{{Receipt: receipt, N: 1}}) },
		"credit": func(k string) error {
			return b.Refund(ctx, caudal.Instant{}, []caudal.Refund{{Limit: l, Key: k, N: 1}})
		},
		"reset": func(k string) error { return b.Reset(ctx, l, k) },
	} {
		receipt = take(t, a, caudal.Instant{}, l, name, 1).Receipt
		take(t, a, caudal.Instant{}, l, name, 1)
		before := seen.local.Load()
		if take(t, a, caudal.Instant{}, l, name, 1); seen.local.Load() == before {
			t.Fatalf("%s: the denial is not remembered", name)
		}
		if err := mend(name); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for !take(t, a, caudal.Instant{}, l, name, 1).Allowed {
			if time.Since(start) > 5*time.Second {
				t.Fatalf("after a %s on another instance the denial stays", name)
			}
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("after a %s on another instance the denial stayed for %s, want at most 100 ms", name, took)
		}
	}
}

// While the channel is down nothing is remembered; after a restart, which forgot
// the counters, no old denial is left.
func TestDenialsEmptiedOnReconnect(t *testing.T) {
	r := redistest.Start(t)
	seen := &counts{}
	s := remembering(t, r.URL(), seen)
	l := compile(t, caudal.PerHour(1))
	take(t, s, caudal.Instant{}, l, "k", 1)
	take(t, s, caudal.Instant{}, l, "k", 1)
	r.Kill()
	for deadline := time.Now().Add(5 * time.Second); s.RemembersDenials() && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if _, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1); !errors.Is(err, caudal.ErrStore) {
		t.Errorf("TakeKey with Redis killed = %v, want a failure and no old denial", err)
	}
	r.Restart()
	eventually(t, "TakeKey with Redis back", func() error { return ask(s, l, "other") })
	if d := take(t, s, caudal.Instant{}, l, "k", 1); !d.Allowed {
		t.Errorf("TakeKey after a restart without persistence = %+v, want allowed", d)
	}
	if seen.down.Load() == 0 || seen.up.Load() < 2 {
		t.Errorf("the observer heard of %d losses and %d connections, want at least 1 and 2", seen.down.Load(), seen.up.Load())
	}
}

// A limit whose numbers changed is asked for at once; the same limit loaded again
// keeps its denials, until they are dropped.
func TestDenialsOfAChangedLimit(t *testing.T) {
	r := redistest.Start(t)
	seen := &counts{}
	s := remembering(t, r.URL(), seen)
	l := compile(t, caudal.PerHour(1))
	take(t, s, caudal.Instant{}, l, "k", 1)
	take(t, s, caudal.Instant{}, l, "k", 1)
	if take(t, s, caudal.Instant{}, compile(t, caudal.PerHour(1)), "k", 1); seen.local.Load() != 1 {
		t.Error("the same limit, loaded again, is not denied locally")
	}
	s.ForgetDenials(func(*caudal.Compiled) bool { return true })
	if take(t, s, caudal.Instant{}, l, "k", 1); seen.local.Load() != 1 {
		t.Error("a dropped denial still answers")
	}
	if d := take(t, s, caudal.Instant{}, compile(t, caudal.PerHour(2)), "k", 1); !d.Allowed {
		t.Errorf("the limit raised to 2 = %+v, want allowed at once", d)
	}
}

// However many keys are denied, what is remembered is bounded.
func TestDenialsAreBounded(t *testing.T) {
	r := redistest.Start(t)
	seen := &counts{}
	s := open(t, r.URL(), redisstore.Options{Denials: 64, Observer: seen})
	l := compile(t, caudal.PerHour(1))
	awaitDenials(t, s, l)
	for i := range 1000 {
		key := "k" + strconv.Itoa(i)
		take(t, s, caudal.Instant{}, l, key, 1)
		take(t, s, caudal.Instant{}, l, key, 1)
	}
	before := seen.local.Load()
	for i := range 1000 {
		take(t, s, caudal.Instant{}, l, "k"+strconv.Itoa(i), 1)
	}
	if n := seen.local.Load() - before; n > 128 {
		t.Errorf("%d of 1000 denials were remembered, want at most about 64", n)
	}
}
