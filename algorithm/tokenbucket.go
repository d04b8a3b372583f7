package algorithm

import (
	"math/bits"

	"github.com/caudal-dev/caudal"
)

// TokenBucket is the state of a key under a token bucket: how much is consumed,
// and the instant for which that is true. Consumption is counted in tokens x
// ticks of the period, of which Requests flow back each tick: a unit in which
// neither the rate nor the capacity appears, so that a limit whose numbers
// change keeps what was consumed. The zero value is full.
type TokenBucket struct {
	Used wideUsed
	At   int64 // microseconds, a whole number of ticks
}

// wideUsed is tokens x ticks, up to 72 bits.
type wideUsed = wide

// Words gives what was consumed as two machine words, for stores that pack it.
func (s TokenBucket) Words() (hi, lo uint64) { return s.Used.hi, s.Used.lo }

// TokenBucketOf makes a state from its words and instant.
func TokenBucketOf(hi, lo uint64, at int64) TokenBucket {
	return TokenBucket{Used: wide{hi, lo}, At: at}
}

// Take decides a call of this cost. The bucket holds Capacity tokens and
// regains Requests per period, worked out here when somebody asks; it starts
// full.
func (s TokenBucket) Take(l *caudal.Compiled, now int64, cost uint32) (next TokenBucket, d caudal.Decision) {
	s.Decide(l, now, cost, &d)
	return s, d
}

// Decide is Take in place, for stores: it changes s when the decision is
// Charged, and writes the decision into d, which must be zero. It gives how many
// microseconds after the instant of s the bucket is full again.
func (s *TokenBucket) Decide(l *caudal.Compiled, now int64, cost uint32, d *caudal.Decision) (life int64) {
	capacity := l.Capacity()
	d.Limit = capacity
	if capacity == 0 {
		d.Never = true
		return 0
	}
	at, elapsed := s.elapsed(l, now)
	var full int64 // when
	if most := mul(capacity, uint64(l.PeriodTicks())); most.hi|s.Used.hi == 0 {
		full = at + s.decideNarrow(l, now, at, elapsed, cost, most.lo, d)
	} else {
		full = at + s.decideWide(l, now, at, elapsed, cost, most, d)
	}
	if full > at {
		d.ResetAfter = micros(full - now)
	}
	return full - s.At
}

// decideNarrow is decideWide for a bucket whose capacity in tokens x ticks fits
// one word, as nearly all do. Both give how many microseconds after at the bucket
// is full again.
func (s *TokenBucket) decideNarrow(l *caudal.Compiled, now, at int64, elapsed uint64, cost uint32, full uint64, d *caudal.Decision) int64 {
	used := min(s.Used.lo, full)
	if hi, back := bits.Mul64(elapsed, l.Requests()); hi == 0 && back < used {
		used -= back
	} else {
		used = 0
	}
	room := full - used
	hi, price := bits.Mul64(uint64(cost), uint64(l.PeriodTicks()))
	switch {
	case hi == 0 && price <= room:
		d.Allowed = true
		if cost > 0 {
			used, room = used+price, room-price
			*s = TokenBucket{Used: wide{0, used}, At: at}
			charged(d, l, at, cost)
		}
	case uint64(cost) > d.Limit:
		d.Never = true
	default:
		wait := l.PerRequests().Ceil(price - room)
		denied(d, at+int64(wait)*l.Tick(), now)
	}
	d.Remaining = l.PerPeriod().Div(room)
	return int64(l.PerRequests().Ceil(used)) * l.Tick()
}

func (s *TokenBucket) decideWide(l *caudal.Compiled, now, at int64, elapsed uint64, cost uint32, full wide, d *caudal.Decision) int64 {
	used := s.Used
	if full.less(used) {
		used = full
	}
	used = used.sub(mul(elapsed, l.Requests()))
	need := used.add(mul(uint64(cost), uint64(l.PeriodTicks())))
	switch {
	case !full.less(need):
		d.Allowed = true
		if cost > 0 {
			used = need
			*s = TokenBucket{Used: used, At: at}
			charged(d, l, at, cost)
		}
	case uint64(cost) > d.Limit:
		d.Never = true
	default:
		wait := need.sub(full).ceilDiv(l.Requests())
		denied(d, at+int64(wait)*l.Tick(), now)
	}
	d.Remaining, _ = full.sub(used).div(uint64(l.PeriodTicks()))
	return int64(used.ceilDiv(l.Requests())) * l.Tick()
}

// elapsed gives the instant on the key's own time, a whole number of ticks, and
// how many ticks have gone by since the state's. They are below 2^54 and the
// rate below 2^32, so their product fits two words.
//
// A capacity that was lowered clamps what was consumed before anything flows
// back: the key is as if it had emptied the smaller bucket.
func (s *TokenBucket) elapsed(l *caudal.Compiled, now int64) (at int64, ticks uint64) {
	if l.Tick() == 1 {
		at = max(now, s.At)
		return at, uint64(at - s.At)
	}
	at = max(now-now%l.Tick(), s.At)
	return at, uint64((at - s.At) / l.Tick())
}

// Refund gives n tokens back, at most to full. It needs no instant: tokens given
// back are the same at any time.
func (s TokenBucket) Refund(l *caudal.Compiled, n uint32) TokenBucket {
	s.Used = s.Used.sub(mul(uint64(n), uint64(l.PeriodTicks())))
	return s
}

// FreshAt gives the instant from which the state is the same as a fresh one.
func (s TokenBucket) FreshAt(l *caudal.Compiled) int64 {
	if s.Used.isZero() || l.Requests() == 0 {
		return s.At
	}
	used := s.Used
	if full := mul(l.Capacity(), uint64(l.PeriodTicks())); full.less(used) {
		used = full
	}
	return s.At + int64(used.ceilDiv(l.Requests()))*l.Tick()
}
