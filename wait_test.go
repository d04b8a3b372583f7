package caudal_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// All tests of waiting run in a synctest bubble: its clock stands still until
// everybody sleeps, begins at 2000-01-01 00:00 UTC, and the bubble fails when a
// goroutine is left behind.

// line starts callers that wait, and notes how it went for each.
type line struct {
	t       *testing.T
	limiter *caudal.Limiter
	start   time.Time
	done    sync.WaitGroup
	mu      sync.Mutex
	results []result
}

type result struct {
	who   string
	after time.Duration // when it was told
	d     caudal.Decision
	err   error
}

func newLine(t *testing.T, limit string) *line {
	store := memstore.New(memstore.Options{Clock: caudal.NewSystemClock()})
	return &line{t: t, limiter: caudal.Must(caudal.New(store, parse(t, limit))), start: time.Now()}
}

// join starts a caller and returns when it waits or is done.
func (l *line) join(ctx context.Context, who string, cost uint32) {
	l.done.Go(func() {
		d, err := l.limiter.WaitN(ctx, "k", cost)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.results = append(l.results, result{who, time.Since(l.start), d, err})
	})
	synctest.Wait()
}

// expect waits for all callers and checks who was told what when, in order:
// "name at 3s: passed", "denied" or the error. Those who were told at one instant run
// in any order; here they stand by name.
func (l *line) expect(want ...string) {
	l.t.Helper()
	l.done.Wait()
	slices.SortStableFunc(l.results, func(a, b result) int {
		return cmp.Or(cmp.Compare(a.after, b.after), strings.Compare(a.who, b.who))
	})
	var got []string
	for _, r := range l.results {
		how := "denied"
		switch {
		case r.err != nil:
			how = r.err.Error()
		case r.d.Allowed:
			how = "passed"
		}
		got = append(got, fmt.Sprintf("%s at %s: %s", r.who, r.after, how))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("the line went\n got %q\nwant %q", got, want)
	}
	if n := caudal.WaitingKeys(l.limiter); n != 0 {
		l.t.Errorf("the lines of %d keys are kept after all have gone", n)
	}
}

func deadlineIn(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// A limit that is raised applies at once, also to those who sleep until a time
// that the old one named; one that is lowered makes them wait for longer.
func TestC49WaitersGoByTheLimitInForce(t *testing.T) {
	for _, c := range []struct {
		old, new string
		deadline time.Duration
		want     []string
	}{
		{"1/hour", "1/hour burst 3", 150 * time.Minute, []string{"b at 1s: passed", "c at 1s: passed", "d at 1h0m0s: passed"}},
		{"1/hour fixed_window", "2/hour fixed_window", 30 * time.Minute, []string{"b at 0s: denied", "c at 0s: denied", "d at 1s: passed"}},
		{"1/hour sliding_log", "9/hour sliding_log", 2 * time.Hour, []string{"c at 0s: denied", "b at 1s: passed", "d at 1s: passed"}},
		{"2/10s burst 1", "1/10s burst 1", time.Minute, []string{"b at 10s: passed", "c at 20s: passed", "d at 30s: passed"}},
	} {
		t.Run(c.old, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, c.old)
				if d, err := l.limiter.Allow(t.Context(), "k"); err != nil || !d.Allowed {
					t.Fatalf("the first call = %+v, %v, want it allowed", d, err)
				}
				l.join(deadlineIn(t, c.deadline), "b", 1)
				l.join(deadlineIn(t, c.deadline), "c", 1)
				time.Sleep(time.Second)
				if err := l.limiter.SetLimit(parse(t, c.new)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				l.join(deadlineIn(t, c.deadline), "d", 1)
				l.expect(c.want...)
			})
		})
	}
}

func TestC40ThirtyWaitersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "3/10s fixed_window")
		ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
		defer cancel()
		for i := range 30 {
			l.done.Go(func() {
				d, err := l.limiter.Wait(ctx, "k")
				l.mu.Lock()
				defer l.mu.Unlock()
				l.results = append(l.results, result{fmt.Sprint(i), time.Since(l.start), d, err})
			})
		}
		l.done.Wait()
		counts := map[string]int{}
		for _, r := range l.results {
			counts[fmt.Sprintf("allowed %v at %s, error %v", r.d.Allowed, r.after, r.err)]++
			if !r.d.Allowed && (r.d.RetryAfter <= 12*time.Second || r.d.Charged) {
				t.Errorf("refused with %+v, want a wait beyond the deadline and no charge", r.d)
			}
		}
		want := map[string]int{
			"allowed true at 0s, error <nil>":  3,
			"allowed true at 10s, error <nil>": 3,
			"allowed false at 0s, error <nil>": 24,
		}
		if fmt.Sprint(counts) != fmt.Sprint(want) {
			t.Errorf("3 per 10 s, 30 waiters with 12 s: %v, want %v", counts, want)
		}
		if d, err := l.limiter.Peek(context.Background(), "k"); err != nil || d.Remaining != 0 {
			t.Errorf("after that %d remain, %v, want 0: six were charged", d.Remaining, err)
		}
	})
}

