package algorithm

import (
	"math/bits"

	"github.com/caudal-dev/caudal"
)

// MaxFreed is how many cancelled turns of one key are kept for later calls.
// Cancelled turns beyond it are lost: the queue flows no faster, only less full.
const MaxFreed = 1024

// Turn is an instant in microseconds and a fraction: Frac/rate of a microsecond,
// where rate is the Requests of the limit that it belongs to. So turns that are
// one period/Requests apart are exact whatever the rate.
type Turn struct {
	Micros int64
	Frac   uint32
}

// less reports whether t is before u.
func (t Turn) less(u Turn) bool {
	return t.Micros < u.Micros || t.Micros == u.Micros && t.Frac < u.Frac
}

// ceil gives the first whole microsecond not before the turn, which is when a
// call that has it leaves.
func (t Turn) ceil() int64 {
	if t.Frac > 0 {
		return t.Micros + 1
	}
	return t.Micros
}

// LeakyBucket is the state of a key under a leaky bucket, a queue with constant
// outflow: the last turn given, and the turns before it that were cancelled and
// still lie ahead, earliest first. Of a fair queue it holds also whose the turns
// are that lie ahead, earliest first. The zero value is fresh.
type LeakyBucket struct {
	Last  Turn
	Rate  uint32 // what Frac is a fraction of; 0 in a fresh state
	Freed []Turn
	Held  []Held
}

// pace is the outflow of a limit: period microseconds for rate turns.
type pace struct {
	period, rate uint64
}

// long is beyond what any limit takes to recover, from any instant. A longer time
// counts as this: it comes up when the rate fell far below that of the receipt.
const long = 1 << 53

// span gives the length of n intervals.
func (p pace) span(n uint64) Turn {
	hi, lo := bits.Mul64(n, p.period)
	q, r := wide{hi, lo}.div(p.rate)
	if q >= long {
		return Turn{Micros: long}
	}
	return Turn{int64(q), uint32(r)}
}

// count gives how many whole intervals a length of time, not negative, holds.
func (p pace) count(t Turn) uint64 {
	n, _ := mul(uint64(t.Micros), p.rate).add(wide{0, uint64(t.Frac)}).div(p.period)
	return n
}

func (p pace) add(a, b Turn) Turn {
	frac := uint64(a.Frac) + uint64(b.Frac)
	t := Turn{a.Micros + b.Micros, 0}
	if frac >= p.rate {
		frac -= p.rate
		t.Micros++
	}
	t.Frac = uint32(frac)
	return t
}

func (p pace) sub(a, b Turn) Turn {
	t := Turn{a.Micros - b.Micros, a.Frac - b.Frac}
	if a.Frac < b.Frac {
		t.Micros--
		t.Frac = uint32(uint64(a.Frac) + p.rate - uint64(b.Frac))
	}
	return t
}

// rebase turns a fraction of another rate into one of this rate, rounded up so
// that no turn moves earlier.
func (p pace) rebase(t Turn, rate uint32) Turn {
	if t.Frac == 0 || uint64(rate) == p.rate {
		return t
	}
	hi, lo := bits.Mul64(uint64(t.Frac), p.rate)
	frac := wide{hi, lo}.ceilDiv(uint64(rate))
	if frac >= p.rate {
		return Turn{t.Micros + 1, 0}
	}
	return Turn{t.Micros, uint32(frac)}
}

func paceOf(l *caudal.Compiled) pace {
	return pace{uint64(l.PeriodMicros()), l.Requests()}
}

// longest gives how far ahead of the caller the last turn of a call may lie. A
// queue that the longest wait cuts short may be so long that its length in time
// does not fit an int64, so that is not worked out.
func (p pace) longest(l *caudal.Compiled) Turn {
	if w := l.MaxWaitMicros(); w > 0 && l.Queue() >= l.Capacity() {
		return Turn{Micros: w}
	}
	return p.span(l.Queue())
}

// at gives the state with its fractions in this pace's rate, without freed turns
// that have passed and held ones that have come. It does not change what s.Freed
// and s.Held point to.
func (s LeakyBucket) at(p pace, now int64) LeakyBucket {
	if s.Rate == 0 {
		return s
	}
	for len(s.Freed) > 0 && s.Freed[0].ceil() < now {
		s.Freed = s.Freed[1:]
	}
	for len(s.Held) > 0 && s.Held[0].At <= now {
		s.Held = s.Held[1:]
	}
	if uint64(s.Rate) == p.rate {
		return s
	}
	freed := make([]Turn, len(s.Freed))
	for i, t := range s.Freed {
		freed[i] = p.rebase(t, s.Rate)
	}
	return LeakyBucket{Last: p.rebase(s.Last, s.Rate), Rate: uint32(p.rate), Freed: freed, Held: s.Held}
}

