package caudal_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

func compileText(t *testing.T, text string, opts ...caudal.CompileOption) *caudal.Compiled {
	t.Helper()
	l, err := caudal.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Compile("name", "scope", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLocalIsAShareOfTheLimit(t *testing.T) {
	for _, tt := range []struct {
		limit  string
		factor float64
		n      int
		want   string
	}{
		// Rate x f / N exactly, burst x f / N rounded up.
		{"100/minute", 2, 1, "200/minute burst 200"},
		{"100/minute burst 20", 2, 4, "50/minute burst 10"},
		{"100/minute burst 20", 2, 3, "200/3 minute burst 14"},
		{"10/minute burst 1", 1, 8, "5/4 minute burst 1"},
		{"10/minute burst 3", 1.5, 4, "15/4 minute burst 2"},
		{"10/minute", 1.1, 1, "11/minute burst 11"},
		{"7/13 second", 2, 5, "14/65 second burst 3"},
		{"1/year", 2, 3, "2/3 year burst 1"},
		{"4294967295/second", 2, 1, "4294967295/second burst 4294967295"}, // 32 bits are the most
		{"4294967295/second", 2, 3, "2863311530/second burst 2863311530"},
		{"4294967290/hour", 2, 1, "429496729/180 second burst 4294967295"}, // said in another unit
		// Windows and the log: limit x f / N, rounded up, at least 1.
		{"100/minute fixed_window", 2, 3, "67/minute fixed_window"},
		{"10/day fixed_window timezone Europe/Madrid", 2, 1, "20/day fixed_window timezone Europe/Madrid"},
		{"5/minute sliding_log", 2, 100, "1/minute sliding_log"},
		{"5/minute sliding_window", 0.5, 1, "3/minute sliding_window"},
		{"4294967295/minute sliding_log", 2, 1, "4294967295/minute sliding_log"},
		// Leaky bucket: the factor is 1, spacing x N, queue / N rounded down.
		{"50/second leaky_bucket queue 60", 2, 1, "50/second leaky_bucket queue 60"},
		{"50/second leaky_bucket queue 60 max_wait 500ms", 2, 2, "50/2 second leaky_bucket queue 30 max_wait 500ms"},
		{"50/second leaky_bucket queue 5", 10, 3, "50/3 second leaky_bucket queue 1"},
		{"1/year leaky_bucket queue 100", 2, 1000, "1/200 year leaky_bucket queue 0"}, // no period is longer
		// 0 stays 0.
		{"0/minute", 2, 3, "0/minute"},
		{"0/minute leaky_bucket queue 3", 2, 3, "0/minute leaky_bucket queue 3"},
		{"0/minute sliding_log", 2, 3, "0/minute sliding_log"},
	} {
		c := compileText(t, tt.limit, caudal.OnStoreError(caudal.FailLocal, tt.factor))
		got := c.Local(tt.n).Limit().String()
		if got != tt.want {
			t.Errorf("%s with factor %v over %d instances = %s, want %s", tt.limit, tt.factor, tt.n, got, tt.want)
		}
	}
}

// TestLocalRatesAreExact holds every rate that 32 bits can say against the
// product, by cross multiplication.
func TestLocalRatesAreExact(t *testing.T) {
	for _, requests := range []uint32{1, 3, 100, 65535, 1_000_000, 1<<31 - 1} {
		for _, n := range []int{1, 2, 3, 7, 64, 1000} {
			for _, f := range []struct {
				factor   float64
				num, den uint64
			}{{1, 1, 1}, {2, 2, 1}, {1.5, 3, 2}, {0.1, 1, 10}} {
				c := compileText(t, "1/minute", caudal.OnStoreError(caudal.FailLocal, f.factor))
				l := c.Limit()
				l.Requests, l.Burst = requests, 1
				c, err := l.Compile("", "", caudal.OnStoreError(caudal.FailLocal, f.factor))
				if err != nil {
					t.Fatal(err)
				}
				local := c.Local(n).Limit()
				// local.Requests / local.Period == requests x num / (den x n x 1 minute)
				left := uint64(local.Requests) * f.den * uint64(n) * 60
				right := uint64(requests) * f.num * uint64(local.Period()/time.Second)
				if left != right {
					t.Errorf("%d/minute x %v over %d = %s, which is another rate", requests, f.factor, n, local)
				}
			}
		}
	}
}

func TestLocalStandsInForItsLimit(t *testing.T) {
	c := compileText(t, "100/minute", caudal.OnStoreError(caudal.FailLocal, 3))
	local := c.Local(2)
	if local.StandsInFor() != c || c.StandsInFor() != nil {
		t.Errorf("StandsInFor() = %p of the local limit and %p of the limit itself, want %p and nil", local.StandsInFor(), c.StandsInFor(), c)
	}
	if c.Local(2) != local || local.Local(5) != local {
		t.Errorf("asked again, Local gives another limit")
	}
	if c.Local(3) == local || c.Local(0) != c.Local(1) || c.Local(-7) != c.Local(1) {
		t.Errorf("Local mixes up numbers of instances")
	}
	if local.Name() != "name" || local.OnStoreError() != caudal.FailLocal {
		t.Errorf("the local limit is %q, %s, want the limit's name and policy", local.Name(), local.OnStoreError())
	}
}

// TestLocalLimitsGoWithTheirLimit: after a reload nothing holds the old limits.
func TestLocalLimitsGoWithTheirLimit(t *testing.T) {
	const limits = 100
	gone := make(chan struct{}, limits)
	for range limits {
		c := compileText(t, "100/minute")
		runtime.AddCleanup(c.Local(2), func(ch chan struct{}) { ch <- struct{}{} }, gone)
	}
	for range 20 {
		runtime.GC()
	}
	for n := range limits {
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of %d local limits were collected, want all", n, limits)
		}
	}
}

// unavailable is a store whose every decision is a refusal because it is gone.
type unavailable struct{}

func (unavailable) Take(_ context.Context, _ caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	for i := range calls {
		out[i] = caudal.Decision{Degraded: true, Unavailable: true, Limit: calls[i].Limit.Capacity()}
	}
	return nil
}

// TestWaitReturnsWhenTheStoreIsUnavailable: there is no time to wait for, so a
// waiter must neither wait nor ask over and over.
func TestWaitReturnsWhenTheStoreIsUnavailable(t *testing.T) {
	l := caudal.Must(caudal.New(unavailable{}, caudal.PerMinute(10)))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	d, err := l.Wait(ctx, "k")
	if err != nil || d.Allowed || !d.Unavailable || ctx.Err() != nil {
		t.Errorf("Wait = %+v, error %v, want unavailable at once", d, err)
	}
}
