package redisstore

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/caudal-dev/caudal"
)

// appendParams packs a limit and a cost as the head of its algorithm's script
// says. wall is the caller's idea of the time, for the boundaries of calendars.
func (s *Store) appendParams(b []byte, l *caudal.Compiled, cost uint64, wall int64) []byte {
	b = append(b, byte(formOf(l)))
	b = appendUint(b, 5, cost)
	switch l.Algorithm() {
	case caudal.TokenBucket:
		b = binary.BigEndian.AppendUint32(b, uint32(l.Capacity()))
		b = binary.BigEndian.AppendUint32(b, uint32(l.Requests()))
		b = appendUint(b, 5, uint64(l.PeriodTicks()))
		b = appendUint(b, 3, uint64(l.Tick()))
	case caudal.LeakyBucket:
		b = appendPace(b, l, cost)
	case caudal.FixedWindow:
		b = binary.BigEndian.AppendUint32(b, uint32(l.Capacity()))
		if offset, ok := alignment(l); ok {
			b = appendUint(b, 7, uint64(l.PeriodMicros()))
			b = appendUint(b, 7, uint64(offset))
			break
		}
		for _, boundary := range s.calendar.around(l, wall) {
			b = binary.BigEndian.AppendUint64(b, uint64(boundary))
		}
	case caudal.SlidingLog:
		b = binary.BigEndian.AppendUint32(b, uint32(l.Capacity()))
		b = appendUint(b, 7, uint64(l.PeriodMicros()))
	case caudal.SlidingWindow:
		b = binary.BigEndian.AppendUint32(b, uint32(l.Capacity()))
		b = appendUint(b, 5, uint64(l.PeriodTicks()))
		b = appendUint(b, 3, uint64(l.Tick()))
	}
	return b
}

// appendUint appends the low size bytes of n, the highest first.
func appendUint(b []byte, size int, n uint64) []byte {
	for i := size - 1; i >= 0; i-- {
		b = append(b, byte(n>>(8*i)))
	}
	return b
}

// length is a stretch of time in microseconds and parts of a rate.
type length struct {
	micros int64
	frac   uint64
}

// longLength is longer than any limit takes to recover. What is longer counts as
// this.
const longLength = 1 << 53

// span gives the length of n intervals of a leaky bucket.
func span(l *caudal.Compiled, n uint64) length {
	hi, lo := bits.Mul64(n, uint64(l.PeriodMicros()))
	if rate := l.Requests(); hi < rate {
		if q, r := bits.Div64(hi, lo, rate); q < longLength {
			return length{int64(q), r}
		}
	}
	return length{longLength, 0}
}

func (a length) sub(b length, rate uint64) length {
	d := length{a.micros - b.micros, a.frac - b.frac}
	if a.frac < b.frac {
		d.micros--
		d.frac += rate
	}
	return d
}

func (a length) add(b length, rate uint64) length {
	d := length{a.micros + b.micros, a.frac + b.frac}
	if d.frac >= rate {
		d.micros++
		d.frac -= rate
	}
	return d
}

// longest is how far ahead a turn may lie.
func longest(l *caudal.Compiled) length {
	if wait := l.MaxWaitMicros(); wait != 0 && l.Queue() >= l.Capacity() {
		return length{wait, 0}
	}
	return span(l, l.Queue())
}

// appendPace packs what a leaky bucket needs. The lengths that do not depend on
// the state are worked out here, where products have two words.
func appendPace(b []byte, l *caudal.Compiled, cost uint64) []byte {
	rate := l.Requests()
	b = appendUint(b, 5, l.Capacity())
	b = binary.BigEndian.AppendUint32(b, uint32(rate))
	b = appendUint(b, 7, uint64(l.PeriodMicros()))
	if rate == 0 {
		return append(b, make([]byte, 4*11)...)
	}
	longest := longest(l)
	var turns length
	if cost > 0 && cost <= l.Capacity() {
		turns = span(l, cost-1)
	}
	for _, d := range [4]length{span(l, 1), longest, turns, span(l, l.Capacity()).sub(longest, rate)} {
		b = appendUint(b, 7, uint64(d.micros))
		b = binary.BigEndian.AppendUint32(b, uint32(d.frac))
	}
	return b
}

// alignment gives the offset from the epoch of windows of a fixed length; ok is
// false for windows of a calendar whose lengths differ.
func alignment(l *caudal.Compiled) (offset int64, ok bool) {
	limit := l.Limit()
	if limit.Epoch || limit.Multiplier > 1 {
		return 0, true
	}
	utc := limit.Timezone == "" || limit.Timezone == "UTC"
	switch {
	case !utc, limit.Unit >= caudal.Month:
		return 0, false
	case limit.Unit == caudal.Week:
		start, _ := l.Window(0)
		return start + l.PeriodMicros(), true
	}
	return 0, true
}

// calendars remembers the boundaries of calendar windows, which take some
// microseconds to work out. The zero value is ready.
type calendars struct {
	mu    sync.RWMutex
	known map[*caudal.Compiled][4]int64
}

// maxCalendars bounds what is remembered: limits that a reload has replaced are
// never asked for again.
const maxCalendars = 4096

// around gives the starts of the windows before, at and after an instant, and the
// end of the last.
func (c *calendars) around(l *caudal.Compiled, wall int64) [4]int64 {
	c.mu.RLock()
	w, ok := c.known[l]
	c.mu.RUnlock()
	if ok && w[1] <= wall && wall < w[2] {
		return w
	}
	w[1], w[2] = l.Window(wall)
	w[0], _ = l.Window(w[1] - 1)
	_, w[3] = l.Window(w[2])
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCalendars {
		c.known = make(map[*caudal.Compiled][4]int64)
	}
	c.known[l] = w
	return w
}
