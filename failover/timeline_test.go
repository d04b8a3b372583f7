package failover

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
)

// faults are the ways in which a store can be gone.
var faults = []struct {
	name  string
	fault func(release <-chan struct{}) func(context.Context) error
	kind  string
}{
	{"refuses", func(<-chan struct{}) func(context.Context) error { return fails(errRefused) }, "connection"},
	{"never answers", func(<-chan struct{}) func(context.Context) error { return hangs }, KindTimeout},
	{"never answers and takes no notice", deaf, KindTimeout},
	{"answers too late", func(<-chan struct{}) func(context.Context) error { return slow(20 * ms) }, KindTimeout},
	{"panics", func(<-chan struct{}) func(context.Context) error {
		return func(context.Context) error { panic("fake: broken") }
	}, KindPanic},
}

// callers asks the store at a steady rate until the time is over, each call on
// its own goroutine, and hands what came of each to see.
func callers(t *testing.T, s *Store, l *caudal.Compiled, every, length time.Duration, see func(d caudal.Decision, took time.Duration)) {
	var all sync.WaitGroup
	for begun := time.Now(); time.Since(begun) < length; time.Sleep(every) {
		all.Go(func() {
			asked := time.Now()
			d := take(t, s, l, "k")
			see(d, time.Since(asked))
		})
	}
	all.Wait()
}

// TestC79SlowStoreIsNoWorseThanADeadOne: a store that accepts and never answers,
// 500 calls a second for 30 s. Nobody waits longer than the deadline, nobody waits
// at all once it is known, nobody is denied for it, and nothing piles up.
func TestC79SlowStoreIsNoWorseThanADeadOne(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				store := newFake(nil)
				s := New(store, Options{})
				defer mustClose(t, s)
				defer close(release)
				time.Sleep(time.Second)
				store.set(f.fault(release))

				l, begun := limit(t, "1000000/s"), time.Now()
				var waited, denied, exact atomic.Int64
				callers(t, s, l, 2*ms, 30*time.Second, func(d caudal.Decision, took time.Duration) {
					if took > DefaultDeadline+ms { // 1 ms of scheduling
						t.Errorf("a call took %s, want at most %s", took, DefaultDeadline)
					}
					if took > 0 {
						waited.Add(1)
					}
					if !d.Allowed {
						denied.Add(1)
					}
					if !d.Degraded {
						exact.Add(1)
					}
				})
				if denied.Load() > 0 || exact.Load() > 0 {
					t.Errorf("%d calls were denied and %d not marked degraded, want none", denied.Load(), exact.Load())
				}
				if most := int64(50*ms) / int64(2*ms); waited.Load() > most {
					t.Errorf("%d calls waited, want at most the %d of the first 50 ms", waited.Load(), most)
				}
				if n := store.most.Load(); n > 30+probesInFlight {
					t.Errorf("the store had up to %d calls at once, want them bounded", n)
				}
				st := s.State()
				if !st.Degraded || st.Kind != f.kind || st.Since.Sub(begun) > 50*ms || st.Err == nil {
					t.Errorf("State() = %+v, want degraded within 50 ms, of kind %s", st, f.kind)
				}
			})
		})
	}
}

// TestDeadStoreIsFoundWithin50ms counts from the first call that it fails,
// whatever the traffic is and was.
func TestDeadStoreIsFoundWithin50ms(t *testing.T) {
	for _, f := range faults {
		for _, traffic := range []struct {
			name  string
			every time.Duration
		}{{"one call", minute}, {"ten a second", 100 * ms}, {"a thousand a second", ms}, {"twenty thousand a second", 50 * time.Microsecond}} {
			t.Run(f.name+"/"+traffic.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					store := newFake(nil)
					s := New(store, Options{})
					defer mustClose(t, s)
					defer close(release)
					l := limit(t, "1000000/s")
					callers(t, s, l, traffic.every, 200*ms, func(d caudal.Decision, _ time.Duration) {
						if d.Degraded {
							t.Error("degraded while the store was fine")
						}
					})
					store.set(f.fault(release))
					died := time.Now()
					callers(t, s, l, traffic.every, 49*ms, func(caudal.Decision, time.Duration) {})
					time.Sleep(50*ms - min(50*ms, time.Since(died)))
					if since := s.State().Since.Sub(died); !s.Degraded() || since > 50*ms {
						t.Errorf("50 ms after the store died: degraded %v, since %s after", s.Degraded(), since)
					}
				})
			})
		}
	}
}

