package memstore

import (
	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

const shardCount = 1 << shardBits

const (
	// sweepEvery is how many charges of known keys go by between two looks for keys
	// that are fresh again. Every second insert looks.
	sweepEvery = 64
	// lookSize is how many slots a look takes in.
	lookSize = 8
)

// shard is a part of the store under one lock. Keys are spread over the shards by
// their hash, so two callers rarely meet, unless they ask for the same key.
type shard struct {
	mu    lock
	table table
	// ids numbers the charges, for receipts.
	ids     uint64
	attend  bool     // the journal wants to hear of this call, or has ended
	dirty   []uint64 // the journal's, here because each charge looks at it
	journal *journal // what the state file needs; nil without one
	cursor  int      // the slot to look at next
	number  uint64
	store   *Store

	logs     *logs                             // sliding logs; nil until there is one
	freed    map[keyhash.Hash][]algorithm.Turn // cancelled turns; nil until there is one
	held     map[keyhash.Hash][]algorithm.Held // turns ahead of fair queues; nil while there is none
	refunded refunded

	_ [64]byte // keeps a busy shard's lock off its neighbour's cache line
}

// takeLocked decides one call on one counter into d, which must be zero, and when
// apply is set, counts it.
func (sh *shard) takeLocked(h keyhash.Hash, l *caudal.Compiled, at caudal.Instant, cost uint32, apply bool, d *caudal.Decision) {
	if l.Algorithm() == caudal.TokenBucket {
		sh.takeBucketLocked(h, l, at, cost, apply, d)
		return
	}
	var i int
	*d, i = sh.takeOtherLocked(sh.table.find(h), h, l, at, cost, apply)
	if apply {
		sh.markLocked(i, d, h)
	}
}

// takeBucketLocked is takeLocked for the default algorithm: one look at the table,
// and one at what is found there.
func (sh *shard) takeBucketLocked(h keyhash.Hash, l *caudal.Compiled, at caudal.Instant, cost uint32, apply bool, d *caudal.Decision) {
	var state algorithm.TokenBucket
	var slot *slot
	i := sh.table.find(h)
	if i >= 0 {
		slot = sh.table.slot(i)
		state = slot.tokenBucket()
	}
	life := state.Decide(l, l.Micros(at), cost, d)
	switch {
	case !apply:
	case d.Charged:
		if slot == nil || sh.ids%sweepEvery == 0 {
			i = sh.placeLocked(i, h, l, at)
			slot = sh.table.slot(i)
		}
		slot.setTokenBucket(state)
		slot.setLife(life)
		sh.chargedLocked(i, d, h)
	case !d.Allowed && slot != nil:
		// The limit may have been made slower since the charge: what is held against
		// the key must not be swept at the time that the old one gave.
		slot.setLife(max(slot.life(), life))
		sh.markLocked(i, d, h)
	}
}

// takeOtherLocked is takeLocked for the algorithms that are not the default, on
// the slot i; it gives the slot's index, which may be new.
func (sh *shard) takeOtherLocked(i int, h keyhash.Hash, l *caudal.Compiled, at caudal.Instant, cost uint32, apply bool) (caudal.Decision, int) {
	now := l.Micros(at)
	var d caudal.Decision
	switch l.Algorithm() {
	case caudal.FixedWindow:
		var s algorithm.FixedWindow
		if i >= 0 {
			s = sh.table.slot(i).fixedWindow()
		}
		s, d = s.Take(l, now, cost)
		if d.Charged && apply {
			i = sh.placeLocked(i, h, l, at)
			sh.table.slot(i).setFixedWindow(s)
			sh.table.slot(i).setLife(now + d.ResetAfter.Microseconds() - s.Start)
		}
	case caudal.SlidingWindow:
		var s algorithm.SlidingWindow
		if i >= 0 {
			s = sh.table.slot(i).slidingWindow()
		}
		s, d = s.Take(l, now, cost)
		if d.Charged && apply {
			i = sh.placeLocked(i, h, l, at)
			sh.table.slot(i).setSlidingWindow(s)
			sh.table.slot(i).setLife(s.FreshAt(l) - s.Start)
		}
	case caudal.LeakyBucket:
		s := sh.leakyBucketLocked(i, h)
		s, d = s.Take(l, now, cost)
		if d.Charged && apply {
			i = sh.placeLocked(i, h, l, at)
			sh.setLeakyBucketLocked(i, h, l, at, s)
		} else if apply && i >= 0 {
			sh.table.slot(i).keepFor(s, l)
		}
	case caudal.SlidingLog:
		return sh.takeLogLocked(i, h, l, at, cost, apply)
	}
	return d, i
}

// markLocked gives the charge its number, or notes that the key was denied.
func (sh *shard) markLocked(i int, d *caudal.Decision, h keyhash.Hash) {
	switch {
	case d.Charged:
		sh.chargedLocked(i, d, h)
	case !d.Allowed && !d.Never && i >= 0:
		sh.changedLocked(i)
		sh.table.slot(i).setLevel(refused)
	}
}

// chargedLocked gives the charge its number.
func (sh *shard) chargedLocked(i int, d *caudal.Decision, h keyhash.Hash) {
	sh.changedLocked(i)
	sh.ids++
	d.Receipt.ID = sh.ids
	d.Receipt.Counter = [2]uint64{h.Hi, h.Lo}
	if d.Remaining == 0 {
		sh.table.slot(i).setLevel(exhausted)
	}
}

// placeLocked gives the index of the key's slot, making one when i is -1.
func (sh *shard) placeLocked(i int, h keyhash.Hash, l *caudal.Compiled, at caudal.Instant) int {
	if i >= 0 {
		if sh.ids%sweepEvery == 0 {
			sh.sweepLocked(at, i)
		}
		return i
	}
	if sh.ids%2 == 0 { // some three keys looked at for each new one
		sh.sweepLocked(at, -1)
	}
	return sh.newSlotLocked(h, l.Algorithm(), at)
}

// newSlotLocked makes a slot for a key that has none.
func (sh *shard) newSlotLocked(h keyhash.Hash, a caudal.Algorithm, at caudal.Instant) int {
	sh.store.makeRoomLocked(sh, at, 1, 1, -1)
	if sh.table.full() {
		sh.rebuildLocked()
	}
	i := sh.table.insert(h, a)
	if sh.journal != nil {
		sh.journal.placed, sh.attend = i, true
	}
	return i
}

// sweepLocked drops the keys of the next few slots that are fresh again, but not
// keep.
func (sh *shard) sweepLocked(at caudal.Instant, keep int) {
	for i, end := sh.lookLocked(); i < end; i++ {
		if i != keep && sh.table.inUse(i) && sh.freshLocked(i, at) {
			sh.dropLocked(i)
		}
	}
}

// lookLocked moves the cursor on by a few slots, round and round, and gives which.
func (sh *shard) lookLocked() (from, end int) {
	slots := sh.table.slots()
	if sh.cursor >= slots {
		sh.cursor = 0
	}
	from = sh.cursor
	sh.cursor = min(from+lookSize, slots)
	return from, sh.cursor
}

// freshLocked reports whether the key in slot i decides as one never seen.
func (sh *shard) freshLocked(i int, at caudal.Instant) bool {
	s := sh.table.slot(i)
	now := at.Mono
	if a := s.algorithm(); a == caudal.FixedWindow || a == caudal.SlidingWindow {
		now = at.Wall
	}
	return s.freshAt() <= now
}

// dropLocked forgets the key in slot i and all that is kept for it.
func (sh *shard) dropLocked(i int) {
	s := sh.table.slot(i)
	places := int64(1)
	switch s.algorithm() {
	case caudal.SlidingLog:
		places += sh.logs.drop(s.log())
	case caudal.LeakyBucket:
		h := s.hash(sh.number)
		delete(sh.freed, h)
		places += heldPlaces(sh.held[h])
		sh.dropHeldLocked(h)
	}
	if sh.journal != nil {
		places += sh.journal.drop(i, sh.table.live)
	}
	sh.table.remove(i)
	sh.store.keys.Add(-1)
	sh.store.places.Add(-places)
}

func (sh *shard) leakyBucketLocked(i int, h keyhash.Hash) algorithm.LeakyBucket {
	if i < 0 {
		return algorithm.LeakyBucket{}
	}
	b, freed := sh.table.slot(i).leakyBucket()
	if freed {
		b.Freed = sh.freed[h]
	}
	b.Held = sh.held[h]
	return b
}

func (sh *shard) setLeakyBucketLocked(i int, h keyhash.Hash, l *caudal.Compiled, at caudal.Instant, b algorithm.LeakyBucket) {
	s := sh.table.slot(i)
	if len(b.Freed) > 0 {
		if sh.freed == nil {
			sh.freed = make(map[keyhash.Hash][]algorithm.Turn)
		}
		sh.freed[h] = b.Freed
	} else if s[3]&freedFlag != 0 {
		delete(sh.freed, h)
	}
	s.setLeakyBucket(b)
	s.setLife(b.FreshAt(l) - s.at())
	if len(b.Held) > 0 || sh.held != nil {
		sh.setHeldLocked(i, h, at, b.Held)
	}
}

func (sh *shard) takeLogLocked(i int, h keyhash.Hash, l *caudal.Compiled, at caudal.Instant, cost uint32, apply bool) (caudal.Decision, int) {
	now := l.Micros(at)
	var v algorithm.SlidingLog
	if i >= 0 {
		v = sh.logs.view(sh.table.slot(i).log())
	}
	entries := len(v.Entries)
	t := v.Purge(l, now)
	d := v.Decide(l, t, now, cost)
	if !d.Charged || !apply {
		return d, i // what was purged of the view is still there
	}
	if i < 0 {
		i = sh.placeLocked(i, h, l, at)
		sh.addLogLocked(i)
	}
	s := sh.table.slot(i)
	n := s.log()
	grown := int64(0)
	if gone := entries - len(v.Entries); gone > 0 {
		sh.logs.trim(n, v, gone)
		grown = sh.logs.shrink(n)
	}
	grown += sh.logs.push(n, algorithm.Entry{At: t, Cost: cost})
	s.setLog(n, t)
	s.setLife(l.PeriodMicros())
	if grown != 0 {
		sh.store.makeRoomLocked(sh, at, 0, grown, i)
	}
	return d, i
}

// addLogLocked gives a new slot an empty log.
func (sh *shard) addLogLocked(i int) {
	if sh.logs == nil {
		sh.logs = &logs{}
	}
	sh.table.slot(i).setLog(sh.logs.add(), 0)
	sh.store.places.Add(places(0))
}
