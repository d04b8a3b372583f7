package memstore

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// journal is what a shard notes for the state file; shards of stores without one
// have none. Its fields are guarded by the shard's lock.
//
// A key is known in the file by a number that is free again when the key goes.
// What the key is called is kept here, since a hash does not tell, and is written
// once, before the key's first state.
type journal struct {
	shard *shard
	dirty []uint64 // one bit per slot: its state is newer than what is written
	ids   []uint32 // one per slot: the key's number, and unwritten; 0 for none

	placed   int // the slot that this call made and that has no name yet; -1 for none
	rebuilds int // of the table: slots have moved
	closed   bool

	names   names
	gone    []uint32 // numbers whose keys were dropped since the last write
	renewed bool     // gone has become too long: the shard must be written whole
	scope   string   // the last one seen, and its number
	scopeID uint32
	scopes  *scopes
}

// unwritten marks a key whose name is not in the file yet.
const unwritten = 1 << 31

// maxGone bounds how many dropped keys a shard remembers while nothing can be
// written, beyond as many as it holds.
const maxGone = 4096

// freeName is how long a key's name may be without counting for more than one
// key of the bound; each nameUnit beyond counts for another.
const (
	freeName = 64
	nameUnit = 32
)

func newJournal(sh *shard, s *scopes) *journal { return &journal{shard: sh, placed: -1, scopes: s} }

// changedLocked notes that the state in slot i is newer than what is written.
func (sh *shard) changedLocked(i int) {
	// A hot key's bit is nearly always set: writing it again would take the cache
	// line from the other processors.
	if w := i >> 6; w < len(sh.dirty) && sh.dirty[w]>>(i&63)&1 == 0 {
		sh.dirty[w] |= 1 << (i & 63)
	}
}

// identify names the key of a slot that this call has made, if it has made one.
// It gives by how many places the key is larger than its slot.
func (j *journal) identify(scope string, key []byte) (i int, places int64) {
	i, j.placed = j.placed, -1
	if j.scope != scope {
		j.scope, j.scopeID = scope, j.scopes.number(scope)
	}
	id, ok := j.names.add(j.scopeID, key)
	if !ok {
		return i, 0 // it is not written; the next process will not know the key
	}
	j.ids[i] = id | unwritten
	j.dirty[i>>6] |= 1 << (i & 63)
	return i, namePlaces(len(key))
}

func namePlaces(length int) int64 { return int64(max(0, length-freeName+nameUnit-1) / nameUnit) }

// drop forgets the key in slot i; it gives the places that its name took.
func (j *journal) drop(i, live int) int64 {
	id := j.ids[i]
	j.ids[i] = 0
	j.dirty[i>>6] &^= 1 << (i & 63)
	if j.placed == i {
		j.placed = -1
	}
	if id == 0 {
		return 0
	}
	if id&unwritten == 0 && !j.renewed {
		j.gone = append(j.gone, id)
		if len(j.gone) > live+maxGone {
			j.gone, j.renewed = nil, true
		}
	}
	return namePlaces(j.names.drop(id &^ unwritten))
}

// rebuildLocked makes room in the table, and lets the journal follow.
func (sh *shard) rebuildLocked() {
	j := sh.journal
	if j == nil {
		sh.table.rebuild(sh.number, nil)
		return
	}
	ids, dirty := j.ids, j.dirty
	j.ids, j.dirty = nil, nil
	sh.table.rebuild(sh.number, func(from, to int) {
		if j.ids == nil {
			j.size(sh.table.slots())
		}
		j.ids[to] = ids[from]
		j.dirty[to>>6] |= dirty[from>>6] >> (from & 63) & 1 << (to & 63)
	})
	if j.ids == nil {
		j.size(sh.table.slots())
	}
	j.rebuilds++
}

func (j *journal) size(slots int) {
	j.ids, j.dirty = make([]uint32, slots), make([]uint64, (slots+63)/64)
	j.shard.dirty = j.dirty
}

// renew makes the whole shard unwritten.
func (j *journal) renew() {
	j.gone, j.renewed = nil, false
	for i, id := range j.ids {
		if id != 0 {
			j.ids[i] = id | unwritten
			j.dirty[i>>6] |= 1 << (i & 63)
		}
	}
}

// nextDirty gives the first slot from i on that is to be written, or -1.
func (j *journal) nextDirty(i int) int {
	for w := i >> 6; w < len(j.dirty); w++ {
		set := j.dirty[w]
		if w == i>>6 {
			set &= math.MaxUint64 << (i & 63)
		}
		if set != 0 {
			return w<<6 + bits.TrailingZeros64(set)
		}
	}
	return -1
}

// names keeps what keys are called, without a pointer for each: a number stands
// for a place in one piece of memory.
type names struct {
	at      []uint32 // by number; number 0 is none
	free    []uint32 // numbers not in use
	memory  []byte   // scope, length, key; each number's after another's
	garbage int      // bytes of memory that no number stands for
}

// add keeps a name; it reports false where there is no room for more.
func (n *names) add(scope uint32, key []byte) (id uint32, ok bool) {
	if n.garbage > len(n.memory)/2+1024 {
		n.compact()
	}
	if uint64(len(n.memory))+uint64(len(key))+2*binary.MaxVarintLen64 > math.MaxUint32 {
		return 0, false
	}
	if len(n.at) == 0 {
		n.at = append(n.at, 0)
	}
	if last := len(n.free) - 1; last >= 0 {
		id, n.free = n.free[last], n.free[:last]
	} else {
		id, n.at = uint32(len(n.at)), append(n.at, 0)
	}
	n.at[id] = uint32(len(n.memory))
	n.memory = binary.AppendUvarint(n.memory, uint64(scope))
	n.memory = binary.AppendUvarint(n.memory, uint64(len(key)))
	n.memory = append(n.memory, key...)
	return id, true
}

// of gives the bytes that are kept for a number, as they are written, and the
// length of the key at their end.
func (n *names) of(id uint32) (record []byte, key int) {
	b := n.memory[n.at[id]:]
	_, a := binary.Uvarint(b)
	length, c := binary.Uvarint(b[a:])
	return b[:a+c+int(length)], int(length)
}

// drop forgets a name and gives its length.
func (n *names) drop(id uint32) int {
	record, key := n.of(id)
	n.garbage += len(record)
	n.at[id] = math.MaxUint32
	n.free = append(n.free, id)
	if len(n.free) == len(n.at)-1 { // nothing is left: all memory goes
		*n = names{}
	}
	return key
}

// compact moves what is in use together.
func (n *names) compact() {
	old := names{at: slices.Clone(n.at), memory: n.memory}
	memory := make([]byte, 0, (len(n.memory)-n.garbage)*5/4)
	for id := 1; id < len(n.at); id++ {
		if old.at[id] != math.MaxUint32 {
			record, _ := old.of(uint32(id))
			n.at[id] = uint32(len(memory))
			memory = append(memory, record...)
		}
	}
	n.memory, n.garbage = memory, 0
}

// scopes numbers the scopes of a process. There are as many as rules have limits.
type scopes struct {
	mu      sync.Mutex
	numbers map[string]uint32
	names   []string
}

func (s *scopes) number(scope string) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.numbers[scope]
	if !ok {
		if s.numbers == nil {
			s.numbers = make(map[string]uint32)
		}
		n = uint32(len(s.names))
		s.numbers[scope] = n
		s.names = append(s.names, scope)
	}
	return n
}

// from gives the scopes from number n on.
func (s *scopes) from(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[n:]
}
