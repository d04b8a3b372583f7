package algorithm_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/refmodel"
)

var kinds = []caudal.Algorithm{caudal.TokenBucket, caudal.LeakyBucket, caudal.FixedWindow, caudal.SlidingLog, caudal.SlidingWindow}

// eachKind runs a property once per algorithm.
func eachKind(t *testing.T, property func(t *rapid.T, kind caudal.Algorithm)) {
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { property(t, kind) })
		})
	}
}

// rates are the ones that DESIGN-minded users ask about, and the extremes.
var rates = []struct {
	requests   uint32
	unit       caudal.Unit
	multiplier uint32
}{
	{1, caudal.Hour, 0}, {10, caudal.Second, 13}, {65535, caudal.Second, 0}, {1_000_000, caudal.Second, 0},
	{math.MaxUint32, caudal.Second, 0}, {1, caudal.Year, 0}, {3, caudal.Second, 0}, {50, caudal.Second, 0},
	{7, caudal.Day, 0}, {100, caudal.Minute, 0}, {1000, caudal.Hour, 0}, {7, caudal.Week, 0}, {31, caudal.Month, 0},
	{math.MaxUint32, caudal.Year, 0}, {9, caudal.Year, 40}, {0, caudal.Minute, 0}, {math.MaxUint32 - 1, caudal.Day, 3},
}

// size draws numbers of all magnitudes, and those at the ends.
func size() *rapid.Generator[uint32] {
	return rapid.OneOf(
		rapid.SampledFrom([]uint32{0, 1, 2, 3, math.MaxUint32, math.MaxUint32 - 1}),
		rapid.Uint32Range(0, 20), rapid.Uint32Range(0, 2000), rapid.Uint32(),
	)
}

// drawNumbers gives a limit of the same algorithm and period with other numbers.
// A limit that takes over 200 years to recover is made smaller.
func drawNumbers(t *rapid.T, l caudal.Limit, requests uint32) caudal.Limit {
	l.Requests = requests
	switch l.Algorithm {
	case caudal.TokenBucket:
		l.Burst = size().Draw(t, "burst")
	case caudal.LeakyBucket:
		l.Queue = size().Draw(t, "queue")
		if rapid.Bool().Draw(t, "bounded") {
			l.MaxWait = time.Duration(rapid.Int64Range(1, 3*l.Period().Microseconds()).Draw(t, "max_wait")) * time.Microsecond
		}
	}
	for l.Validate() != nil {
		l.Burst /= 2
		l.Queue /= 2
		if l.Requests == 0 || l.Burst == 0 && l.Queue == 0 {
			t.Skip("no such limit")
		}
	}
	return l
}

func drawLimit(t *rapid.T, kind caudal.Algorithm) caudal.Limit {
	rate := rapid.SampledFrom(rates).Draw(t, "rate")
	l := caudal.Limit{Algorithm: kind, Unit: rate.unit, Multiplier: rate.multiplier}
	if kind == caudal.FixedWindow && rate.multiplier == 0 && rate.unit >= caudal.Day {
		l.Timezone = rapid.SampledFrom([]string{"", "", "Europe/Madrid", "America/Santiago"}).Draw(t, "timezone")
		l.Epoch = l.Timezone == "" && rapid.Bool().Draw(t, "epoch")
	}
	return drawNumbers(t, l, rate.requests)
}

// trace draws instants that lie where decisions change: at and just before waits
// that were told, a period on, back again, and much later.
type trace struct {
	now  int64
	told []time.Duration // waits of the last decision
}

func drawStart(t *rapid.T) *trace {
	start := epochStart
	if rapid.Bool().Draw(t, "anywhere") {
		start += rapid.Int64Range(-400*86400_000_000, 400*86400_000_000).Draw(t, "start")
	}
	return &trace{now: start}
}

func (tr *trace) move(t *rapid.T, period int64) int64 {
	const century = 100 * 365 * 86400_000_000
	switch rapid.SampledFrom([]string{"stay", "stay", "told", "told", "told", "little", "part", "part", "period", "back", "century"}).Draw(t, "move") {
	case "told":
		if len(tr.told) > 0 {
			wait := rapid.SampledFrom(tr.told).Draw(t, "told").Microseconds()
			tr.now += max(0, wait-rapid.Int64Range(0, 1).Draw(t, "early"))
		}
	case "little":
		tr.now += rapid.Int64Range(1, 3).Draw(t, "little")
	case "part":
		tr.now += rapid.Int64Range(0, period).Draw(t, "part")
	case "period":
		tr.now += rapid.Int64Range(0, 2).Draw(t, "periods")*period + rapid.Int64Range(-1, 1).Draw(t, "off")
	case "back":
		tr.now -= rapid.Int64Range(0, period).Draw(t, "back")
	case "century":
		if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
			tr.now += century
		}
	}
	tr.now = min(max(tr.now, 0), caudal.MaxInstant)
	return tr.now
}

