package memstore

import (
	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// restoreLocked puts a state that was read into slot i. shift is added to what is
// measured in elapsed time.
func (sh *shard) restoreLocked(i int, h keyhash.Hash, s *loadedState, shift int64) {
	slot := sh.table.slot(i)
	if slot.algorithm() == caudal.SlidingLog { // an older state of it
		sh.store.places.Add(-sh.logs.drop(slot.log()))
	}
	slot[1] = slot[1]&^(1<<metaBits-1) | uint64(s.meta)
	slot[2], slot[3] = s.words[0], s.words[1]
	switch s.algorithm() {
	case caudal.TokenBucket, caudal.SlidingLog:
		at := min(max(slot.at()+shift, 0), instantCap)
		slot[3] = slot[3]&(1<<atShift-1) | uint64(at)<<atShift
	case caudal.LeakyBucket:
		slot[3] = slot[3]&(1<<lastShift-1)&^freedFlag | uint64(slot.at()+shift)<<lastShift
		sh.restoreTurnsLocked(slot, h, s, shift)
	}
	if s.kind == recordLog {
		slot[2] = 0
		sh.restoreLogLocked(i, s, shift)
	}
}

func (sh *shard) restoreTurnsLocked(slot *slot, h keyhash.Hash, s *loadedState, shift int64) {
	delete(sh.freed, h)
	if len(s.turns) == 0 {
		return
	}
	for n := range s.turns {
		s.turns[n].Micros += shift
	}
	l := slot.level()
	b, _ := slot.leakyBucket()
	b.Freed = s.turns
	if sh.freed == nil {
		sh.freed = map[keyhash.Hash][]algorithm.Turn{}
	}
	sh.freed[h] = b.Freed
	slot.setLeakyBucket(b)
	slot.setLevel(l)
}

func (sh *shard) restoreLogLocked(i int, s *loadedState, shift int64) {
	slot := sh.table.slot(i)
	word := slot[3]
	sh.addLogLocked(i)
	n := sh.table.slot(i).log()
	grown := int64(0)
	for _, e := range s.entries {
		e.At = min(max(e.At+shift, 0), instantCap)
		grown += sh.logs.push(n, e)
	}
	slot[3] = word
	sh.store.places.Add(grown)
}

// dropFresh drops what would decide as a key never seen; it gives how many.
func (s *Store) dropFresh(at caudal.Instant) (dropped int) {
	for n := range s.shards {
		sh := &s.shards[n]
		sh.mu.Lock()
		for i := range sh.table.slots() {
			if sh.table.inUse(i) && sh.freshLocked(i, at) {
				sh.dropLocked(i)
				dropped++
			}
		}
		sh.mu.Unlock()
	}
	return dropped
}