// TestLateStoreAtTheStart: a store that is not there yet shows at once, without a
// call, and is used when it comes.
func TestLateStoreAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		store.set(fails(errRefused))
		s := New(store, Options{})
		defer mustClose(t, s)
		if d := take(t, s, limit(t, "10/m"), "k"); !d.Allowed || !d.Degraded {
			t.Errorf("before the store is there: %s, want allowed and degraded", show(d))
		}
		time.Sleep(50 * ms)
		if !s.Degraded() {
			t.Error("50 ms after the start without a store: not degraded")
		}
		time.Sleep(minute)
		store.set(nil)
		time.Sleep(time.Second)
		if d := take(t, s, limit(t, "10/m"), "k"); d.Degraded || d.Remaining != 9 {
			t.Errorf("a second after the store came: %s, want its count", show(d))
		}
	})
}

// TestRecoveryNeedsNoCalls: back to exact within a second of recovery, by probes
// alone, one at a time; a caller is never used to find out.
func TestRecoveryNeedsNoCalls(t *testing.T) {
	for _, f := range faults {
		for _, gone := range []time.Duration{60 * ms, time.Second, 10 * minute} {
			t.Run(f.name+"/"+gone.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := make(chan struct{})
					store := newFake(nil)
					s := New(store, Options{})
					defer mustClose(t, s)
					time.Sleep(time.Second)
					store.set(f.fault(release))
					degraded(t, s)
					l, calls := limit(t, "1000/s"), store.calls.Load()
					time.Sleep(DefaultProbeInterval / 2) // what was on its way is back
					store.most.Store(0)
					callers(t, s, l, gone/50, gone, func(d caudal.Decision, took time.Duration) {
						if took > 0 || !d.Degraded {
							t.Errorf("while the store is gone: %s, after %s", show(d), took)
						}
					})
					if n := store.calls.Load() - calls; n > 0 {
						t.Errorf("%d calls reached the store while it was gone, want none", n)
					}
					if f.name != "never answers and takes no notice" && store.most.Load() > 1 {
						t.Errorf("%d probes at once, want one at a time", store.most.Load())
					}
					store.set(nil)
					close(release)
					back := time.Now()
					time.Sleep(time.Second)
					st := s.State()
					if st.Degraded || st.Since.Sub(back) > time.Second {
						t.Errorf("a second after the store came back: %+v", st)
					}
					if d := take(t, s, l, "k"); d.Degraded {
						t.Errorf("a second after the store came back: %s", show(d))
					}
				})
			})
		}
	}
}

// TestSlowStoreDoesNotFlap: a store that answers, but later than the deadline, is
// given up once, not over and over.
func TestSlowStoreDoesNotFlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		var changes atomic.Int64
		s := New(store, Options{OnChange: func(State) { changes.Add(1) }})
		defer mustClose(t, s)
		store.set(slow(20 * ms))
		callers(t, s, limit(t, "1000/s"), 10*ms, minute, func(caudal.Decision, time.Duration) {})
		if changes.Load() != 1 || !s.Degraded() {
			t.Errorf("in a minute of answers after 20 ms: %d changes, degraded %v, want 1, true", changes.Load(), s.Degraded())
		}
	})
}

// TestHiccupIsNoOutage: one call in five fails for a minute. Each is answered here,
// and the store is not given up.
func TestHiccupIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{})
		defer mustClose(t, s)
		var n, local atomic.Int64
		store.set(func(context.Context) error {
			if n.Add(1)%5 == 0 {
				return errRefused
			}
			return nil
		})
		callers(t, s, limit(t, "1000000/s"), 2*ms, minute, func(d caudal.Decision, _ time.Duration) {
			if d.Degraded {
				local.Add(1)
			}
			if !d.Allowed {
				t.Errorf("denied: %s", show(d))
			}
		})
		if s.Degraded() || s.State().Kind != "connection" || local.Load() < 1000 {
			t.Errorf("a fifth of the calls failed: State() = %+v, %d calls answered here", s.State(), local.Load())
		}
	})
}

// TestNoHerdOnRecovery: callers by the hundred do not fall upon a store that has
// just come back; with each round of answers it gets twice as many.
func TestNoHerdOnRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{})
		defer mustClose(t, s)
		store.set(fails(errRefused))
		degraded(t, s)
		store.set(slow(ms)) // a round of answers takes 1 ms
		for s.Degraded() {
			time.Sleep(100 * time.Microsecond)
		}
		var all sync.WaitGroup
		l := limit(t, "1000000/s")
		for range 400 {
			all.Go(func() { take(t, s, l, "k") })
		}
		for _, most := range []int64{8, 16, 32, 64, 128} {
			synctest.Wait()
			if n := store.inside.Load(); n > most+1 || n == 0 {
				t.Errorf("the store has %d calls, want some and at most %d and a probe", n, most)
			}
			time.Sleep(ms + time.Microsecond)
		}
		all.Wait()
		if n := s.slots.withheld.Load(); s.Degraded() || n > DefaultMaxInFlight-128 {
			t.Errorf("after 400 calls: degraded %v, %d slots withheld", s.Degraded(), n)
		}
	})
}