func TestWaitersAreServedInOrder(t *testing.T) {
	for _, limit := range []string{"1/10s burst 1", "1/10s fixed_window", "1/10s sliding_log", "1/10s leaky_bucket queue 0", "1/10s leaky_bucket queue 2"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, limit)
				for _, who := range []string{"a", "b", "c", "d", "e"} {
					l.join(context.Background(), who, 1)
				}
				l.expect("a at 0s: passed", "b at 10s: passed", "c at 20s: passed", "d at 30s: passed", "e at 40s: passed")
			})
		})
	}
}

// A small call behind a large one does not overtake it, although it would fit.
func TestASmallCallDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/s burst 5")
		l.join(context.Background(), "first", 5)
		l.join(context.Background(), "large", 3)
		l.join(context.Background(), "small", 1)
		l.expect("first at 0s: passed", "large at 3s: passed", "small at 4s: passed")
	})
}

func TestWaiterBehindTheDeadlineIsDeniedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s burst 1")
		l.join(context.Background(), "a", 1)
		l.join(context.Background(), "b", 1)
		l.join(deadlineIn(t, 20*time.Second), "too short", 1)
		l.join(deadlineIn(t, 20*time.Second+1), "just enough", 1)
		l.expect("a at 0s: passed", "too short at 0s: denied", "b at 10s: passed", "just enough at 20s: passed")
		if d := l.results[1].d; d.RetryAfter != 20*time.Second || d.Never || d.Charged || d.Receipt != (caudal.Receipt{}) {
			t.Errorf("the refused one was told %+v, want a wait of 20s and no charge", d)
		}
	})
}

func TestC40CancelledWaiterGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s fixed_window")
		ctx, cancel := context.WithCancel(context.Background())
		l.join(context.Background(), "a", 1)
		l.join(ctx, "leaver", 1)
		l.join(context.Background(), "b", 1)
		l.join(context.Background(), "c", 1)
		time.Sleep(5 * time.Second)
		cancel()
		synctest.Wait()
		l.join(deadlineIn(t, 25*time.Second), "too late", 1) // behind b at 10 s and c at 20 s: 30 s
		l.join(deadlineIn(t, 25*time.Second+1), "d", 1)
		l.expect("a at 0s: passed", "leaver at 5s: context canceled", "too late at 5s: denied",
			"b at 10s: passed", "c at 20s: passed", "d at 30s: passed")
	})
}

func TestAThousandCancelledWaitersLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s burst 1")
		l.join(context.Background(), "a", 1)
		ctx, cancel := context.WithCancel(context.Background())
		var failed sync.WaitGroup
		for range 1000 {
			failed.Go(func() {
				if _, err := l.limiter.Wait(ctx, "k"); !errors.Is(err, context.Canceled) {
					t.Errorf("Wait = error %v, want context.Canceled", err)
				}
			})
		}
		time.Sleep(time.Second)
		cancel()
		failed.Wait()
		l.join(context.Background(), "b", 1)
		l.expect("a at 0s: passed", "b at 10s: passed")
	})
}

func TestLeakyBucketWaitSleepsUntilItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s leaky_bucket queue 2")
		for _, who := range []string{"a", "b", "c", "d"} { // d waits until the queue has room, and then in it
			l.join(context.Background(), who, 1)
		}
		time.Sleep(time.Second)
		if d, err := l.limiter.Allow(context.Background(), "k"); err != nil || d.Allowed {
			t.Errorf("Allow with a full queue = %+v, %v, want denied", d, err)
		}
		l.expect("a at 0s: passed", "b at 10s: passed", "c at 20s: passed", "d at 30s: passed")
	})
}

