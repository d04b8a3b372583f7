package algorithm

import "github.com/caudal-dev/caudal"

// Entry is one admitted call in a sliding log.
type Entry struct {
	At   int64 // microseconds
	Cost uint32
}

// SlidingLog is the state of a key under a sliding log: every admitted call that
// still counts, oldest first. A call admitted at t counts until just before t +
// period. The zero value is fresh.
//
// It works on memory that its owner lends: Take changes Entries in place and
// appends within its capacity where it can.
type SlidingLog struct {
	Entries []Entry
	Used    uint64 // the sum of the entries' costs
}

// Purge drops the entries that no longer count at an instant and gives the
// instant on the key's own time: not before the newest entry. It only moves the
// slice's start, so an owner purges a copy of the struct and keeps it when the
// call is charged: a call that charges nothing must leave the log as it was, for
// a caller whose clock lags behind.
func (s *SlidingLog) Purge(l *caudal.Compiled, now int64) (at int64) {
	at = now
	if n := len(s.Entries); n > 0 {
		at = max(at, s.Entries[n-1].At)
	}
	gone := 0
	for gone < len(s.Entries) && s.Entries[gone].At+l.PeriodMicros() <= at {
		s.Used -= uint64(s.Entries[gone].Cost)
		gone++
	}
	s.Entries = s.Entries[gone:]
	return at
}

// Decide answers a call of this cost on a log that was purged to the instant at,
// for a caller whose clock reads now. When the decision is Charged the owner
// appends the entry {at, cost}.
func (s *SlidingLog) Decide(l *caudal.Compiled, at, now int64, cost uint32) caudal.Decision {
	capacity := l.Capacity()
	d := caudal.Decision{Limit: capacity}
	if capacity == 0 {
		d.Never = true
		return d
	}
	used, newest := s.Used, at
	switch {
	case cost == 0, used+uint64(cost) <= capacity: // a peek passes even after the limit was lowered
		d.Allowed = true
		if cost > 0 {
			used += uint64(cost)
			charged(&d, l, at, cost)
		}
	case uint64(cost) > capacity:
		d.Never = true
	default:
		denied(&d, s.below(l, capacity-uint64(cost)), now)
	}
	d.Remaining = capacity - min(used, capacity)
	if !d.Charged && len(s.Entries) > 0 {
		newest = s.Entries[len(s.Entries)-1].At
	}
	if used > 0 {
		d.ResetAfter = micros(newest + l.PeriodMicros() - now)
	}
	return d
}

// below gives the instant at which so many entries have left that at most room
// counts.
func (s *SlidingLog) below(l *caudal.Compiled, room uint64) int64 {
	used := s.Used
	for _, e := range s.Entries {
		used -= uint64(e.Cost)
		if used <= room {
			return e.At + l.PeriodMicros()
		}
	}
	return 0 // unreachable: an empty log counts nothing
}

// Take is Purge, Decide and the append in one, for logs that own their memory.
func (s *SlidingLog) Take(l *caudal.Compiled, now int64, cost uint32) caudal.Decision {
	live := *s
	at := live.Purge(l, now)
	d := live.Decide(l, at, now, cost)
	if d.Charged {
		s.Entries = append(live.Entries, Entry{At: at, Cost: cost})
		s.Used = live.Used + uint64(cost)
	}
	return d
}

// Refund takes up to n off the entries of the instant that was charged, newest
// first, and drops those that become empty.
func (s *SlidingLog) Refund(at int64, n uint32) {
	s.remove(n, func(e Entry) bool { return e.At == at })
}

// Credit takes up to n off the newest entries, for refunds without a receipt.
func (s *SlidingLog) Credit(n uint32) {
	s.remove(n, func(Entry) bool { return true })
}

func (s *SlidingLog) remove(n uint32, match func(Entry) bool) {
	for i := len(s.Entries) - 1; i >= 0 && n > 0; i-- {
		e := &s.Entries[i]
		if !match(*e) {
			continue
		}
		taken := min(e.Cost, n)
		e.Cost -= taken
		n -= taken
		s.Used -= uint64(taken)
		if e.Cost == 0 {
			s.Entries = append(s.Entries[:i], s.Entries[i+1:]...)
		}
	}
}

// FreshAt gives the instant from which the state is the same as a fresh one.
func (s *SlidingLog) FreshAt(l *caudal.Compiled) int64 {
	if len(s.Entries) == 0 {
		return 0
	}
	return s.Entries[len(s.Entries)-1].At + l.PeriodMicros()
}
