package memstore

import (
	"github.com/caudal-dev/caudal"
)

// identifyLocked tells the journal what the key that this call has made is called.
// It is kept out of the callers, so that they stay small without a state file.
//
//go:noinline
func (sh *shard) identifyLocked(l *caudal.Compiled, key []byte, at caudal.Instant) {
	sh.nameLocked(l.Scope(), key, at)
}

func (sh *shard) nameLocked(scope string, key []byte, at caudal.Instant) {
	sh.attend = false
	if sh.journal.placed < 0 {
		return // dropped again already
	}
	if i, places := sh.journal.identify(scope, key); places > 0 {
		sh.store.makeRoomLocked(sh, at, 0, places, i)
	}
}

// endedLocked reports whether one of the shards of a request has been written
// for the last time.
func (s *Store) endedLocked(r *request) bool {
	for _, h := range r.hashes {
		if s.shardOf(h).journal.closed {
			return true
		}
	}
	return false
}
