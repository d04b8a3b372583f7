package memstore

import (
	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// Who waits in a fair queue is kept beside the slots, for as long as somebody does,
// and not in a state file: calls that waited have gone with their process. A limit
// that is not fair costs nothing but the look whether any queue is.

// owner gives the hash under which a fair queue knows the caller; 0 is nobody.
func (s *Store) owner(c *caudal.Call) uint64 {
	if len(c.Fair) == 0 {
		return 0
	}
	return max(s.hashBytes(c.Limit, c.Fair).Lo, 1)
}

// heldPlaces is what the turns of a fair queue take of the store's bound, in slots.
func heldPlaces(held []algorithm.Held) int64 { return int64(len(held)+1) / 2 }

// setHeldLocked keeps whose the turns are that lie ahead in the queue of slot i.
func (sh *shard) setHeldLocked(i int, h keyhash.Hash, at caudal.Instant, held []algorithm.Held) {
	grown := heldPlaces(held) - heldPlaces(sh.held[h])
	if len(held) == 0 {
		sh.dropHeldLocked(h)
	} else {
		if sh.held == nil {
			sh.held = make(map[keyhash.Hash][]algorithm.Held)
		}
		sh.held[h] = held
	}
	if grown > 0 {
		sh.store.makeRoomLocked(sh, at, 0, grown, i)
	} else {
		sh.store.places.Add(grown)
	}
}

func (sh *shard) dropHeldLocked(h keyhash.Hash) {
	if delete(sh.held, h); len(sh.held) == 0 {
		sh.held = nil
	}
}
