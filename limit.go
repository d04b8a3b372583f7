package caudal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Algorithm says how a limit counts. The zero value is no algorithm; a Limit
// with it is refused.
type Algorithm uint8

// The five algorithms. docs/algorithms.md helps to choose.
const (
	// TokenBucket allows bursts up to a capacity, which refills steadily. The
	// default for APIs.
	TokenBucket Algorithm = iota + 1
	// LeakyBucket queues calls and lets them leave one period/requests apart. For
	// smoothing traffic towards something fragile.
	LeakyBucket
	// FixedWindow counts per aligned window. For quotas; up to twice the limit
	// can pass around a boundary.
	FixedWindow
	// SlidingLog remembers every admitted call. Exact; for low limits.
	SlidingLog
	// SlidingWindow weighs the previous window's count. Nearly exact, two numbers.
	SlidingWindow
)

var algorithmNames = [...]string{"", "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window"}

// Algorithms lists the algorithms' names as rule files write them.
func Algorithms() []string { return append([]string(nil), algorithmNames[1:]...) }

// String gives the name that rule files use, such as "token_bucket".
func (a Algorithm) String() string {
	if int(a) < len(algorithmNames) && a != 0 {
		return algorithmNames[a]
	}
	return "algorithm(" + strconv.Itoa(int(a)) + ")"
}

// ParseAlgorithm reads an algorithm's name as rule files write it.
func ParseAlgorithm(s string) (Algorithm, bool) {
	for i, name := range algorithmNames {
		if i > 0 && s == name {
			return Algorithm(i), true
		}
	}
	return 0, false
}

// Unit is a length of time that limits are written in. The zero value is none.
type Unit uint8

// The units. Outside calendars a month is 30 days and a year 365 days.
const (
	Second Unit = iota + 1
	Minute
	Hour
	Day
	Week
	Month
	Year
)

var (
	unitNames   = [...]string{"", "second", "minute", "hour", "day", "week", "month", "year"}
	unitSeconds = [...]int64{0, 1, 60, 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400}
)

// Units lists the units' names, shortest first.
func Units() []string { return append([]string(nil), unitNames[1:]...) }

// String gives the unit's name, such as "minute".
func (u Unit) String() string {
	if int(u) < len(unitNames) && u != 0 {
		return unitNames[u]
	}
	return "unit(" + strconv.Itoa(int(u)) + ")"
}

// Duration gives the unit's length outside calendars, and 0 for no unit.
func (u Unit) Duration() time.Duration {
	if int(u) >= len(unitSeconds) {
		return 0
	}
	return time.Duration(unitSeconds[u]) * time.Second
}

// ParseUnit reads a unit's name in any letter case.
func ParseUnit(s string) (Unit, bool) {
	for i, name := range unitNames {
		if i > 0 && strings.EqualFold(s, name) {
			return Unit(i), true
		}
	}
	return 0, false
}

// Limit is a promise: how many calls per period, counted by which algorithm. It
// is a comparable value. The zero value is invalid and is refused; a Limit with
// Requests 0 is valid and denies everything.
type Limit struct {
	// Algorithm counts the calls. Required.
	Algorithm Algorithm

	// Requests is how many calls (in units of cost) one period allows.
	Requests uint32

	// Unit and Multiplier are the period: Multiplier units. Unit is required; a
	// Multiplier of 0 means 1.
	Unit       Unit
	Multiplier uint32

	// Burst is the capacity of a token bucket; 0 means Requests. It must be 0 for
	// the other algorithms.
	Burst uint32

	// Queue is how many calls of a leaky bucket may wait beside the one that
	// leaves; 0 spaces calls without letting any wait. Only for leaky buckets.
	Queue uint32

	// MaxWait is the longest that a leaky bucket lets a call wait; 0 means no
	// bound but the queue. Only for leaky buckets.
	MaxWait time.Duration

	// Timezone is the IANA name of the zone whose calendar a fixed window follows
	// (day, week, month or year, Multiplier 1). Empty means UTC. Only for fixed
	// windows.
	Timezone string

	// Epoch makes a fixed window of a week, month or year a fixed length counted
	// from 1970 instead of a calendar one, as Envoy's reference service does.
	Epoch bool
}

