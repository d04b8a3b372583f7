package caudal

import (
	"math/big"
	"strconv"
)

// maxInstances bounds the instances that a local limit is made for; beyond it a
// share of most limits would be one call anyway.
const maxInstances = 1 << 20

// stand is a limit that stands in for another, made for so many instances.
type stand struct {
	instances int
	limit     *Compiled
}

// Local gives the limit that counts in one of so many instances (at least 1)
// while the store that they share is gone. All of them together allow
// LocalFactor times what the limit does; each allows
//
//   - a token bucket: rate x factor / instances exactly, and a burst of
//     burst x factor / instances, rounded up, at least 1;
//   - windows and the log: limit x factor / instances, rounded up, at least 1;
//   - a leaky bucket, whatever the factor, since it protects something that can
//     bear no more: the spacing x instances, the queue / instances rounded down,
//     and the same longest wait.
//
// A limit of 0 stays 0. The rate is rounded only where its numerator or period
// would not fit 32 bits. A cost between the two capacities is for the caller to
// charge as the local one. The last answer is kept, so asking again with the same
// number costs nothing.
func (c *Compiled) Local(instances int) *Compiled {
	if c.standsFor != nil {
		return c
	}
	n := min(max(instances, 1), maxInstances)
	if s := c.local.Load(); s != nil && s.instances == n {
		return s.limit
	}
	local := c.localLimit(n)
	if local.Validate() != nil {
		local = c.slowest(local)
	}
	l, err := local.Compile(c.name, c.scope, OnStoreError(c.failure, c.factor))
	if err != nil {
		l, _ = c.limit.Compile(c.name, c.scope) // cannot happen: slowest is valid
	}
	l.standsFor = c
	c.local.Store(&stand{n, l})
	return l
}

// StandsInFor gives the limit for which this one counts in an instance, see
// Local; nil for a limit that was compiled from rules. A receipt whose limit
// stands in for another is of a local count.
func (c *Compiled) StandsInFor() *Compiled { return c.standsFor }

func (c *Compiled) localLimit(n int) Limit {
	l := c.limit
	if l.Requests == 0 {
		return l
	}
	share := new(big.Rat).Quo(exact(c.factor), ratOf(uint64(n)))
	switch l.Algorithm {
	case TokenBucket:
		l.Burst = ceilShare(c.capacity, share)
		return l.withRate(share)
	case LeakyBucket:
		l.Queue /= uint32(n)
		l.Multiplier = uint32(min(l.multiplier()*int64(n), maxMultiplier/unitSeconds[l.Unit], 1<<32-1))
		return l
	}
	l.Requests = ceilShare(c.capacity, share)
	return l
}

// exact reads a factor as the decimal number that people wrote: 1.1 is 11/10.
func exact(factor float64) *big.Rat {
	const most = 1 << 32
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(min(factor, most), 'g', -1, 64))
	if !ok || r.Sign() <= 0 {
		return ratOf(DefaultLocalFactor)
	}
	return r
}

func ratOf(n uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(n)) }

// ceilShare gives n x share, rounded up, from 1 to 2^32-1.
func ceilShare(n uint64, share *big.Rat) uint32 {
	x := new(big.Rat).Mul(ratOf(n), share)
	q, r := new(big.Int).QuoRem(x.Num(), x.Denom(), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsUint64() {
		return 1<<32 - 1
	}
	return uint32(min(max(q.Uint64(), 1), 1<<32-1))
}

// withRate gives the limit with its rate times share: a whole number of requests
// per a whole number of units. The limit's own unit is tried first, so that the
// period stays short and its tick fine; then any in which the rate can be written
// exactly.
func (l Limit) withRate(share *big.Rat) Limit {
	rate := new(big.Rat).Mul(ratOf(uint64(l.Requests)), share)
	rate.Quo(rate, ratOf(uint64(l.multiplier()))) // per unit
	perSecond := new(big.Rat).Quo(rate, ratOf(uint64(unitSeconds[l.Unit])))
	for _, unit := range [...]Unit{l.Unit, Second, Minute, Hour, Day, Week, Month, Year} {
		r := new(big.Rat).Mul(perSecond, ratOf(uint64(unitSeconds[unit])))
		if r.Num().BitLen() <= 32 && r.Denom().BitLen() <= 32 && int64(r.Denom().Uint64()) <= maxMultiplier/unitSeconds[unit] {
			l.Unit, l.Requests, l.Multiplier = unit, uint32(r.Num().Uint64()), uint32(r.Denom().Uint64())
			return l
		}
	}
	num, den := new(big.Int).Set(rate.Num()), new(big.Int).Set(rate.Denom())
	most := min(maxMultiplier/unitSeconds[l.Unit], 1<<32-1)
	for num.BitLen() > 32 || den.Cmp(big.NewInt(most)) > 0 {
		num.Rsh(num, 1)
		den.Rsh(den, 1)
	}
	l.Requests, l.Multiplier = uint32(max(num.Uint64(), 1)), uint32(max(den.Uint64(), 1))
	return l
}

// slowest replaces a local limit that is too slow to be one at all: a share of
// one call in decades.
func (c *Compiled) slowest(l Limit) Limit {
	l.Requests, l.Unit, l.Queue = 1, Year, 0
	l.Multiplier = uint32(maxMultiplier / unitSeconds[Year])
	if l.Algorithm == TokenBucket {
		l.Burst = 1
	}
	return l
}
