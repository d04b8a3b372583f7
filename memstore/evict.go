package memstore

import "github.com/caudal-dev/caudal"

const (
	// victimSample is how many keys are compared to find the one to drop. With 16,
	// one that is in the best tenth is found four times in five.
	victimSample = 16
	// evictRounds bounds how many keys one call drops beyond those it needs, so
	// that a bound that was overrun by many callers at once, or by a log that
	// grew, is regained without one of them paying.
	evictRounds = 4
)

// makeRoomLocked counts new keys and the places they take in, and drops others
// while the store holds more than its bound; never slot keep of own, unless keep
// is -1. The caller holds own's lock; other shards are only tried, never waited
// for, so no two callers can wait for each other.
func (s *Store) makeRoomLocked(own *shard, at caudal.Instant, keys, places int64, keep int) {
	s.keys.Add(keys)
	over := s.places.Add(places) - s.maximum
	for round := 0; over > 0 && round < evictRounds; round++ {
		if !s.evictLocked(own, at, keep) {
			return
		}
		over = s.places.Load() - s.maximum
	}
}

// victim is the best key to drop that was seen so far.
type victim struct {
	shard   *shard
	index   int
	level   level
	freshAt int64
	seen    int
}

// evictLocked drops one key; it reports false when it found none.
func (s *Store) evictLocked(own *shard, at caudal.Instant, keep int) bool {
	var v victim
	// The shard of the best key so far stays locked until the search is over, so
	// that the index stays true.
	for n := uint64(0); n < shardCount && v.seen < victimSample; n++ {
		sh := &s.shards[(own.number+n)%shardCount]
		if sh != own && !sh.mu.TryLock() {
			continue
		}
		previous := v.shard
		if sh != own {
			keep = -1
		}
		if sh.sampleLocked(&v, at, keep) {
			// A fresh key: nothing better can come.
			v.seen = victimSample
		}
		switch {
		case v.shard != sh && sh != own:
			sh.mu.Unlock()
		case v.shard == sh && previous != nil && previous != sh && previous != own:
			previous.mu.Unlock()
		}
	}
	if v.shard == nil {
		return false
	}
	if v.freshAt > 0 {
		s.evicted[v.level].Add(1)
	}
	v.shard.dropLocked(v.index)
	if v.shard != own {
		v.shard.mu.Unlock()
	}
	return true
}

// sampleLocked looks at the keys from the shard's cursor on and puts the best to
// drop into v; it reports true for one that is fresh again, marked by freshAt 0.
func (sh *shard) sampleLocked(v *victim, at caudal.Instant, keep int) bool {
	for n := 0; n < sh.table.slots() && v.seen < victimSample; n += lookSize {
		for i, end := sh.lookLocked(); i < end; i++ {
			if i == keep || !sh.table.inUse(i) {
				continue
			}
			v.seen++
			slot := sh.table.slot(i)
			fresh := slot.freshAt()
			switch {
			case sh.freshLocked(i, at):
				*v = victim{shard: sh, index: i, seen: v.seen}
				return true
			case v.shard == nil, slot.level() < v.level, slot.level() == v.level && fresh < v.freshAt:
				*v = victim{shard: sh, index: i, level: slot.level(), freshAt: fresh, seen: v.seen}
			}
		}
	}
	return false
}
