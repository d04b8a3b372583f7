package algorithm

import "github.com/caudal-dev/caudal"

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
func (s TokenBucket) Take(l *caudal.Compiled, now int64, cost uint32) (TokenBucket, caudal.Decision) {
	capacity := l.Capacity()
	d := caudal.Decision{Limit: capacity}
	if capacity == 0 {
		d.Never = true
		return s, d
	}
	perToken := uint64(l.PeriodTicks())
	full := mul(capacity, perToken)
	used, at := s.flow(l, now, full)

	need := used.add(mul(uint64(cost), perToken))
	next := s
	switch {
	case !full.less(need):
		d.Allowed = true
		if cost > 0 {
			used = need
			next = TokenBucket{Used: used, At: at}
			charged(&d, l, at, cost)
		}
	case uint64(cost) > capacity:
		d.Never = true
	default:
		wait := need.sub(full).ceilDiv(l.Requests())
		denied(&d, at+int64(wait)*l.Tick(), now)
	}
	d.Remaining, _ = full.sub(used).div(perToken)
	if !used.isZero() {
		d.ResetAfter = micros(at + int64(used.ceilDiv(l.Requests()))*l.Tick() - now)
	}
	return next, d
}

// flow gives what is still consumed at an instant, and that instant on the key's
// own time. A capacity that was lowered clamps what was consumed. The time
// elapsed is below 2^54 and the rate below 2^32, so the product cannot overflow.
func (s TokenBucket) flow(l *caudal.Compiled, now int64, full wide) (used wide, at int64) {
	used = s.Used
	if full.less(used) {
		used = full
	}
	tick := l.Tick()
	at = max(now-now%tick, s.At)
	if used.isZero() {
		return used, at
	}
	return used.sub(mul(uint64((at-s.At)/tick), l.Requests())), at
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
