package failover

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// turns remembers the last turn of each leaky bucket that was given through this
// instance, while it matters: until one interval behind it. It is bounded; of what
// it forgets it keeps the latest instant, and holds every bucket that it does not
// know to that.
type turns struct {
	shards    [turnShards]turnShard
	forgotten [2]atomic.Int64 // of shared turns, of local ones
}

const (
	turnShards = 16
	// maxTurns is how many buckets with a turn ahead are remembered per shard,
	// 65536 in all.
	maxTurns   = 4096
	turnSample = 16
)

type turnShard struct {
	mu sync.Mutex
	m  map[keyhash.Hash]turn
}

// turn is what is known of a bucket.
type turn struct {
	// next is the earliest instant of the next turn, by this instance's clock.
	next int64
	// instances is 0 for a turn that the shared bucket gave, else the number that
	// the local bucket was made for.
	instances int
}

func newTurns() *turns {
	t := &turns{}
	for i := range t.shards {
		t.shards[i].m = make(map[keyhash.Hash]turn)
	}
	return t
}

func (t *turns) shard(h keyhash.Hash) *turnShard { return &t.shards[h.Lo%turnShards] }

// note remembers a turn, unless a later one is known.
func (t *turns) note(h keyhash.Hash, now int64, new turn) {
	s := t.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.m[h]
	if known && old.next > new.next {
		return
	}
	if !known && len(s.m) >= maxTurns {
		t.forgetLocked(s, now)
	}
	s.m[h] = new
}

// forgetLocked makes room for one: of a sample, those that no longer matter, and
// if there are none, the one that soonest will not.
func (t *turns) forgetLocked(s *turnShard, now int64) {
	var victim keyhash.Hash
	var soonest turn
	seen, dropped := 0, false
	for h, u := range s.m {
		if u.next <= now {
			delete(s.m, h)
			dropped = true
		} else if seen == 0 || u.next < soonest.next {
			victim, soonest = h, u
		}
		if seen++; seen >= turnSample && (dropped || soonest.next > 0) {
			break
		}
	}
	if dropped {
		return
	}
	delete(s.m, victim)
	mark := &t.forgotten[min(soonest.instances, 1)]
	for old := mark.Load(); old < soonest.next && !mark.CompareAndSwap(old, soonest.next); old = mark.Load() {
	}
}

// last gives what is known of a bucket; known is false when that is nothing or
// does not matter any more.
func (t *turns) last(h keyhash.Hash, now int64) (u turn, known bool) {
	s := t.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	u, known = s.m[h]
	if known && u.next <= now {
		delete(s.m, h)
		return turn{}, false
	}
	return u, known
}

func bucketHash(c *caudal.Call) keyhash.Hash {
	return keyhash.Bytes(c.Key).Under(c.Limit.ScopeHash())
}

// carryTurns gives each call on a leaky bucket, before the shared store decides
// it, the last local turn as its least delay. It reports whether there are any
// leaky buckets.
func (s *Store) carryTurns(at caudal.Instant, calls []caudal.Call) (queues bool) {
	for i := range calls {
		c := &calls[i]
		if c.Limit.Algorithm() != caudal.LeakyBucket {
			continue
		}
		queues = true
		now := s.now(at).Mono
		u, known := s.turns.last(bucketHash(c), now)
		switch {
		case !known:
			u.next = s.turns.forgotten[1].Load()
		case u.instances == 0:
			u.next = 0 // the shared bucket knows it
		}
		c.MinDelay = max(c.MinDelay, micros(u.next-now))
	}
	return queues
}

// holdBack gives a local call on a leaky bucket the least delay that keeps its
// turn behind the shared ones. The call names the shared limit.
func (s *Store) holdBack(now int64, c *caudal.Call, instances int) time.Duration {
	u, known := s.turns.last(bucketHash(c), now)
	switch {
	case !known:
		u.next = s.turns.forgotten[0].Load()
	case u.instances == instances:
		u.next = 0 // the local bucket knows its own turns, and which were given back
	}
	if instances > 1 && s.open.Load() {
		// Others may have filled the queue until the store went. Before it is known
		// to be gone, one call that was not answered in time must not be held up by
		// a whole queue: it gets a turn behind those that this instance knows of.
		u.next = max(u.next, s.lostAt.Load()+longest(c.Limit))
	}
	return max(c.MinDelay, micros(u.next-now))
}

// noteShared remembers what the decisions of the shared store say of its leaky
// buckets: every one of them tells the last turn that was given to anybody. The
// calls are as they were asked; one that carried local turns and was not charged
// has not handed them over.
func (s *Store) noteShared(at caudal.Instant, calls []caudal.Call, out []caudal.Decision) {
	now := s.now(at).Mono
	for i := range calls {
		l, d := calls[i].Limit, &out[i]
		if l.Algorithm() != caudal.LeakyBucket || d.ResetAfter == 0 || d.Limit == 0 {
			continue
		}
		if calls[i].MinDelay > 0 && !d.Charged {
			continue
		}
		// Everything remains again when a call of cost Limit, whose last turn is
		// Limit intervals behind the last one given, is within the longest wait.
		next := now + d.ResetAfter.Microseconds() + longest(l) - span(l, d.Limit-1)
		s.turns.note(bucketHash(&calls[i]), now, turn{next: next})
	}
}

// noteLocal remembers the turns that were just given here; calls name the shared
// limits.
func (s *Store) noteLocal(at caudal.Instant, calls []caudal.Call, out []caudal.Decision, instances int) {
	for i := range calls {
		d := &out[i]
		if !d.Charged || calls[i].Limit.Algorithm() != caudal.LeakyBucket {
			continue
		}
		local := d.Receipt.Limit
		next := at.Mono + d.Delay.Microseconds() + span(local, uint64(d.Receipt.Cost))
		if instances > 1 {
			// The others notice that the store is back up to a probe later, and their
			// last local turns lie behind ours by so much.
			next += s.o.ProbeInterval.Microseconds()
		}
		s.turns.note(bucketHash(&calls[i]), at.Mono, turn{next, instances})
	}
}

// span gives the length of n intervals in microseconds, rounded up.
func span(l *caudal.Compiled, n uint64) int64 {
	hi, lo := bits.Mul64(n, uint64(l.PeriodMicros()))
	if hi >= l.Requests() {
		return caudal.MaxInstant
	}
	q, r := bits.Div64(hi, lo, l.Requests())
	if r > 0 {
		q++
	}
	return int64(min(q, caudal.MaxInstant))
}

// longest gives how far ahead of a caller the shared bucket gives turns.
func longest(l *caudal.Compiled) int64 {
	if l.Requests() == 0 {
		return 0
	}
	queue := span(l, l.Queue())
	if w := l.MaxWaitMicros(); w > 0 {
		return min(w, queue)
	}
	return queue
}

func micros(us int64) time.Duration {
	const most = int64(1<<63-1) / 1000
	return time.Duration(min(max(us, 0), most)) * time.Microsecond
}
