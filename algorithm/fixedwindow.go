package algorithm

import "github.com/caudal-dev/caudal"

// FixedWindow is the state of a key under a fixed window: which window, and what
// was counted in it. The zero value is fresh.
type FixedWindow struct {
	Start int64 // microseconds of wall time
	Count uint64
}

// Take decides a call of this cost in the window that holds the instant. A clock
// that lags the key is in the key's window.
func (s FixedWindow) Take(l *caudal.Compiled, now int64, cost uint32) (FixedWindow, caudal.Decision) {
	capacity := l.Capacity()
	d := caudal.Decision{Limit: capacity}
	if capacity == 0 {
		d.Never = true
		return s, d
	}
	start, end := l.Window(max(now, s.Start))
	next := s
	if s.Start < start {
		next = FixedWindow{Start: start}
	}
	switch {
	case cost == 0, next.Count+uint64(cost) <= capacity: // a peek passes even after the limit was lowered
		d.Allowed = true
		if cost > 0 {
			next.Count += uint64(cost)
			charged(&d, l, next.Start, cost)
		}
	case uint64(cost) > capacity:
		d.Never = true
	default:
		denied(&d, end, now)
	}
	d.Remaining = capacity - min(next.Count, capacity)
	if next.Count > 0 {
		d.ResetAfter = micros(end - now)
	}
	if !d.Charged {
		next = s
	}
	return next, d
}

// maxCount is the most that a window counts: what a Redis store has room for.
const maxCount = 1<<32 - 1

// TakeCounting is Take for calls that are counted also when they are denied; see
// caudal.Call.CountDenied. A denied call is not Charged: there is nothing to
// refund. A cost that can never succeed counts as well. A limit of 0 counts
// nothing.
func (s FixedWindow) TakeCounting(l *caudal.Compiled, now int64, cost uint32) (FixedWindow, caudal.Decision) {
	next, d := s.Take(l, now, cost)
	capacity := l.Capacity()
	if capacity == 0 || d.Charged {
		return next, d
	}
	start, end := l.Window(max(now, s.Start))
	if next.Start < start {
		next = FixedWindow{Start: start}
	}
	if cost == 0 {
		if next.Count > capacity {
			d.Allowed = false
			denied(&d, end, now)
		}
		return s, d
	}
	next.Count = min(next.Count+uint64(cost), maxCount)
	d.Remaining = capacity - min(next.Count, capacity)
	d.ResetAfter = micros(end - now)
	return next, d
}

// Refund takes n off the window that was charged; off another window nothing.
func (s FixedWindow) Refund(start int64, n uint32) FixedWindow {
	if s.Start == start {
		s.Count -= min(s.Count, uint64(n))
	}
	return s
}

// Credit takes n off the present window, for refunds without a receipt.
func (s FixedWindow) Credit(l *caudal.Compiled, now int64, n uint32) FixedWindow {
	start, _ := l.Window(max(now, s.Start))
	return s.Refund(start, n)
}

// FreshAt gives the instant from which the state is the same as a fresh one.
func (s FixedWindow) FreshAt(l *caudal.Compiled) int64 {
	if s.Count == 0 {
		return s.Start
	}
	_, end := l.Window(s.Start)
	return end
}
