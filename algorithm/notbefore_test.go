package algorithm_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
)

// TestNotBefore plays one bucket of 10/s: a turn each 100 ms.
func TestNotBefore(t *testing.T) {
	c, err := caudal.PerSecond(10).WithQueue(20, 0).Compile("", "")
	if err != nil {
		t.Fatal(err)
	}
	const start, ms = 1_000_000_000, 1000
	var s algorithm.LeakyBucket
	for i, step := range []struct {
		at        int64 // ms
		notBefore int64 // ms, 0 is none
		cost      uint32
		delay     time.Duration
		allowed   bool
		remaining uint64
	}{
		{at: 0, cost: 1, allowed: true, remaining: 20},
		{at: 0, notBefore: 50, cost: 1, delay: 100 * time.Millisecond, allowed: true, remaining: 19},   // the tail is later
		{at: 0, notBefore: 1010, cost: 1, delay: 1010 * time.Millisecond, allowed: true, remaining: 9}, // turns between are given up
		{at: 0, cost: 1, delay: 1110 * time.Millisecond, allowed: true, remaining: 8},                  // and later calls are behind
		{at: 0, notBefore: 1900, cost: 2, delay: 1900 * time.Millisecond, allowed: true, remaining: 0}, // the second turn is at 2 s, the longest
		{at: 100, notBefore: 2101, cost: 1, allowed: false, remaining: 0},                              // 1 ms too far ahead
		{at: 100, cost: 1, delay: 2000 * time.Millisecond, allowed: true, remaining: 0},                // which changed nothing
		{at: 5000, notBefore: 5000, cost: 1, allowed: true, remaining: 20},                             // not later than now
		{at: 9000, notBefore: 9250, cost: 0, allowed: true, remaining: 18},                             // a peek sees what is left
		{at: 9000, cost: 0, allowed: true, remaining: 21},                                              // and keeps nothing
	} {
		now := int64(start + step.at*ms)
		if step.notBefore > 0 {
			next, d := s.NotBefore(c, now, start+step.notBefore*ms).Take(c, now, step.cost)
			if d.Charged {
				s = next
			}
			checkTurn(t, i, d, step.allowed, step.delay, step.remaining)
			continue
		}
		var d caudal.Decision
		s, d = s.Take(c, now, step.cost)
		checkTurn(t, i, d, step.allowed, step.delay, step.remaining)
	}
}

func checkTurn(t *testing.T, step int, d caudal.Decision, allowed bool, delay time.Duration, remaining uint64) {
	t.Helper()
	if d.Allowed != allowed || d.Delay != delay || d.Remaining != remaining {
		t.Errorf("step %d: allowed %v after %s, %d remaining; want %v, %s, %d", step, d.Allowed, d.Delay, d.Remaining, allowed, delay, remaining)
	}
	if !allowed && d.RetryAfter != time.Millisecond {
		t.Errorf("step %d: retry after %s, want 1ms", step, d.RetryAfter)
	}
}

// TestNotBeforeHolds: whatever the bucket has seen, the turn is not before the
// instant, never sooner than without it, and one interval after the last.
func TestNotBeforeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.Uint32Range(1, 1000).Draw(t, "requests")
		c, err := caudal.PerSecond(requests).WithQueue(rapid.Uint32Range(0, 50).Draw(t, "queue"), 0).Compile("", "")
		if err != nil {
			t.Fatal(err)
		}
		var s algorithm.LeakyBucket
		var receipts []caudal.Receipt
		now := int64(1_000_000_000)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += rapid.Int64Range(0, 20_000).Draw(t, "later")
			if len(receipts) > 0 && rapid.Bool().Draw(t, "cancel") {
				s = s.Refund(receipts[0], now, receipts[0].Cost)
				receipts = receipts[1:]
			}
			not := now + rapid.Int64Range(-1000, 100_000).Draw(t, "not before")
			cost := rapid.Uint32Range(0, 3).Draw(t, "cost")
			_, without := s.Take(c, now, cost)
			next, d := s.NotBefore(c, now, not).Take(c, now, cost)
			if !d.Charged {
				if d.Allowed && !without.Allowed || d.RetryAfter < without.RetryAfter {
					t.Fatalf("with a least delay %+v, without %+v", d, without)
				}
				continue
			}
			if turn := now + d.Delay.Microseconds(); turn < not || d.Delay < without.Delay || !without.Allowed {
				t.Fatalf("not before %d: turn at %d, after %s; without it %+v", not, turn, d.Delay, without)
			}
			s = next
			receipts = append(receipts, d.Receipt)
		}
	})
}
