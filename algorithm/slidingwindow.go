package algorithm

import "github.com/caudal-dev/caudal"

// SlidingWindow is the state of a key under a sliding window counter: the
// present window, what was counted in it, and what in the one before. The zero
// value is fresh.
//
// The estimate of the calls in the last period takes the previous window's calls
// as spread evenly: current + previous x the share of it still overlapped.
type SlidingWindow struct {
	Start             int64 // microseconds of wall time
	Current, Previous uint64
}

// Take decides a call of this cost: it passes when floor(estimate) + cost is at
// most the limit.
func (s SlidingWindow) Take(l *caudal.Compiled, now int64, cost uint32) (SlidingWindow, caudal.Decision) {
	capacity := l.Capacity()
	d := caudal.Decision{Limit: capacity}
	if capacity == 0 {
		d.Never = true
		return s, d
	}
	next, at := s.slide(l, now)
	used := next.Current + next.overlap(l, at)
	switch {
	case cost == 0, used+uint64(cost) <= capacity: // a peek passes even after the limit was lowered
		d.Allowed = true
		if cost > 0 {
			next.Current += uint64(cost)
			used += uint64(cost)
			charged(&d, l, next.Start, cost)
		}
	case uint64(cost) > capacity:
		d.Never = true
	default:
		denied(&d, next.below(l, capacity-uint64(cost)), now)
	}
	d.Remaining = capacity - min(used, capacity)
	if used > 0 {
		d.ResetAfter = micros(next.below(l, 0) - now)
	}
	if !d.Charged {
		next = s
	}
	return next, d
}

// slide moves the state into the window that holds the instant, and gives the
// instant on the key's own time.
func (s SlidingWindow) slide(l *caudal.Compiled, now int64) (SlidingWindow, int64) {
	at := max(now, s.Start)
	start, _ := l.Window(at)
	switch {
	case s.Start == start:
	case s.Start == start-l.PeriodMicros():
		s = SlidingWindow{Start: start, Previous: s.Current}
	default:
		s = SlidingWindow{Start: start}
	}
	return s, at
}

// overlap gives the whole calls of the previous window that still count.
func (s SlidingWindow) overlap(l *caudal.Compiled, at int64) uint64 {
	period := l.PeriodTicks()
	left := period - (at-s.Start)/l.Tick()
	q, _ := mul(s.Previous, uint64(left)).div(uint64(period))
	return q
}

// below gives the first instant, in this window or a later one, at which the
// whole calls that count are at most room.
func (s SlidingWindow) below(l *caudal.Compiled, room uint64) int64 {
	if s.Current <= room {
		if x := fallsTo(l, s.Previous, room-s.Current); x < l.PeriodTicks() {
			return s.Start + x*l.Tick()
		}
		// The next window begins with this one's calls, which fit.
		return s.Start + l.PeriodMicros()
	}
	return s.Start + l.PeriodMicros() + fallsTo(l, s.Current, room)*l.Tick()
}

// fallsTo gives how many ticks into a window the share of the previous window's
// calls, floor(previous x (period - x) / period), first is at most room. That is
// so while previous x (period - x) < (room + 1) x period.
func fallsTo(l *caudal.Compiled, previous, room uint64) int64 {
	if previous <= room {
		return 0
	}
	period := uint64(l.PeriodTicks())
	left, _ := mul(room+1, period).sub(wide{0, 1}).div(previous)
	return int64(period - min(left, period))
}

// Refund takes n off the window that was charged, while it still counts.
func (s SlidingWindow) Refund(l *caudal.Compiled, start int64, n uint32) SlidingWindow {
	switch start {
	case s.Start:
		s.Current -= min(s.Current, uint64(n))
	case s.Start - l.PeriodMicros():
		s.Previous -= min(s.Previous, uint64(n))
	}
	return s
}

// Credit takes n off the present window, for refunds without a receipt.
func (s SlidingWindow) Credit(l *caudal.Compiled, now int64, n uint32) SlidingWindow {
	if start, _ := l.Window(max(now, s.Start)); start == s.Start {
		return s.Refund(l, start, n)
	}
	return s
}

// FreshAt gives the instant from which the state is the same as a fresh one.
func (s SlidingWindow) FreshAt(l *caudal.Compiled) int64 {
	switch {
	case s.Current > 0:
		return s.Start + 2*l.PeriodMicros()
	case s.Previous > 0:
		return s.Start + l.PeriodMicros()
	}
	return s.Start
}
