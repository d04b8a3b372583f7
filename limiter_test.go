package caudal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

// takeOnly hides every ability of a store beyond Take.
type takeOnly struct{ caudal.Store }

func eachStore(t *testing.T, f func(t *testing.T, store caudal.Store, clock *storetest.Clock)) {
	for name, wrap := range map[string]func(*memstore.Store) caudal.Store{
		"by TakeKey": func(s *memstore.Store) caudal.Store { return s },
		"by Take":    func(s *memstore.Store) caudal.Store { return takeOnly{s} },
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock(storetest.Start)
			f(t, wrap(memstore.New(memstore.Options{Clock: clock})), clock)
		})
	}
}

func TestLimiterVerbs(t *testing.T) {
	eachStore(t, func(t *testing.T, store caudal.Store, clock *storetest.Clock) {
		ctx := context.Background()
		l, err := caudal.New(store, caudal.PerMinute(5))
		if err != nil {
			t.Fatal(err)
		}
		later := clock.Now().Add(12 * time.Second)
		for _, step := range []struct {
			verb      string
			ask       func() (caudal.Decision, error)
			allowed   bool
			remaining uint64
		}{
			{"Peek", func() (caudal.Decision, error) { return l.Peek(ctx, "k") }, true, 5},
			{"Allow", func() (caudal.Decision, error) { return l.Allow(ctx, "k") }, true, 4},
			{"AllowN 3", func() (caudal.Decision, error) { return l.AllowN(ctx, "k", 3) }, true, 1},
			{"AllowN 2", func() (caudal.Decision, error) { return l.AllowN(ctx, "k", 2) }, false, 1},
			{"AllowN 0", func() (caudal.Decision, error) { return l.AllowN(ctx, "k", 0) }, true, 1},
			{"AllowAt 12 s later", func() (caudal.Decision, error) { return l.AllowAt(ctx, later, "k", 2) }, true, 0},
			{"another key", func() (caudal.Decision, error) { return l.Allow(ctx, "") }, true, 4},
		} {
			d, err := step.ask()
			if err != nil || d.Allowed != step.allowed || d.Remaining != step.remaining || d.Limit != 5 {
				t.Errorf("%s = %+v, %v, want allowed %v, %d remaining of 5", step.verb, d, err, step.allowed, step.remaining)
			}
		}
	})
}

func TestLimiterSetLimitKeepsWhatWasConsumed(t *testing.T) {
	eachStore(t, func(t *testing.T, store caudal.Store, _ *storetest.Clock) {
		ctx := context.Background()
		l := caudal.Must(caudal.New(store, caudal.PerMinute(10), caudal.WithName("api")))
		if _, err := l.AllowN(ctx, "k", 8); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			limit     caudal.Limit
			remaining uint64
		}{
			{caudal.PerMinute(20), 12},
			{caudal.PerMinute(5), 0},
			{caudal.PerHour(10), 10},                            // another period: fresh
			{caudal.PerMinute(10).With(caudal.FixedWindow), 10}, // another algorithm: fresh
			{caudal.PerMinute(10), 2},
		} {
			if err := l.SetLimit(step.limit); err != nil {
				t.Fatal(err)
			}
			if d, err := l.Peek(ctx, "k"); err != nil || d.Remaining != step.remaining || l.Limit() != step.limit {
				t.Errorf("after SetLimit(%s): %+v, %v, want %d remaining", step.limit, d, err, step.remaining)
			}
		}
		if err := l.SetLimit(caudal.Limit{}); !errors.Is(err, caudal.ErrInvalidLimit) || l.Limit() != caudal.PerMinute(10) {
			t.Errorf("SetLimit of the zero Limit = %v and %s in force, want ErrInvalidLimit and 10/minute", err, l.Limit())
		}
	})
}

