package algorithm

import (
	"math/bits"
	"time"

	"github.com/caudal-dev/caudal"
)

// wide is an unsigned 128-bit number. What a token bucket has consumed, in
// tokens x ticks, needs up to 72 bits.
type wide struct{ hi, lo uint64 }

func mul(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	return wide{hi, lo}
}

func (a wide) add(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return wide{hi, lo}
}

// sub gives a - b, or 0 when b is larger.
func (a wide) sub(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, borrow := bits.Sub64(a.hi, b.hi, borrow)
	if borrow != 0 {
		return wide{}
	}
	return wide{hi, lo}
}

func (a wide) less(b wide) bool {
	return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo
}

func (a wide) isZero() bool { return a.hi|a.lo == 0 }

// div gives the quotient and remainder of a by d. A quotient beyond 64 bits is
// given as the largest; limits are checked so that none comes up.
func (a wide) div(d uint64) (q, r uint64) {
	if a.hi == 0 {
		return a.lo / d, a.lo % d
	}
	if a.hi >= d {
		return 1<<64 - 1, 0
	}
	return bits.Div64(a.hi, a.lo, d)
}

// ceilDiv gives a divided by d, rounded up.
func (a wide) ceilDiv(d uint64) uint64 {
	q, r := a.div(d)
	if r > 0 {
		q++
	}
	return q
}

// micros turns a wait in microseconds into a Duration; a wait below zero is
// none, and one beyond 292 years is as long as a Duration can say.
func micros(us int64) time.Duration {
	const most = int64(1<<63-1) / 1000
	return time.Duration(min(max(us, 0), most)) * time.Microsecond
}

// denied marks a decision as one that passes at the instant retry, seen by a
// caller whose clock reads now.
func denied(d *caudal.Decision, retry, now int64) {
	d.Allowed = false
	d.RetryAfter = micros(retry - now)
}

// charged fills the part of a decision that says what was counted.
func charged(d *caudal.Decision, l *caudal.Compiled, at int64, cost uint32) {
	d.Charged = true
	d.Receipt.Limit = l
	d.Receipt.At = at
	d.Receipt.Cost = cost
}

// never is the decision about a cost that no waiting can make pass.
func never(l *caudal.Compiled, cost uint32) bool {
	return l.Capacity() == 0 || uint64(cost) > l.Capacity()
}
