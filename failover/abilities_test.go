package failover

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
)

func refund(s *Store, r caudal.Receipt, n uint32) error {
	return s.Refund(context.Background(), caudal.Instant{}, []caudal.Refund{{Receipt: r, N: n}})
}

// TestRefundsGoWhereTheChargeWasMade plays one limit through an outage.
func TestRefundsGoWhereTheChargeWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{})
		defer mustClose(t, s)
		l := limit(t, "10/h")
		shared, early := takeN(t, s, l, "k", 2).Receipt, takeN(t, s, l, "k", 1).Receipt
		store.set(fails(errRefused))
		degraded(t, s)
		local, kept := takeN(t, s, l, "k", 3).Receipt, takeN(t, s, l, "k", 4).Receipt // of 20

		if err := refund(s, local, 3); err != nil {
			t.Errorf("a local receipt while the store is gone: %v", err)
		}
		if err := refund(s, local, 3); !errors.Is(err, caudal.ErrReceiptUsed) {
			t.Errorf("again: %v, want ErrReceiptUsed", err)
		}
		if err := refund(s, shared, 2); !errors.Is(err, caudal.ErrStore) {
			t.Errorf("a shared receipt while the store is gone: %v, want ErrStore", err)
		}
		both := []caudal.Refund{{Receipt: shared, N: 2}, {Receipt: takeN(t, s, l, "k", 5).Receipt, N: 5}}
		if err := s.Refund(t.Context(), caudal.Instant{}, both); !errors.Is(err, caudal.ErrStore) {
			t.Errorf("both at once: %v, want ErrStore", err)
		}
		if d := takeN(t, s, l, "k", 0); d.Remaining != 16 {
			t.Errorf("%d of 20 remain here, want 16: only 4 are still charged", d.Remaining)
		}
		credit := caudal.Refund{Limit: l, Key: "k", N: 1}
		if err := s.Refund(t.Context(), caudal.Instant{}, []caudal.Refund{credit}); err != nil {
			t.Errorf("a credit while the store is gone: %v, want the local count credited", err)
		}
		if d := takeN(t, s, l, "k", 0); d.Remaining != 17 {
			t.Errorf("%d of 20 remain here after a credit of 1, want 17", d.Remaining)
		}

		store.set(nil)
		time.Sleep(time.Second)
		if d := takeN(t, s, l, "k", 0); d.Degraded || d.Remaining != 7 {
			t.Errorf("when the store is back: %s, want its own 7 of 10", show(d))
		}
		for _, r := range []caudal.Receipt{early, kept} { // the second is of this process, still
			if err := refund(s, r, 1); err != nil {
				t.Errorf("refund of %+v: %v", r, err)
			}
		}
		if d := takeN(t, s, l, "k", 0); d.Remaining != 8 {
			t.Errorf("%d of 10 remain, want 8", d.Remaining)
		}
		if err := refund(s, early, 1); !errors.Is(err, caudal.ErrReceiptUsed) || s.Degraded() {
			t.Errorf("a shared receipt again: %v, want ErrReceiptUsed, which is an answer", err)
		}
	})
}

func TestRefundOfACostAboveTheLocalLimit(t *testing.T) {
	s := gone(t, 10) // 10/h is 2/h here
	l := limit(t, "10/h")
	if err := refund(s, takeN(t, s, l, "k", 10).Receipt, 7); err != nil {
		t.Errorf("refund of 7 of a cost of 10 that was charged as 2: %v", err)
	}
	if err := refund(s, takeN(t, s, l, "k", 1).Receipt, 2); !errors.Is(err, caudal.ErrInvalidRefund) {
		t.Errorf("refund of 2 of a cost of 1: %v, want ErrInvalidRefund", err)
	}
	if err := s.Refund(t.Context(), caudal.Instant{}, []caudal.Refund{{N: 1}}); !errors.Is(err, caudal.ErrInvalidRefund) {
		t.Errorf("refund of nothing: %v, want ErrInvalidRefund", err)
	}
}

func TestResetReachesBothCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{})
		defer mustClose(t, s)
		l := limit(t, "10/h")
		takeN(t, s, l, "k", 10)
		store.set(fails(errRefused))
		degraded(t, s)
		takeN(t, s, l, "k", 20)
		if err := s.Reset(t.Context(), l, "k"); !errors.Is(err, caudal.ErrStore) {
			t.Errorf("Reset while the store is gone: %v, want an error that says so", err)
		}
		if d := takeN(t, s, l, "k", 0); d.Remaining != 20 {
			t.Errorf("%d of 20 remain here after a reset", d.Remaining)
		}
		store.set(nil)
		time.Sleep(time.Second)
		if err := s.Reset(t.Context(), l, "k"); err != nil {
			t.Errorf("Reset: %v", err)
		}
		if d := takeN(t, s, l, "k", 0); d.Remaining != 10 {
			t.Errorf("%d of 10 remain after a reset", d.Remaining)
		}
	})
}

// bare can only take batches.
type bare struct{ caudal.Store }

