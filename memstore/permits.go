package memstore

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// permitShards is how many locks permits are spread over: one bit each in a word,
// so that a batch locks its shards in the order of their numbers.
const permitShards = 64

// permits counts calls under way. Each key holds only a number; the permits
// themselves stand in a heap by when they expire, so that those whose holder died
// are found without a timer and without looking at the others. At most as many are
// held as the store may hold keys: at the bound each new one drops the permit that
// is the first to expire, which is the one whose holder was silent longest.
type permits struct {
	most   int64 // permits held at once
	held   atomic.Int64
	shards [permitShards]permitShard
}

type permitShard struct {
	mu sync.Mutex
	// inUse is how many permits each key has; a key with none is not in it.
	inUse   map[keyhash.Hash]uint64
	entries []permit
	free    []uint32 // entries that hold no permit
	soonest []uint32 // heap of entries that do, the first to expire on top
	serial  uint32   // of the last permit, in the upper half of its ID
	started bool

	_ [64]byte // the next shard's lock is on another cache line
}

// permit is one that is held; the zero permit is a free entry.
type permit struct {
	key     keyhash.Hash
	id      uint64 // serial and index: a copy of an old permit finds another one
	expires int64  // monotonic microseconds
	place   uint32 // in soonest
}

var _ caudal.PermitStore = (*Store)(nil)

func (s *Store) hashPermit(l *caudal.CompiledConcurrency, key []byte) keyhash.Hash {
	if len(s.seed) > 0 {
		return s.seededHash(l.Scope(), key)
	}
	return keyhash.Bytes(key).Under(l.ScopeHash())
}

func (p *permits) of(h keyhash.Hash) *permitShard { return &p.shards[h.Hi>>(64-6)] }

// Acquire takes permits; see caudal.PermitStore. It is one step, also for several
// limits, and allocates nothing once the store has held as many permits before.
func (s *Store) Acquire(ctx context.Context, at caudal.Instant, calls []caudal.PermitCall, out []caudal.Grant) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	now := clampMicros(s.now(at))
	var locked uint64
	for i := range calls {
		h := s.hashPermit(calls[i].Limit, calls[i].Key)
		out[i] = caudal.Grant{Max: calls[i].Limit.Max(), Permit: caudal.Permit{Counter: [2]uint64{h.Hi, h.Lo}}}
		locked |= 1 << (h.Hi >> (64 - 6))
	}
	for m := locked; m != 0; m &= m - 1 {
		sh := &s.permits.shards[bits.TrailingZeros64(m)]
		sh.mu.Lock()
		s.permits.expireLocked(sh, now)
	}
	s.permits.acquireLocked(calls, out, now)
	for m := locked; m != 0; m &= m - 1 {
		s.permits.shards[bits.TrailingZeros64(m)].mu.Unlock()
	}
	return nil
}

// acquireLocked decides with the shards of all calls locked. Calls that share a
// counter find what those before them took.
func (p *permits) acquireLocked(calls []caudal.PermitCall, out []caudal.Grant, now int64) {
	passes := true
	for i := range calls {
		g := &out[i]
		h := keyhash.Hash{Hi: g.Permit.Counter[0], Lo: g.Permit.Counter[1]}
		sh := p.of(h)
		before := sh.inUse[h]
		g.Allowed = calls[i].Peek || before < g.Max
		if g.Allowed && !calls[i].Peek {
			g.Permit.ID = p.addLocked(sh, h, now+calls[i].Limit.Lease().Microseconds())
			g.Permit.Limit, g.Acquired = calls[i].Limit, true
		}
		passes = passes && (g.Allowed || calls[i].Shadow)
	}
	for i := range out[:len(calls)] {
		g := &out[i]
		if g.Acquired && !passes {
			p.dropLocked(p.of(hashOf(g.Permit)), g.Permit)
			g.Acquired = false
		}
	}
	for i := range out[:len(calls)] {
		g := &out[i]
		h := hashOf(g.Permit)
		g.InUse = p.of(h).inUse[h]
		if !g.Acquired {
			g.Permit = caudal.Permit{}
		}
	}
}

func hashOf(p caudal.Permit) keyhash.Hash { return keyhash.Hash{Hi: p.Counter[0], Lo: p.Counter[1]} }

// Renew lets permits last another lease; see caudal.PermitStore.
func (s *Store) Renew(ctx context.Context, at caudal.Instant, held []caudal.Permit, still []bool) error {
	return s.eachPermit(ctx, at, held, still, func(sh *permitShard, p caudal.Permit, now int64) bool {
		i, ok := sh.findLocked(p)
		if ok {
			// Never sooner than it would: a clock that lags takes nothing away.
			sh.entries[i].expires = max(sh.entries[i].expires, now+p.Limit.Lease().Microseconds())
			sh.downLocked(sh.entries[i].place)
		}
		return ok
	})
}

