package httplimit

import (
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
)

// turnClock finds when, by the clock of this process, a store decided. A store may
// have a clock of its own, and its answer may come late: a call that counted its
// delay from the answer would leave that much late, and run into the one behind it.
//
// All that is certain is that it decided between question and answer. So the
// distance of the two clocks is known to lie within bounds, narrow ones for answers
// that came fast; what was believed of it is kept as long as it lies within those of each
// next answer. Whatever the clocks do, no call leaves earlier or later than its bounds
// allow.
type turnClock struct {
	distance atomic.Int64 // nanoseconds from the store's clock to ours
}

// epoch is what the instants of this process are counted from.
var epoch = time.Now()

// decided gives our instant of a decision that a store made at an instant of its own,
// in microseconds.
func (t *turnClock) decided(asked, answered time.Time, at int64) time.Time {
	first, last := int64(asked.Sub(epoch))-1000*at, int64(answered.Sub(epoch))-1000*at
	believed := t.distance.Load()
	if distance := min(max(believed, first), last); distance != believed {
		t.distance.Store(distance)
		believed = distance
	}
	return epoch.Add(time.Duration(believed + 1000*at))
}

// asks gives the time before a question that may be answered with a turn; without a
// queue nobody needs it.
func asks(calls []caudal.Call) time.Time {
	for i := range calls {
		if calls[i].Limit.Algorithm() == caudal.LeakyBucket {
			return time.Now()
		}
	}
	return time.Time{}
}

// turn gives the instant at which a call may leave that was asked about at the
// given time, and was answered now.
func (c *core) turn(o *Outcome, asked, now time.Time) time.Time {
	delay := o.Verdict.Delay
	if asked.IsZero() {
		return now.Add(delay)
	}
	for i := range o.Decisions {
		if d := &o.Decisions[i]; d.Charged && d.Delay == delay {
			return c.turns.decided(asked, now, d.Receipt.At-delay.Microseconds()).Add(delay)
		}
	}
	return now.Add(delay)
}
