package redisstore

import (
	"context"
	"encoding/binary"
	"math/bits"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// said is what a script said to several callers who asked the same, all together:
// how many pass, and of each limit what follows. From it each caller's answer is
// worked out as if they had been asked one after the other.
type said struct {
	passing int
	limits  []saidOf
}

// saidOf is what was said of one limit.
type saidOf struct {
	charged int     // for how many callers
	last    verdict // of the charge of them all
	after   verdict // what who comes after is told
	state   string  // what was written, of the algorithms that need it
}

// readShare takes what the script said to n callers who asked the same apart.
func (s *Store) readShare(ctx context.Context, ses *session, q *ask, head, part rueidis.RedisMessage, n int) {
	now, err := head.ToString()
	if err != nil || len(now) != nowSize {
		q.err = unreadable("take")
		return
	}
	if part.IsArray() {
		if list, err := part.ToArray(); err == nil && len(list) == 1 {
			text, err := list[0].ToString()
			q.crowd = parseSaid(text, len(q.keys), n)
			if q.now = parseNow(now); err != nil || q.crowd == nil {
				q.err = unreadable("take")
			}
			return
		}
	}
	size := len(q.keys) * verdictSize
	text, err := part.ToString()
	if n > 1 && err == nil && len(text) > size && len(text)%size == 0 {
		q.now, q.verdicts = parseNow(now), text
		return
	}
	s.readPart(ctx, ses, q, head, part)
}

// parseSaid reads what function crowd of scripts/batch.lua says of so many limits to
// so many callers. Nil is what cannot be read.
func parseSaid(text string, limits, callers int) *said {
	if len(text) < 2 {
		return nil
	}
	w := &said{passing: int(text[0])<<8 | int(text[1]), limits: make([]saidOf, limits)}
	text = text[2:]
	for i := range w.limits {
		l := &w.limits[i]
		if len(text) < 3 {
			return nil
		}
		size := int(text[2])
		l.charged = int(text[0])<<8 | int(text[1])
		if text = text[3:]; len(text) < size {
			return nil
		}
		l.state, text = text[:size], text[size:]
		for _, v := range []struct {
			there bool
			at    *verdict
		}{{l.charged > 0, &l.last}, {l.charged < callers, &l.after}} {
			if !v.there {
				continue
			}
			if len(text) < verdictSize {
				return nil
			}
			*v.at, text = parseVerdict(text), text[verdictSize:]
		}
	}
	if text != "" {
		return nil
	}
	return w
}

// answered reports whether the script decided.
func (q *ask) answered() bool { return q.verdicts != "" || q.crowd != nil }

// verdict gives what the caller is told of the n-th limit.
func (a answer) verdict(n int, l *caudal.Compiled) verdict {
	if a.crowd != nil {
		return a.crowd.limits[n].told(a.place, l)
	}
	size := len(a.keys) * verdictSize
	from := min(a.place*size, len(a.verdicts)-size)
	return parseVerdict(a.verdicts[from+n*verdictSize:])
}

// told gives what the caller at a place, from 0, is told.
func (w *saidOf) told(place int, l *caudal.Compiled) verdict {
	if place >= w.charged {
		return w.after
	}
	v := w.last
	behind := uint64(w.charged - 1 - place) // who were charged after this one
	v.remaining += behind
	switch l.Algorithm() {
	case caudal.TokenBucket:
		v.reset = v.x + bucketFull(l, w.state, behind)
	case caudal.SlidingWindow:
		v.reset = slidBy(l, w.state, v.x, behind)
	case caudal.LeakyBucket:
		v.x, v.frac, v.reset = turnAt(l, v, uint64(place))
	}
	return v
}

// bucketFull gives how long a token bucket with this value takes to be full, as it
// was before so many tokens were taken.
func bucketFull(l *caudal.Compiled, state string, behind uint64) int64 {
	b, period := []byte(state), uint64(l.PeriodTicks())
	var whole, rest uint64
	switch len(b) {
	case 12:
		used := uint64(b[7])<<32 | uint64(binary.BigEndian.Uint32(b[8:]))
		whole, rest = used/period, used%period
	case 16:
		whole, rest = uint64(binary.BigEndian.Uint32(b[12:])), uint64(b[7])<<32|uint64(binary.BigEndian.Uint32(b[8:]))
	}
	hi, lo := bits.Mul64(whole-min(behind, whole), period)
	lo, carry := bits.Add64(lo, rest, 0)
	hi += carry
	rate := l.Requests()
	if hi >= rate {
		return longLength // no limit takes so long
	}
	ticks, r := bits.Div64(hi, lo, rate)
	if r > 0 {
		ticks++
	}
	return int64(min(ticks, longLength/uint64(l.Tick()))) * l.Tick()
}

// slidBy gives when nothing counts any more of a sliding window that began at start
// and has this value, as it was before so many calls were counted.
func slidBy(l *caudal.Compiled, state string, start int64, behind uint64) int64 {
	b := []byte(state)
	var current uint64
	switch len(b) {
	case 11:
		current = uint64(binary.BigEndian.Uint16(b[7:]))
	case 15:
		current = uint64(binary.BigEndian.Uint32(b[7:]))
	}
	ticks := l.PeriodTicks()
	current = max(1, current-min(behind, current))
	return start + l.PeriodMicros() + (ticks-int64(uint64(ticks-1)/current))*l.Tick()
}

// turnAt gives the turn of the caller at a place, where v holds the first of those
// turns, and when the queue is empty again after it.
func turnAt(l *caudal.Compiled, v verdict, place uint64) (x int64, frac uint32, reset int64) {
	rate := l.Requests()
	turn := length{v.x, uint64(v.frac)}.add(span(l, place), rate)
	empty := turn.add(span(l, l.Capacity()).sub(longest(l), rate), rate)
	if empty.frac > 0 {
		empty.micros++
	}
	return turn.micros, uint32(turn.frac), empty.micros
}
