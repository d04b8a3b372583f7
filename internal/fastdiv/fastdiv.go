// Package fastdiv divides by numbers that stay the same: a multiplication where
// the processor would need a division, which takes several times as long.
package fastdiv

import "math/bits"

// Divisor is a divisor made ready. The zero value divides by nothing; use By.
type Divisor struct{ d, inverse uint64 }

// By makes a divisor; d must not be 0.
func By(d uint64) Divisor { return Divisor{d, (1<<64 - 1) / d} }

// Div gives floor(x / d). The product with the inverse is at most one too low,
// for any x: inverse > 2^64/d - 1, so x * inverse / 2^64 > x/d - 1.
func (v Divisor) Div(x uint64) uint64 {
	q, _ := bits.Mul64(x, v.inverse)
	if x-q*v.d >= v.d {
		q++
	}
	return q
}

// Ceil gives x / d rounded up.
func (v Divisor) Ceil(x uint64) uint64 {
	q := v.Div(x)
	if q*v.d != x {
		q++
	}
	return q
}