func TestC39CancelledLeakyWaitGivesItsTurnToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s leaky_bucket queue 3")
		ctx, cancel := context.WithCancel(context.Background())
		l.join(context.Background(), "a", 1)
		l.join(ctx, "leaver", 1)
		l.join(context.Background(), "b", 1)
		time.Sleep(5 * time.Second)
		cancel()
		synctest.Wait()
		l.join(context.Background(), "next", 1)
		l.join(context.Background(), "tail", 1)
		l.expect("a at 0s: passed", "leaver at 5s: context canceled", "next at 10s: passed", "b at 20s: passed", "tail at 30s: passed")
	})
}

func TestLeakyWaitPastItsDeadlineReturnsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s leaky_bucket queue 3")
		l.join(context.Background(), "a", 1)
		l.join(deadlineIn(t, 10*time.Second), "too short", 1)
		l.join(deadlineIn(t, 10*time.Second+1), "just enough", 1)
		l.expect("a at 0s: passed", "too short at 0s: denied", "just enough at 10s: passed")
		if d := l.results[1].d; d.RetryAfter != 10*time.Second || d.Delay != 0 || d.Charged {
			t.Errorf("the refused one was told %+v, want a wait of 10s and no charge", d)
		}
	})
}

func TestWaitForWhatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			limit string
			cost  uint32
		}{{"5/s", 6}, {"0/s", 1}, {"5/s leaky_bucket queue 4", 6}, {"5/s sliding_log", 6}} {
			l := newLine(t, tt.limit)
			l.join(context.Background(), "a", tt.cost)
			l.expect("a at 0s: denied")
			if d := l.results[0].d; !d.Never || d.RetryAfter != 0 {
				t.Errorf("%s, cost %d: %+v, want never", tt.limit, tt.cost, d)
			}
		}
	})
}

// Behind others in line, too.
func TestWaitForWhatNeverComesInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s burst 2")
		l.join(context.Background(), "a", 2)
		l.join(context.Background(), "b", 1)
		l.join(context.Background(), "huge", 3)
		l.expect("a at 0s: passed", "huge at 0s: denied", "b at 10s: passed")
		if d := l.results[1].d; !d.Never || d.RetryAfter != 0 || d.Allowed {
			t.Errorf("cost 3 of 2 in line: %+v, want never", d)
		}
	})
}

// Others charge the key meanwhile: the wait grows, and is denied when it no
// longer fits.
func TestWaitAgainstOthersWhoAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s burst 2")
		l.join(context.Background(), "first", 2)
		l.join(deadlineIn(t, 25*time.Second), "unlucky", 2) // foreseen at 20 s
		time.Sleep(10500 * time.Millisecond)
		if d, err := l.limiter.Allow(context.Background(), "k"); err != nil || !d.Allowed {
			t.Errorf("Allow = %+v, %v", d, err)
		}
		l.join(context.Background(), "patient", 1)
		l.expect("first at 0s: passed", "patient at 20s: passed", "unlucky at 20s: denied")
	})
}

func TestWaitWithAContextThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "5/s")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.join(ctx, "a", 1)
		l.expect("a at 0s: context canceled")
		if d, _ := l.limiter.Peek(context.Background(), "k"); d.Remaining != 5 {
			t.Errorf("%d of 5 remain, want all", d.Remaining)
		}
	})
}

func TestWaitersOfOtherKeysDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s burst 1")
		start := time.Now()
		var done sync.WaitGroup
		for i := range 100 {
			done.Go(func() {
				for n := range 3 {
					if d, err := l.limiter.Wait(context.Background(), fmt.Sprint("key ", i)); err != nil || !d.Allowed {
						t.Errorf("Wait = %+v, %v", d, err)
					}
					if want := time.Duration(n) * 10 * time.Second; time.Since(start) != want {
						t.Errorf("call %d left after %s, want %s", n+1, time.Since(start), want)
					}
				}
			})
		}
		done.Wait()
	})
}

// noForecast hides that a store can forecast: waiters then find out in turn.
type noForecast struct{ caudal.Store }

func TestWaitWithAStoreThatCannotForecast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, "1/10s burst 1")
		l.limiter = caudal.Must(caudal.New(noForecast{memstore.New(memstore.Options{Clock: caudal.NewSystemClock()})}, parse(t, "1/10s burst 1")))
		l.join(context.Background(), "a", 1)
		l.join(context.Background(), "b", 1)
		l.join(deadlineIn(t, 15*time.Second), "cannot", 1)
		l.join(context.Background(), "c", 1)
		l.expect("a at 0s: passed", "b at 10s: passed", "cannot at 10s: denied", "c at 20s: passed")
	})
}
