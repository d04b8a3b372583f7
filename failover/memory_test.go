package failover

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
)

// rememberingFake is a store that remembers one denial.
type rememberingFake struct {
	*fake
	remembers bool
}

func (r *rememberingFake) Remembered(_ caudal.Instant, _ []caudal.Call, out []caudal.Decision) bool {
	if r.remembers {
		out[0] = caudal.Decision{Limit: 2, RetryAfter: time.Second}
	}
	return r.remembers
}

// A store that remembers a denial is not called for it; while it counts as gone,
// its memory is not asked: each limit then does what its policy says.
func TestRememberedDenialsNeedNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rememberingFake{fake: newFake(nil), remembers: true}
		calls := 0
		s := New(store, Options{OnCall: func(op string, _ time.Duration, _ string) {
			if op == opTake {
				calls++
			}
		}})
		defer mustClose(t, s)
		l := limit(t, "2/s", caudal.OnStoreError(caudal.FailOpen, 0))
		ask := func() caudal.Decision {
			t.Helper()
			out := make([]caudal.Decision, 1)
			if err := s.Take(context.Background(), caudal.Instant{}, []caudal.Call{{Limit: l, Key: []byte("k"), Cost: 1}}, out); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		if d := ask(); d.Allowed || d.RetryAfter != time.Second || d.Degraded || calls != 0 {
			t.Errorf("a remembered denial: %s after %d calls of the store, want a denial after none", show(d), calls)
		}
		store.remembers = false
		if d := ask(); !d.Allowed || calls != 1 {
			t.Errorf("nothing remembered: %s after %d calls of the store, want it asked", show(d), calls)
		}
		store.remembers = true
		store.set(fails(&kindError{KindTimeout}))
		for range 100 {
			store.remembers = false // so that it is called and found to be gone
			ask()
			time.Sleep(time.Millisecond)
		}
		store.remembers = true
		if d := ask(); !s.Degraded() || !d.Allowed || !d.Degraded {
			t.Errorf("a store that is gone (degraded %v): %s, want it passed by the policy", s.Degraded(), show(d))
		}
	})
}

// leasingFake is a store that has leased a few calls.
type leasingFake struct {
	*fake
	left int
}

func (l *leasingFake) Leased(_ caudal.Instant, _ []caudal.Call, out []caudal.Decision) bool {
	if l.left == 0 {
		return false
	}
	l.left--
	out[0] = caudal.Decision{Allowed: true, Charged: true, Limit: 9}
	return true
}

// What is leased is spent without a call of the store, also while it counts as gone:
// it is within the limit. Then each limit does what its policy says.
func TestLeasedNeedsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leasingFake{fake: newFake(nil), left: 1}
		s := New(store, Options{})
		defer mustClose(t, s)
		l := limit(t, "9/s", caudal.OnStoreError(caudal.FailClosed, 0), caudal.WithAccuracy(caudal.Leased))
		ask := func() caudal.Decision {
			t.Helper()
			d, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		if d := ask(); !d.Allowed || d.Degraded || d.Limit != 9 {
			t.Errorf("a leased call: %s, want it decided by the lease", show(d))
		}
		store.set(fails(&kindError{KindTimeout}))
		for range 100 {
			ask()
			time.Sleep(time.Millisecond)
		}
		if !s.Degraded() {
			t.Fatal("the store fails and does not count as gone")
		}
		store.left = 1
		if d := ask(); !d.Allowed || d.Degraded {
			t.Errorf("a leased call without the store: %s, want it decided by the lease", show(d))
		}
		if d := ask(); d.Allowed || !d.Unavailable {
			t.Errorf("the lease is spent: %s, want what the policy says", show(d))
		}
	})
}