// drawCost draws a cost that a limit of this capacity decides about.
func drawCost(t *rapid.T, capacity uint64) uint32 {
	most := uint32(min(capacity, math.MaxUint32))
	return rapid.OneOf(
		rapid.SampledFrom([]uint32{0, 1, 1, 1, 2, most, most/2 + 1, most - 1, most + 1, math.MaxUint32}),
		rapid.Uint32Range(0, max(most, 1)), rapid.Uint32Range(1, 10),
	).Draw(t, "cost")
}

// TestRandomTracesMatchTheModel plays calls, refunds, credits and changes of the
// limit, with a clock that goes back and forth, against the model that counts
// the naive way. Every field of every decision must agree.
func TestRandomTracesMatchTheModel(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind caudal.Algorithm) {
		l := drawLimit(t, kind)
		c := compileRapid(t, l)
		m, model, tr := &machine{kind: kind}, refmodel.New(kind), drawStart(t)
		receipts := map[int]caudal.Receipt{}
		for id := range rapid.IntRange(1, 30).Draw(t, "steps") {
			now := tr.move(t, c.PeriodMicros())
			switch op := rapid.IntRange(0, 11).Draw(t, "op"); {
			case op == 0:
				l = drawNumbers(t, l, rapid.OneOf(rapid.Just(l.Requests), size()).Draw(t, "requests"))
				c = compileRapid(t, l)
			case op == 1 && l.Requests > 0:
				n := size().Draw(t, "credit")
				m.credit(c, now, n)
				model.Credit(l, now, n)
			case op <= 4 && l.Requests > 0:
				refundOne(t, m, model, c, now, receipts)
			}
			cost := drawCost(t, c.Capacity())
			got, want := m.take(c, now, cost), model.Take(l, now, cost, id)
			if got.Charged && cost <= 100 {
				receipts[id] = got.Receipt
			}
			got.Receipt = caudal.Receipt{}
			if tellable(want) && got != want {
				t.Fatalf("take(%s, at %d, cost %d)\n got %+v\nwant %+v", l, now, cost, got, want)
			}
			tr.told = []time.Duration{got.RetryAfter, got.ResetAfter, got.Delay}
		}
	})
}

// tellable leaves out waits that end after the last instant there is.
func tellable(d caudal.Decision) bool {
	return d.RetryAfter < 250*365*24*time.Hour && d.ResetAfter < 250*365*24*time.Hour
}

func refundOne(t *rapid.T, m *machine, model *refmodel.Model, c *caudal.Compiled, now int64, receipts map[int]caudal.Receipt) {
	for id := range 100 { // the first that is there: rapid must draw the same again
		r, ok := receipts[id]
		if !ok || rapid.IntRange(0, 2).Draw(t, "pass over") == 0 {
			continue
		}
		n := rapid.Uint32Range(1, r.Cost).Draw(t, "n")
		m.refund(c, r, now, n)
		model.Refund(c.Limit(), now, n, id)
		delete(receipts, id)
		return
	}
}

func compileRapid(t *rapid.T, l caudal.Limit) *caudal.Compiled {
	c, err := l.Compile("", "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// drawMachine gives a key with some history, and the instant that it has come to.
func drawMachine(t *rapid.T, kind caudal.Algorithm) (*machine, *caudal.Compiled, *trace) {
	c := compileRapid(t, drawLimit(t, kind))
	m, tr := &machine{kind: kind}, drawStart(t)
	for range rapid.IntRange(0, 12).Draw(t, "history") {
		d := m.take(c, tr.now, drawCost(t, c.Capacity()))
		if d.Charged && d.Receipt.Cost < 100 && rapid.IntRange(0, 5).Draw(t, "cancel") == 0 {
			m.refund(c, d.Receipt, tr.now, d.Receipt.Cost)
		}
		tr.told = []time.Duration{d.RetryAfter, d.ResetAfter, d.Delay}
		tr.move(t, c.PeriodMicros())
	}
	return m, c, tr
}

// TestRetryAfterIsExact: who waits as long as told passes, who comes one
// microsecond earlier does not.
func TestRetryAfterIsExact(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind caudal.Algorithm) {
		m, c, tr := drawMachine(t, kind)
		cost := drawCost(t, c.Capacity())
		d := m.ask(c, tr.now, cost)
		if d.Allowed || d.Never {
			return
		}
		at := tr.now + d.RetryAfter.Microseconds()
		if at > caudal.MaxInstant {
			return
		}
		if got := m.ask(c, at, cost); !got.Allowed {
			t.Fatalf("%s: cost %d at %d was told to wait %s, and was denied then: %+v", c.Limit(), cost, tr.now, d.RetryAfter, got)
		}
		if got := m.ask(c, at-1, cost); got.Allowed {
			t.Fatalf("%s: cost %d at %d was told to wait %s, and passed a microsecond earlier", c.Limit(), cost, tr.now, d.RetryAfter)
		}
	})
}

