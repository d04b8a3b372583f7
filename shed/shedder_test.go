package shed_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// fixed is a shedder of a fixed limit without reserves, unless o says otherwise.
func fixed(t *testing.T, limit int, o shed.Options) *shed.Shedder {
	t.Helper()
	o.MinLimit, o.MaxLimit = limit, limit
	if o.Reserves == nil {
		o.Reserves = map[rule.Priority]int{}
	}
	s, err := shed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func acquire(t *testing.T, s *shed.Shedder, c shed.Call) *shed.Slot {
	t.Helper()
	slot, err := s.Acquire(t.Context(), c)
	if err != nil {
		t.Fatalf("Acquire(%+v) = %v, want a slot", c, err)
	}
	return slot
}

// order lets calls wait one after the other, then gives one slot after the other,
// and says who got one in which order, and who was refused.
func order(t *testing.T, s *shed.Shedder, held *shed.Slot, calls []shed.Call) string {
	t.Helper()
	var mu sync.Mutex
	var got []string
	var all sync.WaitGroup
	for _, c := range calls {
		all.Go(func() {
			slot, err := s.Acquire(t.Context(), c)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				got = append(got, "-"+c.Client)
				return
			}
			got = append(got, c.Client)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond) // of fake time
			mu.Lock()
			slot.Release()
		})
		synctest.Wait()
	}
	held.Release()
	all.Wait()
	return strings.Join(got, " ")
}

// TestHighestGoesFirst: a free slot goes to the highest priority that waits, and a
// full queue pushes out the lowest.
func TestHighestGoesFirst(t *testing.T) {
	call := func(client string, p rule.Priority) shed.Call { return shed.Call{Client: client, Priority: p} }
	synctest.Test(t, func(t *testing.T) {
		s := fixed(t, 1, shed.Options{Queue: 4, MaxWait: time.Hour})
		got := order(t, s, acquire(t, s, shed.Call{}), []shed.Call{
			call("low1", rule.PriorityLow), call("low2", rule.PriorityLow), call("normal1", 0), call("high1", rule.PriorityHigh),
			call("critical1", rule.PriorityCritical), call("normal2", rule.PriorityNormal), call("low3", rule.PriorityLow), call("normal3", 0),
		})
		if want := "-low1 -low2 -low3 -normal3 critical1 high1 normal1 normal2"; got != want {
			t.Errorf("served and refused (-) in order: %s, want %s", got, want)
		}
	})
}

// TestFairQueue: a client that waits with many calls is served in turn with one
// that comes later, twice as often with twice the weight, and is the one to be
// pushed out.
func TestFairQueue(t *testing.T) {
	a, b := shed.Call{Client: "a"}, shed.Call{Client: "b"}
	heavy := shed.Call{Client: "a", Weight: 2}
	for _, c := range []struct {
		queue   int
		calls   []shed.Call
		refused string
		first   int // of so many that are served first
		ofA     int // so many are of a
	}{
		{8, []shed.Call{a, a, a, a, b, b}, "", 2, 1},
		{8, []shed.Call{a, a, a, a, b, b}, "", 4, 2},
		{4, []shed.Call{a, a, a, a, b, b, a}, "-a -a -a", 4, 2},
		{8, []shed.Call{heavy, heavy, heavy, heavy, b, b}, "", 3, 2},
		{8, []shed.Call{heavy, heavy, heavy, heavy, b, b, b}, "", 6, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := fixed(t, 1, shed.Options{Queue: c.queue, MaxWait: time.Hour})
			got := order(t, s, acquire(t, s, shed.Call{Client: "other"}), c.calls)
			served, isPrefixed := strings.CutPrefix(got, c.refused)
			all := strings.Fields(served)
			if !isPrefixed || len(all) < c.first || strings.Contains(served, "-") || strings.Count(strings.Join(all[:c.first], ""), "a") != c.ofA {
				t.Errorf("queue %d, calls %v are served and refused (-) in order: %s, want %q refused and %d of the first %d served of a", c.queue, c.calls, got, c.refused, c.ofA, c.first)
			}
		})
	}
}

// TestReserve: critical calls find room where others fill the limit.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixed(t, 10, shed.Options{MaxWait: time.Second, Reserves: map[rule.Priority]int{rule.PriorityCritical: 20, rule.PriorityHigh: 10}})
		var slots []*shed.Slot
		for range 10 {
			slots = append(slots, acquire(t, s, shed.Call{}))
		}
		for _, c := range []struct {
			priority rule.Priority
			err      error
		}{
			{rule.PriorityNormal, shed.ErrShed}, {rule.PriorityHigh, nil}, {rule.PriorityHigh, shed.ErrShed},
			{rule.PriorityCritical, nil}, {rule.PriorityCritical, nil}, {rule.PriorityCritical, shed.ErrShed},
		} {
			slot, err := s.Acquire(t.Context(), shed.Call{Priority: c.priority})
			if !errors.Is(err, c.err) {
				t.Errorf("Acquire(%s) with %d under way = %v, want %v", c.priority, s.Stats().Inflight, err, c.err)
			}
			slots = append(slots, slot)
		}
		for _, slot := range slots {
			slot.Release()
			slot.Release()  // does nothing
			slot.Answered() // nor this
		}
		if st := s.Stats(); st.Inflight != 0 || st.Shed[rule.PriorityHigh] != 1 || st.Admitted[rule.PriorityCritical] != 2 {
			t.Errorf("when all is over Stats() = %+v, want none under way, 1 high shed, 2 critical admitted", st)
		}
	})
}