func TestAbilitiesThatTheStoreLacks(t *testing.T) {
	s := New(bare{newFake(nil)}, Options{Deadline: minute})
	defer mustClose(t, s)
	l := limit(t, "10/h")
	d := take(t, s, l, "k")
	if d.Degraded || d.Remaining != 9 {
		t.Errorf("TakeKey on a store of batches: %s", show(d))
	}
	if err := refund(s, d.Receipt, 1); !errors.Is(err, caudal.ErrUnsupported) {
		t.Errorf("Refund: %v, want ErrUnsupported", err)
	}
	if err := s.Reset(t.Context(), l, "k"); !errors.Is(err, caudal.ErrUnsupported) {
		t.Errorf("Reset: %v, want ErrUnsupported", err)
	}
	if f, err := s.Forecast(t.Context(), caudal.Instant{}, l, "k"); err != nil {
		t.Errorf("Forecast: %v", err)
	} else if wait, ok := f.Peek(1); wait != 0 || !ok {
		t.Errorf("Forecast.Peek = %s, %v, want no wait foreseen", wait, ok)
	}
}

var threePerTen = caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 3, Unit: caudal.Second, Multiplier: 10}

// TestC40WaitersWhileTheStoreIsGone: 3 per 10 s, a timeout of 12 s, 30 callers at
// once: 3 leave at once, 3 after 10 s, 24 are refused at once. A limit that denies
// without its store refuses all 30 at once, one that passes lets all pass.
func TestC40WaitersWhileTheStoreIsGone(t *testing.T) {
	for _, tt := range []struct {
		policy                caudal.Failure
		now, later, refusedAt int
	}{{caudal.FailLocal, 3, 3, 24}, {caudal.FailOpen, 30, 0, 0}, {caudal.FailClosed, 0, 0, 30}} {
		synctest.Test(t, func(t *testing.T) {
			s := New(refusing{}, Options{})
			defer mustClose(t, s)
			degraded(t, s)
			time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10 * time.Second)))
			limiter := caudal.Must(caudal.New(policed{s, tt.policy}, threePerTen))
			begun := time.Now()
			var mu sync.Mutex
			got := map[string]int{}
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					ctx, stop := context.WithTimeout(t.Context(), 12*time.Second)
					defer stop()
					d, err := limiter.Wait(ctx, "k")
					if err != nil {
						t.Errorf("Wait = error %v", err)
					}
					what := "refused after " + time.Since(begun).String()
					if d.Allowed {
						what = "left after " + time.Since(begun).String()
					}
					mu.Lock()
					got[what]++
					mu.Unlock()
				})
			}
			all.Wait()
			if got["left after 0s"] != tt.now || got["left after 10s"] != tt.later || got["refused after 0s"] != tt.refusedAt {
				t.Errorf("on_store_error %s: %v, want %d at once, %d after 10s, %d refused at once", tt.policy, got, tt.now, tt.later, tt.refusedAt)
			}
		})
	}
}

// TestRaceOfOutages hammers a store that comes and goes, in every way at once.
func TestRaceOfOutages(t *testing.T) {
	store := newFake(nil)
	s := New(store, Options{Deadline: ms, ProbeInterval: ms, MaxInFlight: 16, HeartInterval: ms, Heart: heartOf(3), OnChange: func(State) {}})
	limits := []*caudal.Compiled{limit(t, "1000/s"), limit(t, "50/s leaky_bucket queue 60"), limit(t, "9/s", caudal.OnStoreError(caudal.FailClosed, 0))}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				l := limits[n%3]
				d, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1)
				if err != nil {
					t.Errorf("TakeKey = error %v", err)
				}
				if d.Charged && n%2 == 0 {
					_ = refund(s, d.Receipt, 1) // the store may be gone by now
				}
				out := make([]caudal.Decision, 3)
				calls := []caudal.Call{{Limit: limits[0], Key: []byte("k"), Cost: 1}, {Limit: limits[1], Key: []byte("k"), Cost: 1}, {Limit: limits[2], Key: []byte("k"), Cost: 1, Mode: caudal.Shadow}}
				if err := s.Take(context.Background(), caudal.Instant{}, calls, out); err != nil {
					t.Errorf("Take = error %v", err)
				}
				if n%50 == 0 {
					_ = s.Reset(context.Background(), l, "k") // likewise
					_, _ = s.Stats(), s.State()
				}
			}
		})
	}
	for range 6 {
		for _, f := range faults {
			release := make(chan struct{})
			store.set(f.fault(release))
			await(t, "the store to be given up", s.Degraded)
			close(release)
			store.set(nil)
			await(t, "the store to be asked again", func() bool { return !s.Degraded() })
		}
	}
	close(stop)
	all.Wait()
	mustClose(t, s)
	if _, err := s.TakeKey(t.Context(), caudal.Instant{}, limits[0], "k", 1); !errors.Is(err, caudal.ErrClosed) || !errors.Is(err, caudal.ErrStore) {
		t.Errorf("TakeKey after Close = error %v, want ErrClosed", err)
	}
}
