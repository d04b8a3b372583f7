package memstore

import (
	"context"
	"math"
	"sync"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// request is a batch being decided. They are pooled: a decision allocates
// nothing.
type request struct {
	hashes []keyhash.Hash
	shards [shardCount / 64]uint64 // which shards are locked, one bit each
}

var requests = sync.Pool{New: func() any { return new(request) }}

// Take decides a batch; see caudal.Store.
func (s *Store) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	at = s.now(at)
	r := requests.Get().(*request)
	defer requests.Put(r)
	r.hashes = r.hashes[:0]
	for i := range calls {
		r.hashes = append(r.hashes, s.hashBytes(calls[i].Limit, calls[i].Key))
	}
	s.lock(r)
	defer s.unlock(r)
	if s.file != nil && s.endedLocked(r) {
		return errClosed()
	}
	if len(calls) > 0 && (calls[0].Alone || len(calls) == 1 && calls[0].Mode == caudal.Enforce) {
		for i := range calls {
			s.takeLocked(r.hashes[i], &calls[i], at, calls[i].Cost, true, &out[i])
		}
		return nil
	}
	s.decideLocked(r, at, calls, out)
	verdict := caudal.Judge(calls, out)
	if verdict.Allowed {
		s.chargeLocked(r, at, calls, out)
	} else {
		s.denyLocked(r, at, calls, out)
	}
	return nil
}

// lock takes the locks of all the shards of a request, in the order of their
// numbers, so that no two requests wait for each other.
func (s *Store) lock(r *request) {
	for _, h := range r.hashes {
		n := h.Hi >> (64 - shardBits)
		r.shards[n/64] |= 1 << (n % 64)
	}
	s.eachShard(r, (*lock).Lock)
}

func (s *Store) unlock(r *request) {
	s.eachShard(r, (*lock).Unlock)
	clear(r.shards[:])
}

func (s *Store) eachShard(r *request, f func(*lock)) {
	for w, set := range r.shards {
		for bit := 0; set != 0; bit, set = bit+1, set>>1 {
			if set&1 != 0 {
				f(&s.shards[w*64+bit].mu)
			}
		}
	}
}

// takeLocked decides one call of a request.
func (s *Store) takeLocked(h keyhash.Hash, c *caudal.Call, at caudal.Instant, cost uint32, apply bool, out *caudal.Decision) {
	*out = caudal.Decision{}
	sh := s.shardOf(h)
	switch {
	case (c.MinDelay > 0 || len(c.Fair) > 0) && c.Limit.Algorithm() == caudal.LeakyBucket:
		sh.takeQueueLocked(h, c, at, cost, apply, out)
	case counting(c):
		sh.takeCountingLocked(h, c, at, cost, apply, out)
	default:
		sh.takeLocked(h, c.Limit, at, cost, apply, out)
	}
	if sh.attend {
		sh.identifyLocked(c.Limit, c.Key, at)
	}
}

// takeQueueLocked is takeLocked for a call on a leaky bucket with a least delay, or
// with a share of its own.
func (sh *shard) takeQueueLocked(h keyhash.Hash, c *caudal.Call, at caudal.Instant, cost uint32, apply bool, out *caudal.Decision) {
	l, i := c.Limit, sh.table.find(h)
	now := l.Micros(at)
	s := sh.leakyBucketLocked(i, h)
	if c.MinDelay > 0 {
		s = s.NotBefore(l, now, now+c.MinDelay.Microseconds())
	}
	s, *out = s.TakeFair(l, now, cost, sh.store.owner(c))
	if out.Charged && apply {
		i = sh.placeLocked(i, h, l, at)
		sh.setLeakyBucketLocked(i, h, l, at, s)
	} else if apply && i >= 0 {
		sh.table.slot(i).keepFor(s, l)
	}
	if apply {
		sh.markLocked(i, out, h)
	}
}

// counting reports whether a call is counted also when it is denied.
func counting(c *caudal.Call) bool {
	return c.CountDenied && c.Limit.Algorithm() == caudal.FixedWindow
}

// takeCountingLocked is takeLocked for such a call.
func (sh *shard) takeCountingLocked(h keyhash.Hash, c *caudal.Call, at caudal.Instant, cost uint32, apply bool, out *caudal.Decision) {
	l, i := c.Limit, sh.table.find(h)
	now := l.Micros(at)
	var s algorithm.FixedWindow
	if i >= 0 {
		s = sh.table.slot(i).fixedWindow()
	}
	next, d := s.TakeCounting(l, now, cost)
	*out = d
	if !apply {
		return
	}
	if next != s {
		i = sh.placeLocked(i, h, l, at)
		sh.table.slot(i).setFixedWindow(next)
		sh.table.slot(i).setLife(now + d.ResetAfter.Microseconds() - next.Start)
		sh.changedLocked(i)
	}
	sh.markLocked(i, out, h)
}

// decideLocked asks each limit, as if nothing else were there but the calls that
// share its counter: those are asked for together.
func (s *Store) decideLocked(r *request, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) {
	for i := range calls {
		cost := r.sharedCost(calls, i)
		if cost <= math.MaxUint32 {
			s.takeLocked(r.hashes[i], &calls[i], at, uint32(cost), false, &out[i])
			continue
		}
		// More than any limit: a peek tells the rest.
		s.takeLocked(r.hashes[i], &calls[i], at, 0, false, &out[i])
		out[i].Allowed, out[i].Never, out[i].RetryAfter = false, true, 0
	}
}

// sharedCost is what the request asks of the counter of call i. Calls that are
// not enforced do not weigh on those that are.
func (r *request) sharedCost(calls []caudal.Call, i int) uint64 {
	sum := uint64(0)
	for j := range calls {
		if r.hashes[j] == r.hashes[i] && (calls[j].Mode != caudal.Shadow || calls[i].Mode == caudal.Shadow) {
			sum += uint64(calls[j].Cost)
		}
	}
	return sum
}

// chargeLocked counts the calls of a request that passes: enforced limits first,
// then the others where they have room.
func (s *Store) chargeLocked(r *request, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) {
	for _, shadow := range [2]bool{false, true} {
		for i := range calls {
			if (calls[i].Mode != caudal.Enforce) != shadow {
				continue
			}
			s.takeLocked(r.hashes[i], &calls[i], at, calls[i].Cost, true, &out[i])
		}
	}
	for i := range calls { // what remains is what remains after the whole request
		for j := i + 1; j < len(calls); j++ {
			if r.hashes[j] == r.hashes[i] && out[i].Charged && out[j].Charged {
				out[i].Remaining, out[i].ResetAfter = out[j].Remaining, out[j].ResetAfter
			}
		}
	}
}

// denyLocked counts nothing. Limits that deny keep their decision, those with
// room tell what remains without the request.
func (s *Store) denyLocked(r *request, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) {
	for i := range calls {
		if out[i].Allowed {
			s.takeLocked(r.hashes[i], &calls[i], at, 0, false, &out[i])
			continue
		}
		h := r.hashes[i]
		sh := s.shardOf(h)
		if counting(&calls[i]) {
			var counted caudal.Decision
			sh.takeCountingLocked(h, &calls[i], at, calls[i].Cost, true, &counted)
			if sh.attend {
				sh.identifyLocked(calls[i].Limit, calls[i].Key, at)
			}
			out[i].Remaining, out[i].ResetAfter = counted.Remaining, counted.ResetAfter
		}
		sh.markLocked(sh.table.find(h), &out[i], h)
	}
}
