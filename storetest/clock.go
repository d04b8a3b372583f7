package storetest

import (
	"sync"
	"time"

	"github.com/caudal-dev/caudal"
)

// Start is the instant at which the suite's clocks begin: a Monday midnight in
// UTC, where windows of every length up to a week begin.
var Start = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// Clock is a caudal.Clock that moves only when told to. It is safe for concurrent
// use. Use NewClock.
type Clock struct {
	mu  sync.Mutex
	now caudal.Instant
}

// NewClock makes a clock that stands at a time, on both of its readings.
func NewClock(at time.Time) *Clock { return &Clock{now: caudal.At(at)} }

// Now gives the instant at which the clock stands.
func (c *Clock) Now() caudal.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves both readings on, as time does. A negative d moves both back,
// which no real clock does with its monotonic reading.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set makes both readings show a time.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = caudal.At(at)
}

// SetWall sets the wall reading alone, as an operator or NTP does.
func (c *Clock) SetWall(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Wall = at.UnixMicro()
}
