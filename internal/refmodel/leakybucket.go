package refmodel

import (
	"math/big"
	"slices"

	"github.com/caudal-dev/caudal"
)

// leakyBucket is a queue of turns, each an exact fraction of a microsecond.
type leakyBucket struct {
	last  *big.Rat // the last turn given; nil when none ever was
	rate  uint32   // under which it was given
	freed []*big.Rat
	calls map[int][]*big.Rat // the turns that each call was told
	owner uint64             // who asks; 0 is nobody in particular
	held  []held             // turns that somebody has who is not nobody
}

// round gives the first instant not before t that is a whole number of steps of
// 1/rate of a microsecond: how a turn is kept when the rate has changed.
func round(t *big.Rat, rate uint32) *big.Rat {
	n := mul(t, whole(int64(rate)))
	i := floor(n)
	if !n.IsInt() {
		i.Add(i, big.NewInt(1))
	}
	return new(big.Rat).SetFrac(i, big.NewInt(int64(rate)))
}

// seen gives the queue as a call at this instant finds it under this limit:
// turns that were freed and have passed are gone.
func (b *leakyBucket) seen(l caudal.Limit, now int64) leakyBucket {
	s := *b
	if b.last == nil {
		return s
	}
	s.held = slices.DeleteFunc(slices.Clone(b.held), func(h held) bool { return ceil(h.turn) <= now })
	s.freed = nil
	for _, t := range b.freed {
		if ceil(t) >= now {
			if b.rate != l.Requests {
				t = round(t, l.Requests)
			}
			s.freed = append(s.freed, t)
		}
	}
	if b.rate != l.Requests {
		s.last, s.rate = round(b.last, l.Requests), l.Requests
	}
	return s
}

// interval is how far apart the turns are.
func interval(l caudal.Limit) *big.Rat { return new(big.Rat).Inv(rate(l)) }

// longest is how far ahead the last turn of a call may lie.
func longest(l caudal.Limit) *big.Rat {
	queue := mul(interval(l), whole(int64(l.Queue)))
	if l.MaxWait > 0 {
		return lower(queue, whole(l.MaxWait.Microseconds()))
	}
	return queue
}

// tail gives the turns that a call of this cost would get at the end.
func (b *leakyBucket) tail(l caudal.Limit, now int64, cost uint64) (head, last *big.Rat) {
	head = whole(now)
	if b.last != nil {
		head = higher(head, add(b.last, interval(l)))
	}
	return head, add(head, mul(interval(l), whole(int64(cost-1))))
}

func (b *leakyBucket) fitsTail(l caudal.Limit, now int64, cost uint64) bool {
	s := b.seen(l, now)
	_, last := s.tail(l, now, cost)
	return !less(add(whole(now), longest(l)), last)
}

// freeTurn gives the first cancelled turn that is still ahead and in reach.
func (b *leakyBucket) freeTurn(l caudal.Limit, now int64) (*big.Rat, bool) {
	s := b.seen(l, now)
	if len(s.freed) == 0 || less(add(whole(now), longest(l)), s.freed[0]) {
		return nil, false
	}
	return s.freed[0], true
}

func (b *leakyBucket) fits(l caudal.Limit, now int64, cost uint64) bool {
	if cost == 1 {
		if t, ok := b.freeTurn(l, now); ok {
			return b.fair(l, now, t)
		}
	}
	if !b.fitsTail(l, now, cost) || b.never(l, cost) {
		return false
	}
	if b.owner == 0 {
		return true // whose the turns are does not matter: they need not be listed
	}
	head, _ := b.tail(l, now, cost)
	return b.fair(l, now, turnsFrom(l, head, cost)...)
}

func (b *leakyBucket) charge(l caudal.Limit, now int64, cost uint64, id int) (delay int64) {
	free, ok := b.freeTurn(l, now)
	s := b.seen(l, now)
	if ok && cost == 1 {
		s.freed = s.freed[1:]
		s.calls[id] = []*big.Rat{free}
		s.hold(now, free)
		*b = s
		return ceil(free) - now
	}
	head, last := s.tail(l, now, cost)
	s.last, s.rate = last, l.Requests
	if s.owner != 0 {
		s.hold(now, turnsFrom(l, head, cost)...)
	}
	if cost <= 100 { // no test takes back part of a longer one than this
		for k := range cost {
			s.calls[id] = append(s.calls[id], add(head, mul(interval(l), whole(int64(k)))))
		}
	} else {
		s.calls[id] = nil
	}
	*b = s
	return ceil(head) - now
}

func (b *leakyBucket) earliest(l caudal.Limit, now int64, cost uint64) int64 {
	if b.owner != 0 {
		return b.earliestFair(l, now, cost)
	}
	at := first(now, func(x int64) bool { return b.fitsTail(l, x, cost) })
	if cost == 1 { // a freed turn may come into reach before
		for _, t := range b.seen(l, now).freed {
			at = min(at, max(now, ceil(sub(t, longest(l)))))
		}
	}
	return at
}

// refund takes back a call that never left.
func (b *leakyBucket) refund(l caudal.Limit, now int64, n uint64, id int) {
	turns := b.calls[id]
	if len(turns) == 0 {
		return
	}
	under := l // in terms of the rate that the queue has now
	under.Requests = b.rate
	s := b.seen(under, now)
	s.letGo(turns[len(turns)-int(n):])
	if round(turns[len(turns)-1], b.rate).Cmp(s.last) == 0 {
		s.moveBack(under, round(turns[len(turns)-int(n)], b.rate), 1)
		*b = s
		return
	}
	for k := len(turns) - 1; k >= 0 && n > 0; k, n = k-1, n-1 {
		t := round(turns[k], b.rate)
		if ceil(t) < now || !less(t, s.last) {
			break
		}
		if !slices.ContainsFunc(s.freed, func(f *big.Rat) bool { return f.Cmp(t) == 0 }) {
			s.freed = append(s.freed, t)
		}
	}
	slices.SortFunc(s.freed, (*big.Rat).Cmp)
	*b = s
}

// moveBack puts the tail n turns before a turn, and on over freed turns there.
func (b *leakyBucket) moveBack(l caudal.Limit, from *big.Rat, n uint64) {
	b.last = sub(from, mul(interval(l), whole(int64(n))))
	for len(b.freed) > 0 {
		end := b.freed[len(b.freed)-1]
		if less(end, b.last) {
			break
		}
		if end.Cmp(b.last) == 0 {
			b.last = sub(b.last, interval(l))
		}
		b.freed = b.freed[:len(b.freed)-1]
	}
}

// credit moves the tail back, at most to where nobody waits.
func (b *leakyBucket) credit(l caudal.Limit, now int64, n uint64) {
	if b.last == nil {
		return
	}
	s := b.seen(l, now)
	idle := sub(whole(now), interval(l))
	if !less(s.last, idle) {
		to := higher(idle, sub(s.last, mul(interval(l), whole(int64(n)))))
		s.moveBack(l, to, 0)
		s.held = slices.DeleteFunc(s.held, func(h held) bool { return ceil(h.turn) > ceil(s.last) })
	}
	*b = s
}
