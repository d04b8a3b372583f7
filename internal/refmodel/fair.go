package refmodel

import (
	"math/big"
	"slices"

	"github.com/caudal-dev/caudal"
)

// held is a turn and whose it is.
type held struct {
	turn  *big.Rat
	owner uint64
}

// TakeFair is Take for an owner in a fair leaky bucket; 0 is nobody.
func (m *Model) TakeFair(l caudal.Limit, now int64, cost uint32, id int, owner uint64) caudal.Decision {
	b := m.counter.(*leakyBucket)
	b.owner = owner
	return m.Take(l, now, cost, id)
}

// never reports whether the owner could not wait for so many turns even if the
// queue were empty. The first leaves at once.
func (b *leakyBucket) never(l caudal.Limit, cost uint64) bool {
	return b.owner != 0 && cost > 1 && cost-1 > max(1, capacity(l)/2)
}

// fair reports whether the owner may have these turns.
func (b *leakyBucket) fair(l caudal.Limit, now int64, turns ...*big.Rat) bool {
	mine, owners, more := uint64(0), map[uint64]bool{b.owner: true}, uint64(0)
	for _, h := range b.held {
		if ceil(h.turn) > now {
			owners[h.owner] = true
			if h.owner == b.owner {
				mine++
			}
		}
	}
	for _, t := range turns {
		if ceil(t) > now {
			more++
		}
	}
	return b.owner == 0 || more == 0 || mine+more <= max(1, capacity(l)/uint64(len(owners)+1))
}

// turnsFrom gives as many turns as a call of this cost has, from its first on; of
// a cost that no trace charges only the first and what is left of it count.
func turnsFrom(l caudal.Limit, head *big.Rat, cost uint64) []*big.Rat {
	var turns []*big.Rat
	for k := range min(cost, 1<<12) {
		turns = append(turns, add(head, mul(interval(l), whole(int64(k)))))
	}
	return turns
}

// hold remembers whose the turns are that do not come at once.
func (b *leakyBucket) hold(now int64, turns ...*big.Rat) {
	for _, t := range turns {
		if b.owner != 0 && ceil(t) > now {
			b.held = append(b.held, held{t, b.owner})
		}
	}
}

// letGo forgets turns that were given back.
func (b *leakyBucket) letGo(turns []*big.Rat) {
	for _, t := range turns {
		if i := slices.IndexFunc(b.held, func(h held) bool { return ceil(h.turn) == ceil(t) }); i >= 0 {
			b.held = slices.Delete(slices.Clone(b.held), i, i+1)
		}
	}
}

// earliestFair tries every instant at which something changes.
func (b *leakyBucket) earliestFair(l caudal.Limit, now int64, cost uint64) int64 {
	tail, _ := b.tail(l, now, 1)
	tries := []int64{now, ceil(tail), first(now, func(x int64) bool { return b.fitsTail(l, x, cost) })}
	for _, h := range b.held {
		tries = append(tries, ceil(h.turn))
	}
	for _, t := range b.seen(l, now).freed {
		tries = append(tries, ceil(t), ceil(sub(t, longest(l))))
	}
	slices.Sort(tries)
	for _, x := range tries {
		if x >= now && b.fits(l, x, cost) {
			return x
		}
	}
	return tries[len(tries)-1]
}
