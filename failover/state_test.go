package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
)

// await polls for something that other goroutines do in real time.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for end := time.Now().Add(minute); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// TestChangesAreToldInOrder: one call of OnChange for each change, with what the
// State is then; an observer that blocks holds up nobody.
func TestChangesAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		var told []State
		slow := make(chan struct{})
		s := New(store, Options{OnChange: func(st State) {
			<-slow
			told = append(told, st)
		}})
		defer mustClose(t, s)
		if st := s.State(); st.Degraded || st.Kind != "" || st.Instances != 1 {
			t.Errorf("at first: %+v", st)
		}
		for range 2 {
			time.Sleep(time.Second)
			store.set(fails(errRefused))
			degraded(t, s)
			time.Sleep(time.Second)
			store.set(nil)
			time.Sleep(time.Second)
			if s.Degraded() {
				t.Fatal("an observer that blocks keeps the store from coming back")
			}
		}
		close(slow)
		synctest.Wait()
		if len(told) != 4 {
			t.Fatalf("told of %d changes, want 4", len(told))
		}
		for i, st := range told {
			if st.Degraded != (i%2 == 0) || st.Kind != "connection" || !errors.Is(st.Err, errRefused) {
				t.Errorf("change %d: %+v", i+1, st)
			}
			if i > 0 && !st.Since.After(told[i-1].Since) {
				t.Errorf("change %d is not after the one before", i+1)
			}
		}
	})
}

func TestChangesAreBounded(t *testing.T) {
	c := &changes{wake: make(chan struct{}, 1)}
	for i := range 100 {
		c.add(State{Instances: i})
	}
	var got []int
	for st, ok := c.take(); ok; st, ok = c.take() {
		got = append(got, st.Instances)
	}
	if len(got) != maxChanges || got[0] != 100-maxChanges || got[maxChanges-1] != 99 {
		t.Errorf("of 100 changes %v wait, want the last %d", got, maxChanges)
	}
}

func TestFiguresAndObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		var mu sync.Mutex
		seen := map[string]int{}
		s := New(store, Options{OnCall: func(op string, took time.Duration, kind string) {
			mu.Lock()
			defer mu.Unlock()
			seen[op+" "+kind]++
			if op == opTake && took != ms && kind == "" {
				t.Errorf("a call that took 1ms is told as %s", took)
			}
		}})
		defer mustClose(t, s)
		time.Sleep(time.Second)
		store.set(slow(ms))
		take(t, s, limit(t, "10/h"), "k")
		store.set(hangs)
		d := take(t, s, limit(t, "10/h"), "k")
		take(t, s, limit(t, "20/h", caudal.OnStoreError(caudal.FailOpen, 0)), "k")
		take(t, s, limit(t, "30/h", caudal.OnStoreError(caudal.FailClosed, 0)), "k")
		if err := refund(s, d.Receipt, 1); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if seen["take "] != 1 || seen["take timeout"] != 3 || seen["probe "] < 2 {
			t.Errorf("observed %v", seen)
		}
		st := s.Stats()
		if st.Local != 1 || st.Passed != 1 || st.Refused != 1 || st.LocalKeys != 1 || st.Errors["timeout"] < 3 || st.InFlight != 0 {
			t.Errorf("Stats() = %+v", st)
		}
	})
}

func TestKindsAreBounded(t *testing.T) {
	s := gone(t, 1)
	for i := range 1000 {
		s.failed(&kindError{fmt.Sprint("kind ", i)})
	}
	if st := s.Stats(); len(st.Errors) > maxKinds || st.Errors[KindOther] < 900 {
		t.Errorf("%d kinds, %d of them other; want at most %d kinds", len(st.Errors), st.Errors[KindOther], maxKinds)
	}
}

// heartOf always counts the same.
type heartOf int

func (h heartOf) Beat(context.Context) (int, error) { return int(h), nil }

// heart counts what it is told to, or fails.
type heart struct {
	instances atomic.Int64
	beats     atomic.Int64
	fault     atomic.Pointer[func(context.Context) error]
}

func (h *heart) Beat(ctx context.Context) (int, error) {
	h.beats.Add(1)
	if f := h.fault.Load(); f != nil {
		return 0, (*f)(ctx)
	}
	return int(h.instances.Load()), nil
}

// TestHeartbeatCountsInstances: the last number known stands while the store is
// gone; nothing that a heart does harms decisions.
func TestHeartbeatCountsInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, store := &heart{}, newFake(nil)
		h.instances.Store(4)
		s := New(store, Options{Heart: h})
		release := make(chan struct{})
		defer mustClose(t, s)
		defer close(release)
		time.Sleep(ms)
		if n := s.Instances(); n != 4 || s.State().Instances != 4 {
			t.Errorf("after the first heartbeat: %d instances, want 4", n)
		}
		store.set(fails(errRefused))
		degraded(t, s)
		beats := h.beats.Load()
		h.instances.Store(7)
		time.Sleep(minute)
		if n := s.Instances(); n != 4 || h.beats.Load() != beats {
			t.Errorf("while the store is gone: %d instances, %d beats, want the last number and none", n, h.beats.Load()-beats)
		}
		if d := take(t, s, limit(t, "100/h"), "k"); d.Limit != 50 {
			t.Errorf("100/h by 2 over 4 instances: %s, want a limit of 50", show(d))
		}
		store.set(nil)
		time.Sleep(3 * time.Second)
		if n := s.Instances(); n != 7 {
			t.Errorf("when the store is back: %d instances, want 7", n)
		}
		for name, fault := range map[string]func(context.Context) error{
			"fails": fails(errRefused), "panics": func(context.Context) error { panic("heart") }, "takes no notice": deaf(release), "counts none": nil,
		} {
			if fault != nil {
				h.fault.Store(&fault)
			} else {
				h.fault.Store(nil)
				h.instances.Store(0)
			}
			time.Sleep(minute)
			if n := s.Instances(); n != 7 || s.Degraded() {
				t.Errorf("a heart that %s: %d instances, degraded %v, want 7 and no harm", name, n, s.Degraded())
			}
			if d := take(t, s, limit(t, "100/h"), name); d.Degraded {
				t.Errorf("a heart that %s: %s", name, show(d))
			}
		}
	})
}

func TestExpectedInstancesOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heart{}
		h.instances.Store(4)
		s := New(newFake(nil), Options{Heart: h, ExpectedInstances: 9})
		defer mustClose(t, s)
		time.Sleep(minute)
		if s.Instances() != 9 || h.beats.Load() != 0 {
			t.Errorf("%d instances, %d beats, want 9 and none", s.Instances(), h.beats.Load())
		}
	})
}
