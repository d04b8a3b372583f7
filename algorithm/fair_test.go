package algorithm_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/refmodel"
)

// drawFair gives a limit whose queue is short enough to be fair.
func drawFair(t *rapid.T, l caudal.Limit) caudal.Limit {
	l.Requests = rapid.SampledFrom([]uint32{0, 1, 3, 7, 50, 1000, 1_000_000}).Draw(t, "requests")
	l.Queue = rapid.Uint32Range(0, 30).Draw(t, "queue")
	l.MaxWait = 0
	if rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
		l.MaxWait = time.Duration(rapid.Int64Range(1, 8*l.Period().Microseconds()).Draw(t, "max_wait")) * time.Microsecond
	}
	return l
}

// TestFairTracesMatchTheModel plays calls of several owners, and of nobody, with
// refunds, credits, other limits and a clock that goes back and forth.
func TestFairTracesMatchTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]caudal.Unit{caudal.Second, caudal.Minute}).Draw(t, "unit")
		l := drawFair(t, caudal.Limit{Algorithm: caudal.LeakyBucket, Unit: unit})
		c := compileRapid(t, l)
		m, model, tr := &machine{kind: caudal.LeakyBucket}, refmodel.New(caudal.LeakyBucket), drawStart(t)
		receipts := map[int]caudal.Receipt{}
		for id := range rapid.IntRange(1, 50).Draw(t, "steps") {
			now := tr.now
			if rapid.Bool().Draw(t, "moves") {
				now = tr.move(t, c.PeriodMicros())
			}
			switch op := rapid.IntRange(0, 15).Draw(t, "op"); {
			case op == 0:
				l = drawFair(t, l)
				c = compileRapid(t, l)
			case op == 1 && l.Requests > 0:
				n := rapid.Uint32Range(0, 5).Draw(t, "credit")
				m.credit(c, now, n)
				model.Credit(l, now, n)
			case op <= 5 && l.Requests > 0:
				refundOne(t, m, model, c, now, receipts)
			}
			owner := rapid.Uint64Range(0, 4).Draw(t, "owner")
			cost := rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Range(0, 9), rapid.Just(uint32(c.Capacity()))).Draw(t, "cost")
			var got caudal.Decision
			m.lb, got = m.lb.TakeFair(c, now, cost, owner)
			want := model.TakeFair(l, now, cost, id, owner)
			if got.Charged {
				receipts[id] = got.Receipt
			}
			got.Receipt = caudal.Receipt{}
			if tellable(want) && got != want {
				t.Fatalf("TakeFair(%s, at %d, cost %d, owner %d)\n got %+v\nwant %+v", l, now, cost, owner, got, want)
			}
			tr.told = []time.Duration{got.RetryAfter, got.ResetAfter, got.Delay}
		}
	})
}

// TestFairRetryIsExact: who waits as long as told passes, and nobody sooner.
func TestFairRetryIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawFair(t, caudal.Limit{Algorithm: caudal.LeakyBucket, Unit: caudal.Second})
		c, now := compileRapid(t, l), epochStart
		var s algorithm.LeakyBucket
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			owner, cost := rapid.Uint64Range(1, 5).Draw(t, "owner"), rapid.Uint32Range(1, 4).Draw(t, "cost")
			next, d := s.TakeFair(c, now, cost, owner)
			if !d.Allowed && !d.Never {
				at := now + d.RetryAfter.Microseconds()
				if _, then := s.TakeFair(c, at, cost, owner); !then.Allowed {
					t.Fatalf("%s: owner %d, cost %d, told to wait %s, was denied then: %+v", l, owner, cost, d.RetryAfter, then)
				}
				if _, sooner := s.TakeFair(c, at-1, cost, owner); sooner.Allowed {
					t.Fatalf("%s: owner %d, cost %d, told to wait %s, passed a microsecond sooner", l, owner, cost, d.RetryAfter)
				}
			}
			if d.Charged && rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
				next = next.Refund(d.Receipt, now, cost)
			}
			s = next
			now += rapid.Int64Range(0, 3).Draw(t, "turns") * c.PeriodMicros() / int64(max(l.Requests, 1)) / 2
		}
	})
}

