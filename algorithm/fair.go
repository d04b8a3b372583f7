package algorithm

import (
	"sort"

	"github.com/caudal-dev/caudal"
)

// MaxHeld bounds the turns whose owners a fair queue remembers, and so the turns
// that one owner may wait for. When the rate changes while calls wait there can be
// more; then those that come soonest are forgotten.
const MaxHeld = 1024

// Held is a turn that a call waits for: the microsecond at which it leaves, and a
// hash of whose it is. No owner is 0.
type Held struct {
	At    int64
	Owner uint64
}

// fairShare says how much of a fair queue its owners hold, seen by one of them who
// asks for more. Of a call with no owner it allows all.
type fairShare struct {
	capacity uint64
	owner    uint64
	held     []Held // that wait, earliest first
	mine     uint64 // how many of them are the owner's
	values   uint64 // how many owners there are, the one who asks included
}

func shareOf(l *caudal.Compiled, held []Held, owner uint64) fairShare {
	f := fairShare{capacity: l.Capacity(), owner: owner, values: 1}
	if owner == 0 || len(held) == 0 {
		return f
	}
	f.held = held
	seen := make(map[uint64]struct{}, len(held))
	for _, h := range held {
		if h.Owner == owner {
			f.mine++
		} else {
			seen[h.Owner] = struct{}{}
		}
	}
	f.values += uint64(len(seen))
	return f
}

// most is how many turns each owner may wait for, of so many.
func (f *fairShare) most(values uint64) uint64 {
	return min(max(f.capacity/(values+1), 1), MaxHeld)
}

// allows reports whether the owner may wait for so many turns more.
func (f *fairShare) allows(turns uint64) bool {
	return f.owner == 0 || turns == 0 || f.mine+turns <= f.most(f.values)
}

// never reports whether a call would wait for too many turns even in an empty
// queue, where the first comes at once.
func (f *fairShare) never(cost uint32) bool {
	return f.owner != 0 && cost > 1 && uint64(cost-1) > f.most(1)
}

// waits is how many turns of a call lie ahead, of cost whose first is this one.
func waits(first Turn, now int64, cost uint64) uint64 {
	if first.ceil() > now {
		return cost
	}
	return cost - 1
}

// earliest gives the first instant from which the share allows a call of this
// cost, if nobody else calls and the first turn at the tail is this one. Others
// leave one by one, and whoever has none left takes no share any more.
func (f *fairShare) earliest(now int64, tail Turn, cost uint32) int64 {
	if f.owner == 0 {
		return now
	}
	left := make(map[uint64]int, f.values)
	for _, h := range f.held {
		left[h.Owner]++
	}
	g, i, at, turn := *f, 0, now, tail.ceil()
	for {
		for ; i < len(f.held) && f.held[i].At <= at; i++ {
			owner := f.held[i].Owner
			if left[owner]--; owner == f.owner {
				g.mine--
			} else if left[owner] == 0 {
				g.values--
			}
		}
		switch {
		case g.allows(waits(tail, at, uint64(cost))):
			return at
		case i < len(f.held) && (turn <= at || f.held[i].At < turn):
			at = f.held[i].At
		case turn > at:
			at = turn
		default:
			return at // nothing waits: what does not pass now never does
		}
	}
}

// remaining gives the largest cost of a call from the tail that the share allows.
func (f *fairShare) remaining(tail Turn, now int64) uint64 {
	n := uint64(0)
	if most := f.most(f.values); most > f.mine {
		n = most - f.mine
	}
	if tail.ceil() <= now {
		n++ // the first does not wait
	}
	return n
}

// hold remembers whose the turns of a call are that do not come at once.
func (s *LeakyBucket) hold(p pace, f *fairShare, first Turn, now int64, cost uint32) {
	if f.owner == 0 {
		return
	}
	f.mine += waits(first, now, uint64(cost))
	held := make([]Held, len(s.Held), len(s.Held)+int(cost)) // s may share its own with others
	copy(held, s.Held)
	for k := range cost {
		at := p.add(first, p.span(uint64(k))).ceil()
		if at <= now {
			continue
		}
		i := sort.Search(len(held), func(i int) bool { return held[i].At > at })
		held = append(held, Held{})
		copy(held[i+1:], held[i:])
		held[i] = Held{at, f.owner}
	}
	s.Held = held[max(len(held)-MaxHeld, 0):]
}

// letGo forgets whose the last n turns of a cancelled call were.
func (s *LeakyBucket) letGo(cost, n uint32, turn func(k uint32) Turn) {
	if len(s.Held) == 0 {
		return
	}
	held := append([]Held(nil), s.Held...)
	for k := cost; k > 0 && n > 0 && cost-k <= MaxHeld; k, n = k-1, n-1 {
		at := turn(k - 1).ceil()
		i := sort.Search(len(held), func(i int) bool { return held[i].At >= at })
		if i < len(held) && held[i].At == at {
			held = append(held[:i], held[i+1:]...)
		}
	}
	s.Held = held
}

// settleHeld forgets turns behind the last one, which were taken back without a
// receipt.
func (s *LeakyBucket) settleHeld() {
	n := len(s.Held)
	for n > 0 && s.Held[n-1].At > s.Last.ceil() {
		n--
	}
	s.Held = s.Held[:n]
}
