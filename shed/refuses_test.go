package shed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// TestRefuses: the look before Acquire refuses only whom Acquire would refuse: while
// the queue is full, those that could push nobody out. It takes nothing, and counts
// whom it refuses as shed.
func TestRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixed(t, 1, shed.Options{Queue: 2, MaxWait: time.Second})
		look := func(when, client string, p rule.Priority, want bool) {
			t.Helper()
			before := s.Stats()
			if got := s.Refuses(shed.Call{Client: client, Priority: p}); got != want {
				t.Errorf("%s: Refuses(%s, %s) = %t, want %t", when, client, p, got, want)
			}
			after := s.Stats()
			counted := after.Shed[p.OrNormal()] - before.Shed[p.OrNormal()]
			if (counted == 1) != want || after.Inflight != before.Inflight || after.Waiting != before.Waiting {
				t.Errorf("%s: Refuses(%s, %s) changed %+v to %+v, want only a refusal counted", when, client, p, before, after)
			}
		}
		wait := func(client string, p rule.Priority) {
			go func() {
				if slot, err := s.Acquire(t.Context(), shed.Call{Client: client, Priority: p}); err == nil {
					slot.Release()
				}
			}()
			synctest.Wait()
		}
		look("empty", "a", rule.PriorityLow, false)
		held := acquire(t, s, shed.Call{Client: "a"})
		look("room to wait", "a", rule.PriorityLow, false)
		wait("a", 0)
		look("room for one", "a", rule.PriorityLow, false)
		wait("a", 0)
		look("full", "z", rule.PriorityLow, true)
		look("full", "a", 0, true)
		look("full, a client that has nothing", "b", 0, false)
		look("full, a more important call", "a", rule.PriorityHigh, false)
		held.Release()
		synctest.Wait()
		look("over", "a", rule.PriorityLow, false)
	})
}