// TestRemainingIsTheLargestCost: remaining passes, one more does not, and after
// the reset everything passes.
func TestRemainingIsTheLargestCost(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind caudal.Algorithm) {
		m, c, tr := drawMachine(t, kind)
		d := m.take(c, tr.now, drawCost(t, c.Capacity()))
		if d.Remaining > d.Limit || d.Limit != c.Capacity() {
			t.Fatalf("%s: remaining %d of %d", c.Limit(), d.Remaining, d.Limit)
		}
		if d.Remaining <= math.MaxUint32 && !m.ask(c, tr.now, uint32(d.Remaining)).Allowed && d.Limit > 0 {
			t.Fatalf("%s: remaining %d does not pass", c.Limit(), d.Remaining)
		}
		if more := d.Remaining + 1; more <= math.MaxUint32 && m.ask(c, tr.now, uint32(more)).Allowed {
			t.Fatalf("%s: remaining %d, and %d passes", c.Limit(), d.Remaining, more)
		}
		at := tr.now + d.ResetAfter.Microseconds()
		if got := m.ask(c, at, 0); at <= caudal.MaxInstant && got.Remaining != d.Limit {
			t.Fatalf("%s: %d remain after the reset at %d, of %d", c.Limit(), got.Remaining, at, d.Limit)
		}
		if got := m.ask(c, at-1, 0); d.ResetAfter > 0 && got.Remaining == d.Limit {
			t.Fatalf("%s: all remain already before the reset at %d", c.Limit(), at)
		}
	})
}

// TestDenialAndPeekChangeNothing, not even for a caller whose clock lags.
func TestDenialAndPeekChangeNothing(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind caudal.Algorithm) {
		m, c, tr := drawMachine(t, kind)
		before := m.clone()
		d := m.take(c, tr.move(t, c.PeriodMicros()), drawCost(t, c.Capacity()))
		if !d.Charged && !reflect.DeepEqual(m.clone(), before) {
			t.Fatalf("%s: %+v\nchanged %+v\n     to %+v", c.Limit(), d, before, m)
		}
		if !d.Charged && d.Receipt != (caudal.Receipt{}) {
			t.Fatalf("%s: a receipt for nothing: %+v", c.Limit(), d)
		}
	})
}

// TestRefundUndoesACharge: with nothing in between, a call that was charged and
// taken back might never have been.
func TestRefundUndoesACharge(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind caudal.Algorithm) {
		m, c, tr := drawMachine(t, kind)
		tr.now = max(tr.now, heldBy(m)) // a charge moves the time that a key holds
		before := m.clone()
		cost := drawCost(t, c.Capacity())
		d := m.take(c, tr.now, cost)
		if !d.Charged {
			return
		}
		m.refund(c, d.Receipt, tr.now, cost)
		from := tr.now
		sameFrom(t, c, m, before, from, tr.move(t, c.PeriodMicros()))
	})
}

// heldBy gives the time held in a key, for those that hold an instant.
func heldBy(m *machine) int64 {
	held := max(m.tb.At, m.fw.Start, m.sw.Start)
	if n := len(m.sl.Entries); n > 0 {
		held = max(held, m.sl.Entries[n-1].At)
	}
	return held
}

// sameFrom checks that two keys decide alike at these instants, for every kind
// of cost.
func sameFrom(t *rapid.T, c *caudal.Compiled, got, want *machine, from int64, at ...int64) {
	t.Helper()
	for _, now := range append(at, from) {
		now = max(now, from)
		for _, cost := range []uint32{0, 1, 2, uint32(min(c.Capacity(), math.MaxUint32))} {
			if g, w := got.ask(c, now, cost), want.ask(c, now, cost); g != w {
				t.Fatalf("%s at %d, cost %d\n got %+v\nwant %+v", c.Limit(), now, cost, g, w)
			}
		}
	}
}