func TestLimiterNamesKeepCountersApart(t *testing.T) {
	store := memstore.New(memstore.Options{})
	ctx := context.Background()
	remaining := func(opts ...caudal.Option) uint64 {
		d, err := caudal.Must(caudal.New(store, caudal.PerHour(5), opts...)).Allow(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}
	got := [4]uint64{remaining(), remaining(caudal.WithName("a")), remaining(caudal.WithName("a")), remaining()}
	if want := [4]uint64{4, 4, 3, 3}; got != want {
		t.Errorf("unnamed, a, a, unnamed: %v remain, want %v", got, want)
	}
}

func TestLimiterRefunds(t *testing.T) {
	ctx := context.Background()
	for _, limit := range []string{"5/h", "5/h leaky_bucket queue 4", "5/h fixed_window", "5/h sliding_log", "5/h sliding_window"} {
		l := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: storetest.NewClock(storetest.Start)}), parse(t, limit)))
		remaining := func(what string, want uint64) {
			t.Helper()
			if d, err := l.Peek(ctx, "k"); err != nil || d.Remaining != want {
				t.Errorf("%s, %s: %d remain, %v, want %d", limit, what, d.Remaining, err, want)
			}
		}
		take := func(cost uint32) caudal.Receipt {
			d, err := l.AllowN(ctx, "k", cost)
			if err != nil || !d.Charged {
				t.Fatalf("%s: AllowN(%d) = %+v, %v", limit, cost, d, err)
			}
			return d.Receipt
		}
		over := take(3)
		if err := l.Refund(ctx, over, 2); err != nil {
			t.Errorf("%s: Refund = %v", limit, err)
		}
		want := uint64(4)
		if l.Limit().Algorithm == caudal.LeakyBucket {
			want = 2 // the call is over, its turns are used
		}
		remaining("after a refund of 2 of 3", want)
		if err := l.Refund(ctx, over, 1); !errors.Is(err, caudal.ErrReceiptUsed) {
			t.Errorf("%s: Refund again = %v, want ErrReceiptUsed", limit, err)
		}
		if err := l.Cancel(ctx, take(2)); err != nil {
			t.Errorf("%s: Cancel = %v", limit, err)
		}
		remaining("after a cancelled call of 2", want)
		if err := l.Credit(ctx, "k", 100); err != nil {
			t.Errorf("%s: Credit = %v", limit, err)
		}
		remaining("after a credit", 5)
		take(5)
		if err := l.Reset(ctx, "k"); err != nil {
			t.Errorf("%s: Reset = %v", limit, err)
		}
		remaining("after a reset", 5)
	}
}

func TestLimiterWithoutTheAbility(t *testing.T) {
	l := caudal.Must(caudal.New(takeOnly{memstore.New(memstore.Options{})}, caudal.PerHour(5)))
	ctx := context.Background()
	d, err := l.Allow(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	for verb, err := range map[string]error{
		"Refund": l.Refund(ctx, d.Receipt, 1), "Cancel": l.Cancel(ctx, d.Receipt), "Credit": l.Credit(ctx, "k", 1), "Reset": l.Reset(ctx, "k"),
	} {
		if !errors.Is(err, caudal.ErrUnsupported) {
			t.Errorf("%s on a store that cannot = %v, want ErrUnsupported", verb, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := caudal.New(nil, caudal.PerHour(5)); err == nil || err.Error() != "caudal: no store: use memstore.New for one in memory" {
		t.Errorf("New without a store = %v", err)
	}
	if _, err := caudal.New(memstore.New(memstore.Options{}), caudal.Limit{}); !errors.Is(err, caudal.ErrInvalidLimit) {
		t.Errorf("New without a limit = %v, want ErrInvalidLimit", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Must of an error does not panic")
		}
	}()
	caudal.Must(caudal.New(nil, caudal.PerHour(5)))
}

func TestLimiterPassesErrorsOn(t *testing.T) {
	store := memstore.New(memstore.Options{})
	l := caudal.Must(caudal.New(store, caudal.PerHour(5)))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Allow(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Allow with a cancelled context = %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Allow(context.Background(), "k"); !errors.Is(err, caudal.ErrClosed) || !errors.Is(err, caudal.ErrStore) {
		t.Errorf("Allow on a closed store = %v, want ErrClosed and ErrStore", err)
	}
	if _, err := l.Wait(context.Background(), "k"); !errors.Is(err, caudal.ErrClosed) {
		t.Errorf("Wait on a closed store = %v, want ErrClosed", err)
	}
}