// next gives the turn that a call arriving now would get at the tail.
func (s LeakyBucket) next(p pace, now int64) Turn {
	if s.Rate == 0 {
		return Turn{Micros: now}
	}
	t := p.add(s.Last, p.span(1))
	if t.less(Turn{Micros: now}) {
		return Turn{Micros: now}
	}
	return t
}

// NotBefore gives the state in which the next turn is not before the instant t:
// as if the turn one interval earlier had been given. Cancelled turns before t
// are lost. It is what a call with a least delay is decided on; see
// caudal.Call.MinDelay.
func (s LeakyBucket) NotBefore(l *caudal.Compiled, now, t int64) LeakyBucket {
	if l.Capacity() == 0 {
		return s
	}
	p := paceOf(l)
	s = s.at(p, now)
	first := Turn{Micros: t}
	if s.next(p, now).less(first) {
		return LeakyBucket{Last: p.sub(first, p.span(1)), Rate: uint32(p.rate), Held: s.Held}
	}
	for len(s.Freed) > 0 && s.Freed[0].less(first) {
		s.Freed = s.Freed[1:]
	}
	return s
}

// Take decides a call of this cost and gives it its turn: Decision.Delay. A call
// of cost n takes n turns at the tail and leaves at the first; the last must lie
// within the queue and the longest wait. A call of cost 1 takes a cancelled turn
// that lies ahead, if there is one.
//
// The state returned may share memory with s.
func (s LeakyBucket) Take(l *caudal.Compiled, now int64, cost uint32) (LeakyBucket, caudal.Decision) {
	return s.TakeFair(l, now, cost, 0)
}

// TakeFair is Take for a call of an owner in a fair queue. No owner may wait for
// more than max(1, capacity / (owners + 1)) turns, where owners counts those who
// wait now, this one included; see caudal.Call.Fair. A call that would leave at
// once waits for none. Owner 0 is nobody in particular: it takes no share and is
// held to none.
func (s LeakyBucket) TakeFair(l *caudal.Compiled, now int64, cost uint32, owner uint64) (LeakyBucket, caudal.Decision) {
	d := caudal.Decision{Limit: l.Capacity()}
	if d.Limit == 0 {
		d.Never = true
		return s, d
	}
	p := paceOf(l)
	longest := p.longest(l)
	latest := p.add(Turn{Micros: now}, longest)
	next := s.at(p, now)
	share := shareOf(l, next.Held, owner)
	d.Never = never(l, cost) || share.never(cost)
	switch {
	case d.Never:
	case cost == 0:
		d.Allowed = true
	case cost == 1 && next.frees(latest) && share.allows(waits(next.Freed[0], now, 1)):
		turn := next.Freed[0]
		next.Freed = next.Freed[1:]
		next.hold(p, &share, turn, now, cost)
		give(&d, l, turn, now, cost)
	default:
		first := next.next(p, now)
		last := p.add(first, p.span(uint64(cost-1)))
		if latest.less(last) || !share.allows(waits(first, now, uint64(cost))) {
			retry := share.earliest(now, first, cost)
			if cost == 1 && len(next.Freed) > 0 { // out of reach, but the nearest
				last = next.Freed[0]
				retry = min(retry, last.ceil()) // who leaves at once needs no share
			}
			denied(&d, max(retry, p.sub(last, longest).ceil()), now)
			break
		}
		next.Last, next.Rate = last, uint32(p.rate)
		next.hold(p, &share, first, now, cost)
		give(&d, l, first, now, cost)
	}
	next.report(&d, p, longest, now, &share)
	if !d.Charged {
		next = s
	}
	return next, d
}

// frees reports whether a cancelled turn lies ahead, not after latest. One can
// lie beyond that when the queue was made shorter, or to a clock that lags.
func (s LeakyBucket) frees(latest Turn) bool {
	return len(s.Freed) > 0 && !latest.less(s.Freed[0])
}

// give fills the decision of a call that got its turn.
func give(d *caudal.Decision, l *caudal.Compiled, turn Turn, now int64, cost uint32) {
	d.Allowed = true
	d.Delay = micros(turn.ceil() - now)
	charged(d, l, turn.Micros, cost)
	d.Receipt.Frac = turn.Frac
}