// TestC92WaitingCallIsGone: calls whose clients hang up leave the queue, and those
// that came later have their places.
func TestC92WaitingCallIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixed(t, 1, shed.Options{Queue: 20, MaxWait: time.Hour})
		held := acquire(t, s, shed.Call{})
		impatient, hangUp := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		var mu sync.Mutex
		gone, served := 0, 0
		call := func(ctx context.Context) {
			slot, err := s.Acquire(ctx, shed.Call{})
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, context.Canceled) {
				gone++
			} else if err == nil {
				served++
				slot.Release()
			}
		}
		for i := range 20 {
			ctx := t.Context()
			if i%4 != 0 {
				ctx = impatient
			}
			calls.Go(func() { call(ctx) })
		}
		synctest.Wait()
		if _, err := s.Acquire(t.Context(), shed.Call{}); !errors.Is(err, shed.ErrShed) {
			t.Errorf("Acquire with a full queue = %v, want ErrShed", err)
		}
		hangUp()
		synctest.Wait()
		for range 15 {
			calls.Go(func() { call(t.Context()) })
		}
		synctest.Wait()
		if st := s.Stats(); st.Waiting != 20 {
			t.Errorf("%d wait after 15 of 20 hung up and 15 came, want 20", st.Waiting)
		}
		held.Release()
		calls.Wait()
		if gone != 15 || served != 20 {
			t.Errorf("%d gone and %d served, want 15 and 20", gone, served)
		}
		if _, err := s.Acquire(impatient, shed.Call{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire of a client that has gone = %v, want Canceled", err)
		}
	})
}

// TestRandomEnds: whatever becomes of calls, nothing is under way at the end, and
// never more than may be.
func TestRandomEnds(t *testing.T) {
	s, err := shed.New(shed.Options{MinLimit: 4, MaxLimit: 40, Queue: 16, MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for g := range 32 {
		calls.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 3))
			for range 400 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Microsecond)
				c := shed.Call{Priority: rule.Priority(random.IntN(5)), Client: strconv.Itoa(random.IntN(20)), Weight: uint32(random.IntN(4))}
				if slot, err := s.Acquire(ctx, c); err == nil {
					if random.IntN(2) == 0 {
						slot.Answered()
					}
					if random.IntN(8) == 0 {
						calls.Go(slot.Release)
					}
					slot.Release()
				}
				cancel()
				if st := s.Stats(); st.Inflight < 0 || st.Inflight > 44 || st.Waiting < 0 || st.Waiting > 16 {
					t.Errorf("Stats() = %+v, want at most 44 under way and 16 waiting", st)
					return
				}
			}
		})
	}
	calls.Wait()
	if st := s.Stats(); st.Inflight != 0 || st.Waiting != 0 {
		t.Errorf("at the end Stats() = %+v, want none", st)
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		options shed.Options
		want    string
	}{
		{shed.Options{MinLimit: -1}, "limits from -1"},
		{shed.Options{MinLimit: 9, MaxLimit: 8}, "limits from 9 to 8"},
		{shed.Options{MaxLimit: 1 << 20}, "limits from"},
		{shed.Options{Initial: 2000}, "initial limit 2000"},
		{shed.Options{Queue: -1}, "queue -1"},
		{shed.Options{MaxWait: -1}, "max wait"},
		{shed.Options{Reserves: map[rule.Priority]int{rule.PriorityLow: 5}}, `priority "low"`},
		{shed.Options{Reserves: map[rule.Priority]int{rule.PriorityHigh: -5}}, "-5 %"},
		{shed.Options{Reserves: map[rule.Priority]int{rule.PriorityHigh: 60, rule.PriorityCritical: 50}}, "110 %"},
	} {
		if _, err := shed.New(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%+v) = %v, want %q", c.options, err, c.want)
		}
	}
	s := fixed(t, 1, shed.Options{})
	if _, err := s.Acquire(t.Context(), shed.Call{Priority: 9}); err == nil {
		t.Error("Acquire with priority 9 gives no error")
	}
	var none *shed.Slot
	none.Answered()
	none.Release()
}

// TestRetryAfter: later for the less important, and not all together.
func TestRetryAfter(t *testing.T) {
	for p, most := range map[rule.Priority]time.Duration{0: 5 * time.Second, rule.PriorityCritical: time.Second, rule.PriorityHigh: 3 * time.Second, rule.PriorityLow: 7 * time.Second} {
		for range 200 {
			if got := shed.RetryAfter(p); got < time.Second || got > most || got%time.Second != 0 {
				t.Fatalf("RetryAfter(%s) = %s, want whole seconds from 1s to %s", p, got, most)
			}
		}
	}
}

// TestLastingOverload: the limit does not drift up in minutes.
func TestLastingOverload(t *testing.T) {
	u := upstream{n: 20, service: 20 * time.Millisecond}
	most := 0
	r := run{upstream: &u, load: constant(3), warm: 30 * time.Second, length: long(90*time.Second, 9*time.Minute)}
	r.each = func(second int, s *shed.Shedder, _ []tally) {
		if second > 30 {
			most = max(most, s.Stats().Limit)
		}
	}
	r.simulate(t, []source{{shed.Call{}, 1}})
	t.Logf("at most %d", most)
	if most > 5*u.n {
		t.Errorf("the limit rises to %d for %d workers, want at most %d", most, u.n, 5*u.n)
	}
}
