package redisstore

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// How leases are sized and how long they last.
const (
	// leaseLife is how long the server counts a bucket's lease as out, from when it
	// was given. The holder stops leaseMargin earlier, counted from before it asked,
	// so that clocks that run at different speeds cannot make it the later one.
	leaseLife   = 2 * time.Second
	leaseMargin = 100 * time.Millisecond
	// leaseSpan is how much of its own demand an instance asks for at a time.
	leaseSpan = 50 * time.Millisecond
	// leaseLeast is the smallest lease that is worth having.
	leaseLeast = 8
	// leaseMost bounds a lease: the scripts keep it in four bytes.
	leaseMost = 1 << 30
	// leaseIdle is how long nobody may want a key until its lease goes back.
	leaseIdle = 200 * time.Millisecond
	// leasePause is how long not to ask for a lease again after there was none.
	leasePause = 5 * time.Millisecond
)

// A key is leased once it was asked hotCalls times within hotSpan.
const (
	hotCalls = 32
	hotSpan  = 100 * time.Millisecond
)

// DefaultLeases is how many keys an instance leases at a time when Options.Leases
// is 0.
const DefaultLeases = 4096

const (
	leaseShards   = 64
	leaseWatching = 128 // keys per shard whose demand is watched before they are leased
)

// leases holds what this instance may spend without asking: keys of limits whose
// accuracy is leased and that are asked often. It is bounded, and so is what it
// knows of keys that are not hot: one that shares a place with another may be
// noticed later.
//
// A lease is in one of these states: live (some is left, and its time has not
// come), empty, and over (its time has come: what is left is lost). Beside that
// one caller may be asking about it (asking); others ask for themselves meanwhile.
// Only the one who asks reports what was spent, and a report is never made twice:
// when its answer is lost, it counts as made. That keeps the server's idea of what
// is out above the truth, never below.
type leases struct {
	holder string // names this instance to the scripts
	max    int64
	count  atomic.Int64
	going  atomic.Int64 // on their way back
	ending atomic.Bool  // nothing is asked for any more
	closed atomic.Bool
	shards [leaseShards]leaseShard
}

type leaseShard struct {
	mu       sync.Mutex
	m        map[keyhash.Hash]*lease
	watching [leaseWatching]watched
	_        [64]byte // shards are locked apart
}

// watched is a key that may become hot.
type watched struct {
	key   uint64
	since int64
	calls uint32
}

// lease is what is held of one counter, guarded by its shard.
type lease struct {
	limit   *caudal.Compiled
	counter counter

	left  uint64         // may be spent
	spent uint64         // and not reported yet
	ends  caudal.Instant // by this clock; over when either reading has come
	at    int64          // what was charged: the window's start, or the server's instant
	low   uint64         // ask for more when less is left

	beside uint64 // what the server last said remains beside
	reset  int64  // when that is all again, by this clock

	asking bool
	asked  int64 // when it was last asked about
	pause  int64 // do not ask before
	used   int64 // when it was last wanted
	since  int64 // demand is counted from here
	demand uint64
}

func newLeases(max int) *leases {
	x := &leases{max: int64(max)}
	var b [8]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	x.holder = string(b[:])
	return x
}

func (x *leases) shard(h keyhash.Hash) *leaseShard { return &x.shards[h.Lo%leaseShards] }

// live reports whether what is left may be spent.
func (le *lease) live(now caudal.Instant) bool {
	return now.Mono < le.ends.Mono && now.Wall < le.ends.Wall
}

// of reports whether the lease is of this limit, also when the rules were loaded
// again. One of other numbers is not spent any more.
func (le *lease) of(l *caudal.Compiled) bool {
	if le.limit != l {
		if le.limit.Limit() != l.Limit() {
			return false
		}
		le.limit = l
	}
	return true
}