// The example of docs/algorithms.md: one client sends without end, others come.
func TestFairOneClientCannotFillTheQueue(t *testing.T) {
	c := compile(t, parse(t, "50/s leaky_bucket queue 59"))
	var s algorithm.LeakyBucket
	admit := func(now int64, owner uint64, calls int) (admitted int) {
		for range calls {
			var d caudal.Decision
			if s, d = s.TakeFair(c, now, 1, owner); d.Allowed {
				admitted++
			}
		}
		return admitted
	}
	for _, step := range []struct {
		owner uint64
		calls int
		want  int
		why   string
	}{
		{1, 100, 31, "one leaves at once, and 60 / 2 wait"},
		{2, 100, 20, "two wait: 60 / 3 each; the 30 of the first stand"},
		{1, 100, 0, "the first has more than its share now"},
		{3, 100, 9, "its share is 60 / 4, and 9 places are left"},
		{4, 1, 0, "the queue is full"},
	} {
		if got := admit(epochStart, step.owner, step.calls); got != step.want {
			t.Errorf("%d calls of owner %d: %d admitted, want %d: %s", step.calls, step.owner, got, step.want, step.why)
		}
	}
	if got := admit(epochStart+100_000, 4, 100); got != 5 {
		t.Errorf("after five turns a newcomer got %d, want the 5 that are free", got)
	}
}

// A cost is so many turns; a part that is taken back frees as many; what can never
// fit into a share is said so.
func TestFairCostAndRefund(t *testing.T) {
	c, now := compile(t, parse(t, "1/s leaky_bucket queue 9")), epochStart // capacity 10: alone 5 wait
	var s algorithm.LeakyBucket
	take := func(owner uint64, cost uint32) (d caudal.Decision) {
		s, d = s.TakeFair(c, now, cost, owner)
		return d
	}
	if d := take(1, 7); !d.Never || d.RetryAfter != 0 {
		t.Errorf("a cost of 7, of which 6 must wait: %+v, want that it never passes", d)
	}
	d := take(1, 6)
	if !d.Charged || d.Remaining != 0 || len(s.Held) != 5 {
		t.Fatalf("a cost of 6: %+v with %d held, want charged, 0 remaining, 5 held", d, len(s.Held))
	}
	if d := take(1, 1); d.Allowed || d.RetryAfter != time.Second {
		t.Errorf("one more: %+v, want a denial for 1s", d)
	}
	if d := take(2, 1); !d.Allowed || d.Remaining != 2 {
		t.Errorf("another owner: %+v, want allowed and 2 more of its share of 3", d)
	}
	s = s.Refund(d.Receipt, now, 3)
	if len(s.Held) != 3 {
		t.Errorf("after 3 of 6 turns came back %d are held, want 2 and one of the other", len(s.Held))
	}
	if d := take(1, 1); !d.Allowed || d.Delay != 3*time.Second {
		t.Errorf("one more: %+v, want the freed turn after 3s", d)
	}
}

func TestFairLedgerIsBounded(t *testing.T) {
	c := compile(t, parse(t, "1/s leaky_bucket queue 100000"))
	var s algorithm.LeakyBucket
	admitted := 0
	for i := range 3000 {
		var d caudal.Decision
		if s, d = s.TakeFair(c, epochStart, 1, uint64(1+i/2000)); d.Allowed {
			admitted++
		}
	}
	if len(s.Held) != algorithm.MaxHeld {
		t.Errorf("%d turns are held, want %d", len(s.Held), algorithm.MaxHeld)
	}
	if want := 1 + algorithm.MaxHeld + 1000; admitted != want {
		t.Errorf("%d admitted, want %d: one at once, %d of the first owner, all of the second", admitted, want, algorithm.MaxHeld)
	}
}

// A tail that is taken back after the limit was made slower must not reach back
// over the turns of calls that wait: intervals are longer now than those that the
// turns were given by.
func TestRefundOfTheTailUnderASlowerLimitKeepsTurnsApart(t *testing.T) {
	fast, slow, now := compile(t, parse(t, "50/s leaky_bucket queue 60")), compile(t, parse(t, "5/s leaky_bucket queue 60")), epochStart
	for n := uint32(1); n <= 5; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var s algorithm.LeakyBucket
			var tail caudal.Decision
			given := map[time.Duration]bool{}
			for range 20 {
				var d caudal.Decision
				s, d = s.Take(fast, now, 1)
				given[d.Delay] = true
			}
			s, tail = s.Take(fast, now, 5) // at 400 to 480 ms
			for k := range 5 - n {
				given[tail.Delay+time.Duration(k)*20*time.Millisecond] = true
			}
			s, behind := s.Take(slow, now, 1)
			s = s.Refund(behind.Receipt, now, 1) // the queue counts by the slower limit now
			s = s.Refund(tail.Receipt, now, n)
			for range 4 {
				var d caudal.Decision
				s, d = s.Take(slow, now, 1)
				for other := range given {
					if gap := (d.Delay - other).Abs(); gap < 20*time.Millisecond {
						t.Errorf("%d of the last call's 5 turns came back: a new turn at %s, %s from another", n, d.Delay, gap)
					}
				}
				given[d.Delay] = true
			}
		})
	}
}