// TestBoundedWhenNothingReturns: 500 calls at once on a store that takes no notice
// of its context and never returns.
func TestBoundedWhenNothingReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		store := newFake(nil)
		s := New(store, Options{MaxInFlight: 64})
		store.set(deaf(release))
		l := limit(t, "1000000/s")
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				begun := time.Now()
				if d := take(t, s, l, "k"); !d.Allowed || !d.Degraded || time.Since(begun) > DefaultDeadline+ms { // 1 ms of scheduling
					t.Errorf("%s after %s", show(d), time.Since(begun))
				}
			})
		}
		all.Wait()
		time.Sleep(minute) // and probes go on
		if n := store.inside.Load(); n > 64+probesInFlight {
			t.Errorf("the store has %d calls that it does not return, want at most %d", n, 64+probesInFlight)
		}
		if st := s.Stats(); st.Stuck != 64 || st.InFlight != 64 {
			t.Errorf("Stats() = %d in flight, %d stuck, want 64 of each", st.InFlight, st.Stuck)
		}
		if !s.Degraded() {
			t.Error("the store is still asked")
		}
		if err := s.Close(); err == nil {
			t.Error("Close() = no error, want one that says how many calls the store has not returned")
		}
		close(release)
		synctest.Wait()
		if n := store.inside.Load(); n != 0 {
			t.Errorf("%d calls are still in the store", n)
		}
	})
}

// TestBusyStoreStaysExact: more callers than the store may have at once wait for
// each other; counting some of them here would admit more than the limit.
func TestBusyStoreStaysExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{MaxInFlight: 64})
		defer mustClose(t, s)
		store.set(slow(100 * time.Microsecond))
		l := limit(t, "100/h")
		var passed atomic.Int64
		var all sync.WaitGroup
		for range 2000 {
			all.Go(func() {
				d := take(t, s, l, "k")
				if d.Degraded {
					t.Errorf("a call among many was answered here: %s", show(d))
				}
				if d.Allowed {
					passed.Add(1)
				}
			})
		}
		all.Wait()
		if passed.Load() != 100 || store.most.Load() > 64+1 {
			t.Errorf("%d of 2000 passed, %d at once in the store; want 100, at most 64 and a probe", passed.Load(), store.most.Load())
		}
	})
}

// TestCallersOwnEndIsNoFailure: whoever cancels, or has less time than the
// deadline, gets that as error; it says nothing of the store.
func TestCallersOwnEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{})
		defer mustClose(t, s)
		time.Sleep(time.Second)
		l := limit(t, "10/h")
		store.set(slow(3 * ms)) // within the deadline
		for range 100 {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(ms, cancel)
			if _, err := s.TakeKey(ctx, caudal.Instant{}, l, "k", 1); !errors.Is(err, context.Canceled) {
				t.Fatalf("TakeKey cancelled after 1 ms = error %v, want context.Canceled", err)
			}
			ctx, cancel = context.WithTimeout(context.Background(), 2*ms)
			err := s.Take(ctx, caudal.Instant{}, []caudal.Call{{Limit: l, Key: []byte("k"), Cost: 1}}, make([]caudal.Decision, 1))
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Take with 2 ms = error %v, want context.DeadlineExceeded", err)
			}
		}
		st := s.Stats()
		if s.Degraded() || len(st.Errors) != 0 || st.Local != 0 || st.LocalKeys != 0 {
			t.Errorf("after 200 callers that went away: degraded %v, %+v; want nothing", s.Degraded(), st)
		}
	})
}

// TestHastyCallersDoNotHideADeadStore: when every caller's own deadline is shorter
// than ours, no call of theirs is a failure; a closer look finds out.
func TestHastyCallersDoNotHideADeadStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{})
		defer mustClose(t, s)
		time.Sleep(time.Second)
		store.set(hangs)
		l := limit(t, "10/h")
		ctx, cancel := context.WithTimeout(context.Background(), 2*ms)
		defer cancel()
		if _, err := s.TakeKey(ctx, caudal.Instant{}, l, "k", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("TakeKey with 2 ms = error %v, want context.DeadlineExceeded", err)
		}
		time.Sleep(50 * ms)
		if !s.Degraded() {
			t.Error("50 ms later the store is still asked")
		}
	})
}