// PerSecond gives a token bucket that allows n calls per second, as a burst or
// spread out. Change the copy's fields for more.
func PerSecond(n uint32) Limit { return Per(n, Second) }

// PerMinute gives a token bucket of n calls per minute.
func PerMinute(n uint32) Limit { return Per(n, Minute) }

// PerHour gives a token bucket of n calls per hour.
func PerHour(n uint32) Limit { return Per(n, Hour) }

// PerDay gives a token bucket of n calls per day.
func PerDay(n uint32) Limit { return Per(n, Day) }

// Per gives a token bucket of n calls per unit.
func Per(n uint32, unit Unit) Limit {
	return Limit{Algorithm: TokenBucket, Requests: n, Unit: unit}
}

// With gives the same promise counted by another algorithm.
func (l Limit) With(a Algorithm) Limit {
	l.Algorithm = a
	return l
}

// WithBurst gives the same token bucket with another capacity.
func (l Limit) WithBurst(burst uint32) Limit {
	l.Burst = burst
	return l
}

// WithQueue gives a leaky bucket of the same rate in which queue calls may wait,
// each for at most maxWait (0: no bound but the queue).
func (l Limit) WithQueue(queue uint32, maxWait time.Duration) Limit {
	l.Algorithm, l.Queue, l.MaxWait = LeakyBucket, queue, maxWait
	return l
}

// multiplier is how many units the period has.
func (l Limit) multiplier() int64 { return int64(max(l.Multiplier, 1)) }

// Period gives the period's length outside calendars.
func (l Limit) Period() time.Duration {
	return time.Duration(l.multiplier()) * l.Unit.Duration()
}

// Capacity is what Decision.Limit reports: the largest cost that a fresh key
// admits at once. For a token bucket it is the burst; for a leaky bucket
// min(queue, floor(max wait x rate)) + 1; for the others Requests. It is 0 when
// Requests is 0.
func (l Limit) Capacity() uint64 {
	switch {
	case l.Requests == 0:
		return 0
	case l.Algorithm == TokenBucket && l.Burst > 0:
		return uint64(l.Burst)
	case l.Algorithm == LeakyBucket:
		queue := uint64(l.Queue)
		if l.MaxWait > 0 {
			queue = min(queue, mulDiv(uint64(l.MaxWait.Microseconds()), uint64(l.Requests), uint64(l.Period().Microseconds())))
		}
		return queue + 1
	}
	return uint64(l.Requests)
}

// MaxTimeToFull is the longest that a limit may take to recover from empty.
// Beyond it, the arithmetic in Redis would no longer be exact, and no such
// promise could be kept anyway.
const MaxTimeToFull = 200 * 365 * 24 * time.Hour

// maxMultiplier keeps every period within MaxTimeToFull.
const maxMultiplier = int64(MaxTimeToFull / time.Second)

// Validate reports what is wrong with the limit, wrapping ErrInvalidLimit and
// naming the field, its value and a mend; nil when it can be used.
func (l Limit) Validate() error {
	if err := l.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
	}
	return nil
}