// TestFreshAtIsRight: from that instant a key decides like one never seen, and
// not before, except that a sliding window is kept until its second window ends
// although its share rounds down to nothing earlier.
func TestFreshAtIsRight(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind caudal.Algorithm) {
		m, c, tr := drawMachine(t, kind)
		fresh := &machine{kind: kind}
		at := m.freshAt(c)
		if c.Capacity() == 0 || at > caudal.MaxInstant || reflect.DeepEqual(m, fresh) {
			return
		}
		tr.now = at
		sameFrom(t, c, m, fresh, at, tr.move(t, c.PeriodMicros()))
		if d := m.ask(c, at-1, 0); kind != caudal.SlidingWindow && d.Remaining == d.Limit && m.ask(c, at, 0).ResetAfter == 0 && used(m) {
			if got := m.ask(c, at-1, 1); got == fresh.ask(c, at-1, 1) {
				t.Fatalf("%s: fresh a microsecond before %d: %+v", c.Limit(), at, got)
			}
		}
	})
}

// used reports whether a key holds more than an instant.
func used(m *machine) bool {
	hi, lo := m.tb.Words()
	return hi|lo|m.fw.Count|m.sl.Used > 0 || m.lb.Rate > 0
}

// TestNeverOverTheStatedWorstCase counts what leaves in every half-open interval
// of one period, with a clock that does not go back.
func TestNeverOverTheStatedWorstCase(t *testing.T) {
	eachKind(t, func(t *rapid.T, kind caudal.Algorithm) {
		l := drawLimit(t, kind)
		c := compileRapid(t, l)
		worst := l.WorstCase()
		m, tr := &machine{kind: kind}, drawStart(t)
		var passed []departure
		var largest uint64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if now := tr.now; tr.move(t, c.PeriodMicros()) < now {
				tr.now = now
			}
			cost := drawCost(t, c.Capacity())
			d := m.take(c, tr.now, cost)
			tr.told = []time.Duration{d.RetryAfter, d.ResetAfter}
			if d.Charged {
				passed = append(passed, departure{tr.now + d.Delay.Microseconds(), uint64(cost)})
				largest = max(largest, uint64(cost))
			}
		}
		got := busiest(passed, worst.Period.Microseconds())
		bound := worst.Cost
		if kind == caudal.LeakyBucket { // rate x period, and the largest cost less one
			bound = min(bound, uint64(l.Requests)+max(largest, 1)-1)
		}
		if got > bound {
			t.Fatalf("%s: %d passed in one period, at most %d may: %v", l, got, bound, passed)
		}
	})
}

type departure struct {
	at   int64
	cost uint64
}

// busiest gives the largest summed cost that leaves in a half-open interval.
func busiest(passed []departure, period int64) (most uint64) {
	for i, from := range passed {
		var sum uint64
		for _, p := range passed[i:] {
			if p.at < from.at+period {
				sum += p.cost
			}
		}
		most = max(most, sum)
	}
	return most
}

// TestChangedNumbersKeepWhatWasConsumed: what remains under other numbers is
// their capacity less what was used, at the same instant.
func TestChangedNumbersKeepWhatWasConsumed(t *testing.T) {
	for _, kind := range []caudal.Algorithm{caudal.TokenBucket, caudal.FixedWindow, caudal.SlidingLog, caudal.SlidingWindow} {
		t.Run(kind.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				l := drawLimit(t, kind)
				c := compileRapid(t, l)
				m, tr := &machine{kind: kind}, drawStart(t)
				before := m.take(c, tr.now, drawCost(t, c.Capacity()))
				other := compileRapid(t, drawNumbers(t, l, size().Draw(t, "requests")))
				got := m.ask(other, tr.now, 0)
				if c.Capacity() == 0 || other.Capacity() == 0 {
					return
				}
				used := before.Limit - before.Remaining
				if want := other.Capacity() - min(used, other.Capacity()); got.Remaining != want || !got.Allowed {
					t.Fatalf("%s used %d, then %s: %+v, want %d remaining", l, used, other.Limit(), got, want)
				}
				if back := m.ask(c, tr.now, 0); back.Remaining != before.Remaining {
					t.Fatalf("%s and back: %d remaining, want %d", l, back.Remaining, before.Remaining)
				}
			})
		})
	}
}

// TestIdleForCenturies is C12: no product overflows however long a key sleeps.
func TestIdleForCenturies(t *testing.T) {
	for _, kind := range kinds {
		for _, rate := range rates {
			l := caudal.Limit{Algorithm: kind, Requests: rate.requests, Unit: rate.unit, Multiplier: rate.multiplier}
			if l.Requests == 0 || l.Validate() != nil {
				continue
			}
			t.Run(fmt.Sprint(l), func(t *testing.T) {
				c, m := compile(t, l), &machine{kind: kind}
				full := uint32(c.Capacity())
				m.take(c, epochStart, full)
				for _, idle := range []int64{300 * 365 * 86400_000_000, 400 * 365 * 86400_000_000} {
					if d := m.ask(c, epochStart+idle, full); !d.Allowed {
						t.Errorf("%s: cost %d after %d us of nothing = %+v, want allowed", l, full, idle, d)
					}
				}
			})
		}
	}
}
