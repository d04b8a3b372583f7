package memstore

import (
	"math/bits"

	"github.com/caudal-dev/caudal/internal/keyhash"
)

// table is an open-addressing hash table of slots in groups of eight. A group
// begins with a word of tags, one byte for each of its slots, so that a lookup
// reads that word and then, nearly always, just the one slot that it wants, on
// the same page of memory: with millions of keys it is not the cache misses that
// cost most but the misses of the processor's page table cache.
//
// The number of groups need not be a power of two: it grows by a quarter, which
// keeps between 0.7 and 0.875 of the slots in use.
type table struct {
	words  []uint64 // groups, each of groupWords
	groups int
	live   int // slots in use
	dead   int // slots deleted but not yet reusable as the end of a search
}

const (
	groupSize  = 8
	groupWords = 1 + groupSize*len(slot{})

	tagEmpty = 0x00
	tagDead  = 0x01
	tagInUse = 0x80 // with 7 bits of the hash

	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

func tagOf(h keyhash.Hash) uint64 { return tagInUse | h.Hi&0x7f }

// slot gives slot i, which is slot i%8 of group i/8.
func (t *table) slot(i int) *slot {
	o := i/groupSize*groupWords + 1 + i%groupSize*len(slot{})
	return (*slot)(t.words[o : o+len(slot{})])
}

// slots is how many there are, in use or not.
func (t *table) slots() int { return t.groups * groupSize }

// tags gives a group's word of tags.
func (t *table) tags(g int) *uint64 { return &t.words[g*groupWords] }

// home gives the group at which the search for a key starts: the hash scaled to
// the number of groups.
func (t *table) home(h keyhash.Hash) int {
	hi, _ := bits.Mul64(h.Lo, uint64(t.groups))
	return int(hi)
}

// find gives the index of the key's slot, or -1.
func (t *table) find(h keyhash.Hash) int {
	if t.groups == 0 {
		return -1
	}
	tag := tagOf(h) * lowBits
	for g := t.home(h); ; {
		tags := *t.tags(g)
		// Bytes equal to the tag become zero; the subtraction then sets their high
		// bit. A byte above an equal one may be reported too: the key decides.
		x := tags ^ tag
		for m := (x - lowBits) & ^x & highBits; m != 0; m &= m - 1 {
			i := g*groupSize + bits.TrailingZeros64(m)/8
			if t.slot(i).is(h) {
				return i
			}
		}
		// An empty byte, 0x00, ends the search. Adding 0x7f to the low seven bits
		// carries into the high bit unless they are zero, and never further.
		if ^((tags&^highBits+^uint64(highBits))|tags)&highBits != 0 {
			return -1
		}
		if g++; g == t.groups {
			g = 0
		}
	}
}

// insert gives the index of a new slot for a key that is not there. The table
// must not be full: see full.
func (t *table) insert(h keyhash.Hash) int {
	for g := t.home(h); ; {
		tags := t.tags(g)
		if m := ^*tags & highBits; m != 0 {
			shift := bits.TrailingZeros64(m) &^ 7
			if *tags>>shift&0xff == tagDead {
				t.dead--
			}
			*tags = *tags&^(0xff<<shift) | tagOf(h)<<shift
			t.live++
			return g*groupSize + shift/8
		}
		if g++; g == t.groups {
			g = 0
		}
	}
}

// full reports whether the table must be rebuilt before an insert.
func (t *table) full() bool { return t.live+t.dead >= t.groups*(groupSize-1) }

// inUse reports whether slot i holds a key.
func (t *table) inUse(i int) bool {
	return *t.tags(i / groupSize)>>(i%groupSize*8)&tagInUse != 0
}

// remove deletes slot i. Where the group has an empty slot no search goes past
// it, and the slot is empty at once; otherwise it stays dead until a rebuild or
// an insert takes it.
func (t *table) remove(i int) {
	g, shift := i/groupSize, i%groupSize*8
	tags := *t.tags(g) &^ (0xff << shift)
	if ^((tags&^highBits+^uint64(highBits))|tags)&highBits == 0xff<<shift&highBits {
		// The slot itself is the only empty one.
		tags |= tagDead << shift
		t.dead++
	}
	*t.tags(g) = tags
	*t.slot(i) = slot{}
	t.live--
}

// rebuild makes room: it moves what is in use to a table sized for it, and tells
// moved of each slot, unless that is nil.
func (t *table) rebuild(shard uint64, moved func(from, to int)) {
	old := *t
	groups := old.live*5/(4*(groupSize-1)) + 1
	*t = table{words: make([]uint64, groups*groupWords), groups: groups}
	for i := range old.slots() {
		if old.inUse(i) {
			from := old.slot(i)
			to := t.insert(from.hash(shard))
			*t.slot(to) = *from
			if moved != nil {
				moved(i, to)
			}
		}
	}
}