// Release gives permits back; see caudal.PermitStore.
func (s *Store) Release(ctx context.Context, at caudal.Instant, held []caudal.Permit, was []bool) error {
	return s.eachPermit(ctx, at, held, was, func(sh *permitShard, p caudal.Permit, _ int64) bool {
		return s.permits.dropLocked(sh, p)
	})
}

func (s *Store) eachPermit(ctx context.Context, at caudal.Instant, held []caudal.Permit, was []bool, f func(*permitShard, caudal.Permit, int64) bool) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	now := clampMicros(s.now(at))
	for i, p := range held {
		ok := false
		if p.Limit != nil {
			sh := s.permits.of(hashOf(p))
			sh.mu.Lock()
			s.permits.expireLocked(sh, now)
			ok = f(sh, p, now)
			sh.mu.Unlock()
		}
		if was != nil {
			was[i] = ok
		}
	}
	return nil
}

func clampMicros(at caudal.Instant) int64 { return min(max(at.Mono, 0), caudal.MaxInstant) }

// Permits gives how many permits are held, expired ones that no call has come
// across yet included.
func (s *Store) Permits() int64 { return s.permits.held.Load() }

// addLocked makes a permit and gives its ID.
func (p *permits) addLocked(sh *permitShard, h keyhash.Hash, expires int64) uint64 {
	if !sh.started {
		sh.started, sh.serial = true, rand.Uint32()
		sh.inUse = make(map[keyhash.Hash]uint64)
	}
	if len(sh.soonest) > 0 && p.held.Load() >= p.most {
		p.removeLocked(sh, sh.soonest[0])
	}
	var i uint32
	if n := len(sh.free); n > 0 {
		i, sh.free = sh.free[n-1], sh.free[:n-1]
	} else {
		i = uint32(len(sh.entries))
		sh.entries = append(sh.entries, permit{})
	}
	sh.serial++
	id := uint64(sh.serial)<<32 | uint64(i)
	sh.entries[i] = permit{key: h, id: id, expires: expires, place: uint32(len(sh.soonest))}
	sh.soonest = append(sh.soonest, i)
	sh.upLocked(sh.entries[i].place)
	sh.inUse[h]++
	p.held.Add(1)
	return id
}

// findLocked gives the entry of a permit that is held.
func (sh *permitShard) findLocked(p caudal.Permit) (uint32, bool) {
	i := uint32(p.ID)
	if p.ID == 0 || int(i) >= len(sh.entries) {
		return 0, false
	}
	e := &sh.entries[i]
	return i, e.id == p.ID && e.key == hashOf(p)
}

// dropLocked ends a permit and reports whether it was held.
func (p *permits) dropLocked(sh *permitShard, held caudal.Permit) bool {
	i, ok := sh.findLocked(held)
	if ok {
		p.removeLocked(sh, i)
	}
	return ok
}

// expireLocked ends the permits whose lease is over.
func (p *permits) expireLocked(sh *permitShard, now int64) {
	for len(sh.soonest) > 0 && sh.entries[sh.soonest[0]].expires <= now {
		p.removeLocked(sh, sh.soonest[0])
	}
}

// keptEntries is how many free entries an idle shard keeps the memory of.
const keptEntries = 1024

func (p *permits) removeLocked(sh *permitShard, i uint32) {
	e := &sh.entries[i]
	if n := sh.inUse[e.key]; n > 1 {
		sh.inUse[e.key] = n - 1
	} else {
		delete(sh.inUse, e.key)
	}
	last := uint32(len(sh.soonest) - 1)
	place := e.place
	sh.swapLocked(place, last)
	sh.soonest = sh.soonest[:last]
	*e = permit{}
	if place < last {
		sh.upLocked(place)
		sh.downLocked(place)
	}
	sh.free = append(sh.free, i)
	p.held.Add(-1)
	if last == 0 && len(sh.entries) > keptEntries {
		sh.entries, sh.free, sh.soonest = nil, nil, nil
		sh.inUse = make(map[keyhash.Hash]uint64) // a map that was large stays large
	}
}

func (sh *permitShard) swapLocked(a, b uint32) {
	h := sh.soonest
	h[a], h[b] = h[b], h[a]
	sh.entries[h[a]].place, sh.entries[h[b]].place = a, b
}

func (sh *permitShard) soonerLocked(a, b uint32) bool {
	return sh.entries[sh.soonest[a]].expires < sh.entries[sh.soonest[b]].expires
}

// upLocked moves an entry that may expire sooner than those above it.
func (sh *permitShard) upLocked(i uint32) {
	for i > 0 && sh.soonerLocked(i, (i-1)/2) {
		sh.swapLocked(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

// downLocked moves an entry that may expire later than those below it.
func (sh *permitShard) downLocked(i uint32) {
	n := uint32(len(sh.soonest))
	for {
		child := 2*i + 1
		if child >= n {
			return
		}
		if child+1 < n && sh.soonerLocked(child+1, child) {
			child++
		}
		if !sh.soonerLocked(child, i) {
			return
		}
		sh.swapLocked(i, child)
		i = child
	}
}