// spend decides a call from a lease, when there is one that has room. low says
// that the caller should ask for more, and has been noted as the one who does.
func (x *leases) spend(h keyhash.Hash, l *caudal.Compiled, cost uint64, now caudal.Instant, d *caudal.Decision) (spent, low bool) {
	sh := x.shard(h)
	sh.mu.Lock()
	le := sh.m[h]
	if le == nil || !le.of(l) || le.left < max(cost, 1) || !le.live(now) {
		sh.mu.Unlock()
		return false, false
	}
	le.left -= cost
	le.spent += cost
	le.demand += cost
	le.used = now.Mono
	if low = le.left < le.low && !le.asking && now.Mono >= le.pause && !x.ending.Load(); low {
		le.asking = true
	}
	le.decide(l, now, d)
	at, c := le.at, le.counter
	sh.mu.Unlock()
	if cost > 0 {
		d.Charged = true
		d.Receipt = caudal.Receipt{Limit: l, Counter: c, ID: rand.Uint64(), At: at, Cost: uint32(cost)}
	}
	return true, low
}

// decide writes what can be said without the server.
func (le *lease) decide(l *caudal.Compiled, now caudal.Instant, d *caudal.Decision) {
	*d = caudal.Decision{
		Allowed: true, Limit: l.Capacity(), Remaining: min(le.left+le.beside, l.Capacity()), ResetAfter: micros(le.reset - now.Mono),
	}
}

