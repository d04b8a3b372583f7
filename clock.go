package caudal

import (
	"sync/atomic"
	"time"
)

// MaxInstant is the latest instant that can be told apart, in microseconds
// since 1970: some time in the year 2540. Later ones count as this one.
const MaxInstant = 1<<54 - 1

// Instant is a moment in microseconds since 1970, told twice: by the wall clock,
// which may step, and by a clock that never steps. Both run on one scale: they
// agree until the wall clock is set.
//
// Limits that only measure elapsed time (token bucket, leaky bucket, sliding
// log) read Mono. Limits with windows that people can point at on a calendar
// read Wall. The zero Instant means "now, by the store's own clock".
type Instant struct {
	Mono, Wall int64
}

// At gives the instant of a time.Time, its wall reading on both scales.
func At(t time.Time) Instant {
	us := t.UnixMicro()
	return Instant{Mono: us, Wall: us}
}

// Add gives the instant d later; d is cut to whole microseconds.
func (i Instant) Add(d time.Duration) Instant {
	us := d.Microseconds()
	return Instant{Mono: i.Mono + us, Wall: i.Wall + us}
}

// IsZero reports whether i is the zero Instant.
func (i Instant) IsZero() bool { return i == Instant{} }

// A Clock tells the instant, both readings in one call. It must be safe for
// concurrent use, and Mono must never go back.
type Clock interface {
	Now() Instant
}

// resyncEvery is how often the system clock compares its wall reading with the
// operating system's. A step of the wall clock is seen after at most this long;
// in return a decision costs one clock reading, not two.
const resyncEvery = 50_000 // microseconds

// systemClock reads the monotonic clock each time, and the wall clock now and
// then to follow its steps.
type systemClock struct {
	base     time.Time
	baseWall int64
	checked  atomic.Int64 // Mono at the last comparison
	offset   atomic.Int64 // Wall - Mono
}

// NewSystemClock gives a clock that starts at the present wall time and then
// counts elapsed time, and follows steps of the wall clock only in Wall.
func NewSystemClock() Clock {
	now := time.Now()
	return &systemClock{base: now, baseWall: now.UnixMicro()}
}

func (c *systemClock) Now() Instant {
	elapsed := int64(time.Since(c.base)) / 1000
	if elapsed-c.checked.Load() > resyncEvery {
		c.resync(elapsed)
	}
	mono := c.baseWall + elapsed
	return Instant{Mono: mono, Wall: mono + c.offset.Load()}
}

// resync is kept out of Now so that Now stays small. Two callers may do it at
// once; both store the same answer to within the time between them.
func (c *systemClock) resync(elapsed int64) {
	c.checked.Store(elapsed)
	now := time.Now()
	mono := c.baseWall + int64(now.Sub(c.base))/1000
	// A difference of a microsecond or two is the time between two readings, not
	// a step: following it would only make Wall jitter.
	if off := now.UnixMicro() - mono; off > c.offset.Load()+2 || off < c.offset.Load()-2 {
		c.offset.Store(off)
	}
}
