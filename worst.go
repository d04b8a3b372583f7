package caudal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// WorstCase is the most that a limit can let through in any half-open interval
// of one period: what the thing behind the limit must be able to bear. It is an
// upper bound that the algorithm really comes near, not an average.
type WorstCase struct {
	// Calls bounds how many calls of cost 1 pass (for a leaky bucket: leave).
	Calls uint64
	// Cost bounds the summed cost. It is above Calls only for a leaky bucket that
	// admits costs over 1: such a call leaves at the first of its turns.
	Cost uint64
	// Period is the interval's length: the limit's period or, for a calendar, its
	// shortest window: 23 hours, 28 days, 365 days.
	Period time.Duration
	// Reason says in words how the worst case comes about.
	Reason string
}

// String gives the worst case as a sentence without its full stop, such as
// "at most 200 in any minute: all at once around the edge of two windows".
func (w WorstCase) String() string {
	if w.Calls == 0 {
		return "none: " + w.Reason
	}
	return fmt.Sprintf("at most %d in any %s: %s", w.Calls, lengthWords(w.Period), w.Reason)
}

// WorstCase states what the limit can let through at most in any half-open
// interval of one period. The limit must be one that Validate accepts.
//
// Windows of a calendar are bounded over their shortest, so that the bound holds
// in every one of them; a country that once skips a day has a shorter one still.
func (l Limit) WorstCase() WorstCase {
	n := uint64(l.Requests)
	w := WorstCase{Calls: n, Cost: n, Period: l.shortestWindow()}
	if n == 0 {
		w.Reason = "the limit is 0, so everything is denied"
		return w
	}
	switch l.Algorithm {
	case TokenBucket:
		w.Calls += l.Capacity()
		w.Cost = w.Calls
		w.Reason = fmt.Sprintf("a burst of %d, and %d more as they are refilled", l.Capacity(), n)
	case FixedWindow:
		w.Calls, w.Cost = 2*n, 2*n
		w.Reason = "all at once around the edge of two windows"
	case SlidingWindow:
		w.Calls, w.Cost = 2*n, 2*n
		w.Reason = fmt.Sprintf("beyond %d only as fast as the previous window's share falls", n)
	case SlidingLog:
		w.Reason = "exactly the limit, wherever the interval lies"
	case LeakyBucket:
		w.Cost += l.Capacity() - 1
		w.Reason = "they leave by turns, one each " + shortWords(l.spacing())
	}
	return w
}

// shortestWindow is the period, or the shortest that a calendar makes of it.
func (l Limit) shortestWindow() time.Duration {
	if l.Algorithm != FixedWindow || l.Epoch || l.multiplier() != 1 {
		return l.Period()
	}
	period := l.Period()
	switch l.Unit {
	case Month:
		return 28 * Day.Duration()
	case Day, Week:
		if l.Timezone != "" && l.Timezone != "UTC" {
			period -= time.Hour // when the clock goes forward
		}
	}
	return period
}

// spacing is how far apart the turns of a leaky bucket are, to the nanosecond.
func (l Limit) spacing() time.Duration { return l.Period() / time.Duration(l.Requests) }

// Words gives the limit in plain words, such as "100 per minute, bursts of up to
// 20, refilled steadily". For the form that ParseLimit reads, use String.
func (l Limit) Words() string {
	if l.Requests == 0 {
		return "nothing: everything is denied"
	}
	rate := fmt.Sprintf("%d per %s", l.Requests, l.periodWords())
	switch l.Algorithm {
	case TokenBucket:
		return fmt.Sprintf("%s, bursts of up to %d, refilled steadily", rate, l.Capacity())
	case LeakyBucket:
		return rate + ", " + l.queueWords()
	case FixedWindow:
		return l.windowWords()
	case SlidingLog:
		return fmt.Sprintf("%s, exact over any %s", rate, l.periodWords())
	case SlidingWindow:
		return fmt.Sprintf("%s, nearly exact over any %s", rate, l.periodWords())
	}
	return rate
}

func (l Limit) queueWords() string {
	if l.Queue == 0 {
		return "none waiting"
	}
	words := fmt.Sprintf("up to %d waiting", l.Queue)
	if l.MaxWait > 0 {
		words += ", at most " + shortWords(l.MaxWait)
	}
	return words
}

func (l Limit) windowWords() string {
	period := l.periodWords()
	switch {
	case l.Timezone != "":
		return fmt.Sprintf("%d per calendar %s in %s", l.Requests, period, l.Timezone)
	case l.multiplier() > 1 || l.Epoch && l.Unit >= Month:
		length := lengthWords(l.Period()) // months and years are 30 and 365 days here
		return fmt.Sprintf("%d per window of %s", l.Requests, length)
	case l.Epoch && l.Unit == Week:
		return fmt.Sprintf("%d per week from Thursday to Thursday, UTC", l.Requests)
	case l.Unit >= Day:
		return fmt.Sprintf("%d per calendar %s, UTC", l.Requests, period)
	}
	return fmt.Sprintf("%d per clock %s", l.Requests, period)
}

// lengthWords says a period in the largest unit up to days that it is a whole
// number of: "minute", "90 seconds", "28 days". Seven days are a week.
func lengthWords(d time.Duration) string {
	if d == Week.Duration() {
		return "week"
	}
	for unit := Day; unit >= Second; unit-- {
		length := unit.Duration()
		switch {
		case d == length:
			return unit.String()
		case d%length == 0:
			return fmt.Sprintf("%d %ss", d/length, unit)
		}
	}
	return d.String()
}

// shortWords says a short time as a number and a unit, "20 ms", to four digits;
// from a minute on in Go's way, "1m30s".
func shortWords(d time.Duration) string {
	number := func(unit time.Duration, name string) string {
		return strconv.FormatFloat(float64(d)/float64(unit), 'g', 4, 64) + " " + name
	}
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case d < time.Millisecond:
		return number(time.Microsecond, "us")
	case d < time.Second:
		return number(time.Millisecond, "ms")
	case d < time.Minute:
		return number(time.Second, "s")
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
