package caudal

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal/internal/fastdiv"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// Compiled is a Limit that has been checked and made ready: it has a place in
// the identity of counters, and the numbers that every decision needs are worked
// out. Stores and algorithms take it by pointer. It does not change once made
// and is safe for concurrent use.
type Compiled struct {
	limit Limit
	name  string
	scope string
	hash  keyhash.Hash

	failure   Failure
	factor    float64
	accuracy  Accuracy
	standsFor *Compiled // of a local limit
	local     atomic.Pointer[stand]

	capacity     uint64
	periodMicros int64
	tick         int64 // microseconds
	periodTicks  int64
	perPeriod    fastdiv.Divisor // divides by periodTicks
	perRequests  fastdiv.Divisor // divides by Requests, or 1

	calendar bool
	offset   int64 // of fixed windows from the epoch
	zone     *time.Location
	cached   atomic.Pointer[window]
}

// maxPeriodTicks bounds the period in ticks, so that what a token bucket has
// consumed (tokens x ticks) fits 72 bits.
const maxPeriodTicks = 1 << 40

// Compile checks the limit and makes it ready.
//
// The name is what people see: in headers, metrics and reports. The scope is the
// part of a counter's identity that the rules give (domain, path of the rule,
// name inside a list of limits); the key given with each call is the rest. The
// algorithm and the period are added to the identity here; the numbers are not,
// so that changing them keeps what was consumed.
func (l Limit) Compile(name, scope string, opts ...CompileOption) (*Compiled, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	c := &Compiled{limit: l, name: name, scope: l.identity(scope), factor: DefaultLocalFactor}
	for _, opt := range opts {
		opt(c)
	}
	if err := CheckAccuracy(l.Algorithm, c.accuracy); err != nil {
		return nil, err
	}
	c.hash = keyhash.String(c.scope)
	c.capacity = l.Capacity()
	c.periodMicros = l.Period().Microseconds()
	c.tick = 1
	if c.periodMicros > (24 * time.Hour).Microseconds() {
		c.tick = 1000
	}
	if c.periodMicros/c.tick > maxPeriodTicks {
		c.tick = 1_000_000
	}
	c.periodTicks = c.periodMicros / c.tick
	c.perPeriod = fastdiv.By(uint64(c.periodTicks))
	c.perRequests = fastdiv.By(uint64(max(l.Requests, 1)))
	if l.Algorithm == FixedWindow && !l.Epoch && l.multiplier() == 1 {
		c.setCalendar()
	}
	return c, nil
}

// setCalendar makes a fixed window follow the calendar where that differs from
// fixed lengths counted from the epoch.
func (c *Compiled) setCalendar() {
	zone, _ := loadZone(c.limit.Timezone) // Validate has loaded it
	unit := c.limit.Unit
	switch {
	case zone == time.UTC && unit == Week:
		c.offset = 4 * Day.Duration().Microseconds() // 1970-01-05 was a Monday
	case unit >= Month, zone != time.UTC && unit >= Day:
		c.calendar, c.zone = true, zone
	}
}

// identity makes the part of a counter's identity that does not depend on the
// key: the scope, the algorithm and the period as written. Each part is
// preceded by its length, so that no two lists of parts read the same.
func (l Limit) identity(scope string) string {
	b := AppendPart(nil, scope)
	b = append(b, byte(l.Algorithm), byte(l.Unit))
	b = binary.AppendUvarint(b, uint64(l.multiplier()))
	b = AppendPart(b, l.Timezone)
	if l.Epoch {
		b = append(b, 'e')
	}
	return string(b)
}

// AppendPart appends a part of an identity, preceded by its length. Keys made of
// several values are built with it, so that ("a", "bc") and ("ab", "c") differ.
func AppendPart[T ~string | ~[]byte](b []byte, part T) []byte {
	b = binary.AppendUvarint(b, uint64(len(part)))
	return append(b, part...)
}

// Limit gives the limit as written.
func (c *Compiled) Limit() Limit { return c.limit }

// Name gives the name that people see.
func (c *Compiled) Name() string { return c.name }

// Scope gives the part of a counter's identity that does not depend on the key:
// the scope given to Compile, algorithm and period. A store that shares counters
// between processes hashes it together with the key.
func (c *Compiled) Scope() string { return c.scope }

// ScopeHash gives a 128-bit hash of the scope under this process's secret seed.
func (c *Compiled) ScopeHash() keyhash.Hash { return c.hash }

// Algorithm gives the limit's algorithm.
func (c *Compiled) Algorithm() Algorithm { return c.limit.Algorithm }

// Requests gives how many calls one period allows.
func (c *Compiled) Requests() uint64 { return uint64(c.limit.Requests) }

// Capacity gives the largest cost that a fresh key admits at once; see
// Limit.Capacity.
func (c *Compiled) Capacity() uint64 { return c.capacity }

// PeriodMicros gives the period's length in microseconds, outside calendars.
func (c *Compiled) PeriodMicros() int64 { return c.periodMicros }

// Tick gives the step of time that token buckets and sliding windows count in:
// 1 microsecond for periods up to a day, 1000 up to 34 years, and a second
// beyond. It divides the period.
func (c *Compiled) Tick() int64 { return c.tick }

// PeriodTicks gives the period's length in ticks.
func (c *Compiled) PeriodTicks() int64 { return c.periodTicks }

// PerPeriod divides by PeriodTicks.
func (c *Compiled) PerPeriod() fastdiv.Divisor { return c.perPeriod }

// PerRequests divides by Requests, and by 1 where that is 0.
func (c *Compiled) PerRequests() fastdiv.Divisor { return c.perRequests }

// MaxWaitMicros gives a leaky bucket's longest wait, and 0 when only the queue
// bounds it.
func (c *Compiled) MaxWaitMicros() int64 { return c.limit.MaxWait.Microseconds() }

// Queue gives how many calls of a leaky bucket may wait.
func (c *Compiled) Queue() uint64 { return uint64(c.limit.Queue) }

// Wall reports whether the limit's counters follow the wall clock (windows)
// rather than elapsed time.
func (c *Compiled) Wall() bool {
	return c.limit.Algorithm == FixedWindow || c.limit.Algorithm == SlidingWindow
}

// Micros picks the reading of an instant that the limit's counters follow, held
// within 0 and MaxInstant.
func (c *Compiled) Micros(at Instant) int64 {
	us := at.Mono
	if c.Wall() {
		us = at.Wall
	}
	return min(max(us, 0), MaxInstant)
}

// mulDiv gives floor(a x b / c), and the largest uint64 when that does not fit.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return 1<<64 - 1
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}
