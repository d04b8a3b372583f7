// Package refmodel decides like package algorithm, the slow and obvious way: it
// keeps every event, counts with fractions of any size, and finds waits by
// trying instants instead of solving for them. Tests hold the fast code against
// it. It shares no code with package algorithm, and reads only the definitions
// in docs/algorithms.md.
package refmodel

import (
	"math/big"
	"time"

	"github.com/caudal-dev/caudal"
)

// Model is one counter of one algorithm. Instants are microseconds since 1970.
// It is not safe for concurrent use.
type Model struct{ counter counter }

// New makes a fresh counter for an algorithm.
func New(a caudal.Algorithm) *Model {
	switch a {
	case caudal.TokenBucket:
		return &Model{&tokenBucket{used: new(big.Rat)}}
	case caudal.LeakyBucket:
		return &Model{&leakyBucket{calls: map[int][]*big.Rat{}}}
	case caudal.FixedWindow:
		return &Model{&windowed{weigh: wholeWindow}}
	case caudal.SlidingLog:
		return &Model{&slidingLog{}}
	default:
		return &Model{&windowed{weigh: slidingShare}}
	}
}

// counter is what differs between the algorithms.
type counter interface {
	// fits reports whether a call of this cost, from 1, would pass at an instant.
	fits(l caudal.Limit, now int64, cost uint64) bool
	// charge counts a call that fits, under a number for refunds, and gives its
	// delay in microseconds.
	charge(l caudal.Limit, now int64, cost uint64, id int) (delay int64)
	// earliest gives the first instant from now at which the cost fits.
	earliest(l caudal.Limit, now int64, cost uint64) int64
	refund(l caudal.Limit, now int64, n uint64, id int)
	credit(l caudal.Limit, now int64, n uint64)
}

// Take decides a call and charges it when it passes. The id names the charge for
// a later Refund. The decision has no receipt.
func (m *Model) Take(l caudal.Limit, now int64, cost uint32, id int) caudal.Decision {
	most := capacity(l)
	d := caudal.Decision{Limit: most}
	if most == 0 {
		d.Never = true
		return d
	}
	c := m.counter
	queue, fair := c.(*leakyBucket)
	switch n := uint64(cost); {
	case n > most, fair && queue.never(l, n):
		d.Never = true
	case n == 0:
		d.Allowed = true
	case c.fits(l, now, n):
		d.Allowed, d.Charged = true, true
		d.Delay = micros(c.charge(l, now, n, id))
	default:
		d.RetryAfter = micros(c.earliest(l, now, n) - now)
	}
	d.Remaining = largest(most, func(n uint64) bool { return c.fits(l, now, n) })
	if fair {
		asker := queue.owner
		queue.owner = 0 // all that is in the queue must go, whoever asks
		defer func() { queue.owner = asker }()
	}
	d.ResetAfter = micros(c.earliest(l, now, most) - now)
	return d
}

// Refund takes back n of the charge with this id.
func (m *Model) Refund(l caudal.Limit, now int64, n uint32, id int) {
	m.counter.refund(l, now, uint64(n), id)
}

// Credit takes back n of what is there.
func (m *Model) Credit(l caudal.Limit, now int64, n uint32) {
	if capacity(l) > 0 {
		m.counter.credit(l, now, uint64(n))
	}
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// capacity is the largest cost that a fresh counter admits.
func capacity(l caudal.Limit) uint64 {
	switch {
	case l.Requests == 0:
		return 0
	case l.Algorithm == caudal.TokenBucket && l.Burst > 0:
		return uint64(l.Burst)
	case l.Algorithm == caudal.LeakyBucket:
		queue := big.NewInt(int64(l.Queue))
		if l.MaxWait > 0 {
			fit := mul(whole(l.MaxWait.Microseconds()), rate(l))
			if f := floor(fit); f.Cmp(queue) < 0 {
				queue = f
			}
		}
		return queue.Uint64() + 1
	}
	return uint64(l.Requests)
}

// rate is how many calls a microsecond allows.
func rate(l caudal.Limit) *big.Rat {
	return new(big.Rat).SetFrac64(int64(l.Requests), period(l))
}

func period(l caudal.Limit) int64 { return l.Period().Microseconds() }

// tick is the documented step of time of token buckets and sliding windows.
func tick(l caudal.Limit) int64 {
	switch p := l.Period(); {
	case p <= 24*time.Hour:
		return 1
	case p.Milliseconds() <= 1<<40:
		return 1000
	}
	return 1_000_000
}

// largest finds the largest n up to most for which ok holds; ok holds up to some
// number and not beyond. It gives 0 when it holds for none from 1.
func largest(most uint64, ok func(uint64) bool) uint64 {
	low, high := uint64(0), most+1 // ok at low, not at high
	for low+1 < high {
		if mid := low + (high-low)/2; ok(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// first finds the first instant from now at which ok holds; once it holds it
// goes on holding.
func first(now int64, ok func(int64) bool) int64 {
	if ok(now) {
		return now
	}
	low, step := now, int64(1) // not ok at low
	for !ok(low + step) {
		low += step
		step *= 2
	}
	high := low + step
	for low+1 < high {
		if mid := low + (high-low)/2; ok(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// Fractions, without the habit of big.Rat to write into its receiver.

func whole(n int64) *big.Rat     { return new(big.Rat).SetInt64(n) }
func add(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }
func sub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func mul(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func less(a, b *big.Rat) bool    { return a.Cmp(b) < 0 }
func lower(a, b *big.Rat) *big.Rat {
	if less(b, a) {
		return b
	}
	return a
}

func higher(a, b *big.Rat) *big.Rat {
	if less(a, b) {
		return b
	}
	return a
}

// floor rounds down, also below zero.
func floor(a *big.Rat) *big.Int {
	return new(big.Int).Div(a.Num(), a.Denom()) // Euclidean: the denominator is positive
}

func ceil(a *big.Rat) int64 {
	f := floor(a)
	if !a.IsInt() {
		f.Add(f, big.NewInt(1))
	}
	return f.Int64()
}