// giveBack undoes a spend whose request was denied by another limit. It reports
// whether it could: not when the lease is gone or the server knows of it already.
func (x *leases) giveBack(h keyhash.Hash, r caudal.Receipt) bool {
	sh := x.shard(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	le, cost := sh.m[h], uint64(r.Cost)
	if le == nil || le.limit != r.Limit || le.spent < cost || r.Limit.Wall() && le.at != r.At {
		return false
	}
	le.left += cost
	le.spent -= cost
	return true
}

// wanted is a lease to ask for.
type wanted struct {
	hash  keyhash.Hash
	lease *lease
	limit *caudal.Compiled

	counter     counter
	spent, back uint64
	at          int64
	want        uint64
}

// begin notes that a key is wanted that no lease covers. It gives what to ask for
// when this caller is to ask for a lease, and nil when it asks for itself alone:
// the key is not hot, somebody else asks, or there was nothing to lease just now.
func (x *leases) begin(h keyhash.Hash, l *caudal.Compiled, c counter, cost uint64, now caudal.Instant) *wanted {
	sh := x.shard(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	le := sh.m[h]
	if le == nil {
		since, hot := sh.watch(h, now)
		if !hot || x.count.Load() >= x.max || x.ending.Load() {
			return nil
		}
		le = &lease{limit: l, counter: c, since: since, demand: hotCalls * cost}
		if sh.m == nil {
			sh.m = make(map[keyhash.Hash]*lease)
		}
		sh.m[h] = le
		x.count.Add(1)
	}
	le.demand += cost
	le.used = now.Mono
	if le.asking || x.ending.Load() || now.Mono < le.pause && le.of(l) {
		return nil
	}
	le.asking = true
	return le.ask(h, l, true, now)
}

// renew prepares to ask for more of a lease that spend found low. What is left
// stays here.
func (x *leases) renew(h keyhash.Hash, now caudal.Instant) *wanted {
	sh := x.shard(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if le := sh.m[h]; le != nil {
		return le.ask(h, le.limit, false, now)
	}
	return nil // void meanwhile
}

// watch counts a call of a key that is not leased, and reports whether it is hot.
func (sh *leaseShard) watch(h keyhash.Hash, now caudal.Instant) (since int64, hot bool) {
	w := &sh.watching[h.Hi%leaseWatching]
	if w.key != h.Hi || now.Mono-w.since > hotSpan.Microseconds() {
		*w = watched{key: h.Hi, since: now.Mono}
	}
	w.calls++
	return w.since, w.calls >= hotCalls
}

// ask makes ready to ask: with all, what is left goes back first. The lease must
// be marked as asking.
func (le *lease) ask(h keyhash.Hash, l *caudal.Compiled, all bool, now caudal.Instant) *wanted {
	w := &wanted{hash: h, lease: le, limit: l, counter: le.counter, spent: le.spent, at: le.at}
	if all || !le.of(l) || !le.live(now) {
		w.back, le.left, le.limit = le.left, 0, l
	}
	le.spent = 0
	w.want = le.wants(now)
	le.since, le.demand, le.asked = now.Mono, 0, now.Mono
	return w
}

// wants gives how much the demand since the last time asks for.
func (le *lease) wants(now caudal.Instant) uint64 {
	elapsed := max(now.Mono-le.since, 1000)
	return min(le.demand*uint64(leaseSpan.Microseconds())/uint64(elapsed), leaseMost)
}

// granted is what the server said to one who asked.
type granted struct {
	now       int64 // the server's
	leased    uint64
	out       uint64 // what this instance holds now, as the server sees it
	ends, at  int64  // the server's
	remaining uint64
	reset     int64
}

// finish puts what was leased into the lease that was asked about. sent is from
// before it was asked.
func (x *leases) finish(w *wanted, g *granted, sent, now caudal.Instant) {
	sh := x.shard(w.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	le := w.lease
	le.asking = false
	if sh.m[w.hash] != le || x.closed.Load() {
		return // void meanwhile: what was leased counts until its end
	}
	if !le.live(now) || le.limit.Wall() && g != nil && g.leased > 0 && g.at != le.at {
		le.left = 0 // of a window that is over
	}
	if g == nil {
		le.pause = now.Mono + leasePause.Microseconds()
		return
	}
	le.beside, le.reset = g.remaining-min(g.leased, g.remaining), sent.Mono+max(g.reset-g.now, 0)
	if g.leased == 0 {
		le.low, le.pause = 0, now.Mono+leasePause.Microseconds()
		return
	}
	le.left += g.leased
	if !le.limit.Wall() {
		// What the server lost, it must not hold. What it thinks to be here beside, of
		// an answer that was lost, is reported as spent the next time.
		le.left = min(le.left, g.out-min(le.spent, g.out))
		le.spent = g.out - le.left
	}
	le.low, le.at = le.left/2, g.at
	length := g.ends - g.now
	if !le.limit.Wall() {
		length -= leaseMargin.Microseconds()
	}
	length -= length / 1000 // for a clock that is slower than the server's
	le.ends = caudal.Instant{Mono: sent.Mono + length, Wall: sent.Wall + length}
}

// sweep looks through all leases. It gives those that nobody wanted for a while, or
// hardly, and that go back; and those that would end, or are larger than the demand
// is by now, to be asked about again.
func (x *leases) sweep(now caudal.Instant, all bool) (back, again []*wanted) {
	for i := range x.shards {
		sh := &x.shards[i]
		sh.mu.Lock()
		for h, le := range sh.m {
			idle := all || now.Mono-le.used > leaseIdle.Microseconds()
			old := now.Mono-le.asked > leaseLife.Microseconds()/2
			want := le.wants(now)
			switch {
			case le.asking && all: // what comes counts until it ends
				delete(sh.m, h)
				x.count.Add(-1)
			case le.asking:
			case idle, old && want < leaseLeast:
				if w := le.ask(h, le.limit, true, now); w.back+w.spent > 0 {
					w.want = 0
					x.going.Add(1)
					back = append(back, w)
				}
				delete(sh.m, h)
				x.count.Add(-1)
			case old && le.left+le.spent > 0 && !x.ending.Load():
				le.asking = true
				again = append(again, le.ask(h, le.limit, le.left > 2*want, now))
			}
		}
		sh.mu.Unlock()
	}
	return back, again
}

// close gives everything that is to go back, after which nothing is leased.
func (x *leases) close(now caudal.Instant) (back, again []*wanted) {
	x.closed.Store(true)
	return x.sweep(now, true)
}

// asked reports whether some lease is being asked about.
func (x *leases) asked() bool {
	for i := range x.shards {
		sh := &x.shards[i]
		sh.mu.Lock()
		for _, le := range sh.m {
			if le.asking {
				sh.mu.Unlock()
				return true
			}
		}
		sh.mu.Unlock()
	}
	return false
}

// void forgets leases without giving them back, as after a reset, or when the
// server may have lost what it knew.
func (x *leases) void(which func(*lease) bool) {
	for i := range x.shards {
		sh := &x.shards[i]
		sh.mu.Lock()
		for h, le := range sh.m {
			if which(le) {
				delete(sh.m, h)
				x.count.Add(-1)
			}
		}
		sh.mu.Unlock()
	}
}
