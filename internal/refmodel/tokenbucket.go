package refmodel

import (
	"math/big"

	"github.com/caudal-dev/caudal"
)

// tokenBucket keeps how many tokens were missing after the last charge.
type tokenBucket struct {
	used *big.Rat
	at   int64
}

// missing gives how many tokens are missing at an instant, and that instant on
// the key's own time. A lowered capacity clamps what was missing.
func (b *tokenBucket) missing(l caudal.Limit, now int64) (*big.Rat, int64) {
	at := max(now/tick(l)*tick(l), b.at)
	used := lower(b.used, whole(int64(capacity(l))))
	used = sub(used, mul(rate(l), whole(at-b.at)))
	return higher(used, new(big.Rat)), at
}

func (b *tokenBucket) fits(l caudal.Limit, now int64, cost uint64) bool {
	used, _ := b.missing(l, now)
	return !less(whole(int64(capacity(l))), add(used, whole(int64(cost))))
}

func (b *tokenBucket) charge(l caudal.Limit, now int64, cost uint64, _ int) int64 {
	used, at := b.missing(l, now)
	b.used, b.at = add(used, whole(int64(cost))), at
	return 0
}

func (b *tokenBucket) earliest(l caudal.Limit, now int64, cost uint64) int64 {
	return first(now, func(x int64) bool { return b.fits(l, x, cost) })
}

// refund gives tokens back whichever charge they come from.
func (b *tokenBucket) refund(l caudal.Limit, now int64, n uint64, _ int) { b.credit(l, now, n) }

func (b *tokenBucket) credit(_ caudal.Limit, _ int64, n uint64) {
	b.used = higher(sub(b.used, whole(int64(n))), new(big.Rat))
}