// report fills what remains: as many turns as fit between the next one and the
// longest wait, and how long until all of them are free again.
func (s LeakyBucket) report(d *caudal.Decision, p pace, longest Turn, now int64, share *fairShare) {
	first, latest := s.next(p, now), p.add(Turn{Micros: now}, longest)
	if !latest.less(first) {
		d.Remaining = min(p.count(p.sub(latest, first))+1, d.Limit)
	}
	if share.owner != 0 {
		d.Remaining = min(d.Remaining, share.remaining(first, now))
	}
	if d.Remaining == 0 && s.frees(latest) && share.allows(waits(s.Freed[0], now, 1)) {
		d.Remaining = 1
	}
	if s.Rate > 0 {
		all := p.add(s.Last, p.span(d.Limit))
		if d.Limit == 1 && len(s.Freed) > 0 {
			all = s.Freed[0]
		}
		d.ResetAfter = micros(p.sub(all, longest).ceil() - now)
	}
}

// Refund gives back n of the turns of a call that never left its queue. The
// receipt's turn is its first of cost turns. If the call holds the last turn
// given, the tail moves back, whether that turn has come or not. Otherwise its
// turns that still lie ahead are freed for later calls, the latest first.
func (s LeakyBucket) Refund(r caudal.Receipt, now int64, n uint32) LeakyBucket {
	if s.Rate == 0 || n == 0 {
		return s
	}
	p := pace{uint64(r.Limit.PeriodMicros()), uint64(s.Rate)}
	old := paceOf(r.Limit)
	s = s.at(p, now)
	given := func(k uint32) Turn { return old.add(Turn{r.At, r.Frac}, old.span(uint64(k))) }
	turns := func(k uint32) Turn { // the call's k-th turn, in the state's rate
		return p.rebase(given(k), uint32(old.rate))
	}
	s.letGo(r.Cost, n, given)
	if turns(r.Cost-1) == s.Last {
		// The next call gets the first turn that is given back. Intervals of the present
		// rate would reach back over the turns of others, if it is slower.
		s.Last = p.sub(turns(r.Cost-min(n, r.Cost)), p.span(1))
		if s.Last.Micros < -long {
			s.Last = Turn{Micros: -long}
		}
		return s.settle(p)
	}
	freed := append([]Turn(nil), s.Freed...)
	n = min(n, MaxFreed) // turns that became one in a slower rate would not fill it
	for k := r.Cost; k > 0 && n > 0 && len(freed) < MaxFreed; k, n = k-1, n-1 {
		t := turns(k - 1)
		if t.ceil() < now || !t.less(s.Last) {
			break
		}
		freed = insert(freed, t)
	}
	s.Freed = freed
	return s
}

// Credit moves the tail back by n turns, at most to where nothing is waiting,
// for refunds without a receipt.
func (s LeakyBucket) Credit(l *caudal.Compiled, now int64, n uint32) LeakyBucket {
	if s.Rate == 0 || l.Requests() == 0 {
		return s
	}
	p := paceOf(l)
	s = s.at(p, now)
	idle := p.sub(Turn{Micros: now}, p.span(1))
	if s.Last.less(idle) {
		return s
	}
	back := p.sub(s.Last, idle)
	if uint64(n) <= p.count(back) { // n intervals may be longer than an int64 holds
		back = p.span(uint64(n))
	}
	s.Last = p.sub(s.Last, back)
	s = s.settle(p)
	s.settleHeld()
	return s
}

// settle drops freed turns that are no longer before the tail, and moves the
// tail on over those directly at it.
func (s LeakyBucket) settle(p pace) LeakyBucket {
	for n := len(s.Freed); n > 0 && !s.Freed[n-1].less(s.Last); n-- {
		if s.Freed[n-1] == s.Last {
			s.Last = p.sub(s.Last, p.span(1))
		}
		s.Freed = s.Freed[:n-1]
	}
	return s
}

// insert puts a turn in its place, once.
func insert(turns []Turn, t Turn) []Turn {
	i := len(turns)
	for i > 0 && t.less(turns[i-1]) {
		i--
	}
	if i > 0 && turns[i-1] == t {
		return turns
	}
	turns = append(turns, Turn{})
	copy(turns[i+1:], turns[i:])
	turns[i] = t
	return turns
}

// FreshAt gives the instant from which the state is the same as a fresh one.
func (s LeakyBucket) FreshAt(l *caudal.Compiled) int64 {
	if s.Rate == 0 || l.Requests() == 0 {
		return s.Last.Micros
	}
	p := paceOf(l)
	return p.add(p.rebase(s.Last, s.Rate), p.span(1)).ceil()
}