func (l Limit) check() error {
	switch {
	case l.Algorithm == 0 || int(l.Algorithm) >= len(algorithmNames):
		return fmt.Errorf("algorithm is not set: choose one of %s", strings.Join(algorithmNames[1:], ", "))
	case l.Unit == 0 || int(l.Unit) >= len(unitNames):
		return fmt.Errorf("unit is not set: choose one of %s", strings.Join(unitNames[1:], ", "))
	case l.multiplier() > maxMultiplier || l.multiplier()*unitSeconds[l.Unit] > maxMultiplier:
		return fmt.Errorf("a period of %d %ss is over 200 years: choose a shorter one", l.multiplier(), l.Unit)
	case l.Burst != 0 && l.Algorithm != TokenBucket:
		return fmt.Errorf("burst %d does not go with %s: only a token_bucket has a burst", l.Burst, l.Algorithm)
	case (l.Queue != 0 || l.MaxWait != 0) && l.Algorithm != LeakyBucket:
		return fmt.Errorf("queue and max_wait do not go with %s: only a leaky_bucket has a queue", l.Algorithm)
	case l.MaxWait < 0 || l.MaxWait%time.Microsecond != 0:
		return fmt.Errorf("max_wait %s must be a whole number of microseconds, not negative", l.MaxWait)
	case l.Epoch && l.Algorithm != FixedWindow:
		return fmt.Errorf("windows from the epoch do not go with %s: they are for fixed_window only", l.Algorithm)
	}
	if err := l.checkTimezone(); err != nil {
		return err
	}
	return l.checkTimeToFull()
}

func (l Limit) checkTimezone() error {
	if l.Timezone == "" {
		return nil
	}
	switch {
	case l.Algorithm != FixedWindow:
		return fmt.Errorf("timezone %q does not go with %s: it is for fixed_window only", l.Timezone, l.Algorithm)
	case l.Unit < Day:
		return fmt.Errorf("timezone %q does not go with windows of a %s: it is for day, week, month and year", l.Timezone, l.Unit)
	case l.multiplier() != 1:
		return fmt.Errorf("timezone %q does not go with a unit_multiplier of %d: calendar windows are one unit long", l.Timezone, l.multiplier())
	case l.Epoch:
		return fmt.Errorf("timezone %q does not go with windows counted from the epoch", l.Timezone)
	}
	if _, err := loadZone(l.Timezone); err != nil {
		return fmt.Errorf("timezone %q is not known: use an IANA name such as Europe/Madrid", l.Timezone)
	}
	return nil
}

func (l Limit) checkTimeToFull() error {
	if l.Requests == 0 {
		return nil
	}
	var units uint64 // how many intervals of period/Requests it takes
	switch l.Algorithm {
	case TokenBucket, LeakyBucket:
		units = l.Capacity()
	default:
		return nil // a window is at most 200 years long, which was checked
	}
	full := mulDiv(units, uint64(l.Period()/time.Second), uint64(l.Requests))
	if full > uint64(MaxTimeToFull/time.Second) {
		name := "burst"
		if l.Algorithm == LeakyBucket {
			name = "queue"
		}
		return fmt.Errorf("with %d requests per %s a %s of %d takes over 200 years to recover: lower the %s or raise requests_per_unit",
			l.Requests, l.periodWords(), name, units, name)
	}
	return nil
}

// periodWords says the period the way people do: "minute", "10 seconds".
func (l Limit) periodWords() string {
	if m := l.multiplier(); m > 1 {
		return fmt.Sprintf("%d %ss", m, l.Unit)
	}
	return l.Unit.String()
}

// String gives the limit in the form that ParseLimit reads, such as
// "100/minute burst 20" or "50/second leaky_bucket queue 60".
func (l Limit) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/", l.Requests)
	if m := l.multiplier(); m > 1 {
		fmt.Fprintf(&b, "%d ", m)
	}
	b.WriteString(l.Unit.String())
	if l.Algorithm != TokenBucket {
		b.WriteString(" " + l.Algorithm.String())
	}
	if l.Burst > 0 {
		fmt.Fprintf(&b, " burst %d", l.Burst)
	}
	if l.Algorithm == LeakyBucket {
		fmt.Fprintf(&b, " queue %d", l.Queue)
	}
	if l.MaxWait > 0 {
		fmt.Fprintf(&b, " max_wait %s", l.MaxWait)
	}
	if l.Timezone != "" {
		b.WriteString(" timezone " + l.Timezone)
	}
	if l.Epoch {
		b.WriteString(" epoch")
	}
	return b.String()
}
