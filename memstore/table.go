package memstore

import (
	"math/bits"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// table is an open-addressing hash table of slots in buckets of four, which is two
// cache lines side by side. A key's hash names its bucket, and the slot of it that
// the key takes if it is free: seven keys of ten are where the first look goes. The
// others are in the same bucket, or rarely in the next ones. With millions of keys
// that first look is the one line of memory that a decision waits for.
//
// The number of buckets need not be a power of two: it grows by a quarter, which
// keeps between 0.7 and 0.875 of the slots in use.
type table struct {
	words   []slot // buckets, each of bucketSize
	buckets int
	live    int // slots in use
	dead    int // slots deleted but not yet reusable as the end of a search
}

const (
	bucketSize = 4

	// What a slot without a key holds in the place of its algorithm.
	slotEmpty caudal.Algorithm = 0
	slotDead  caudal.Algorithm = algMask // a search goes on behind it
)

// slot gives slot i, which is slot i%4 of bucket i/4.
func (t *table) slot(i int) *slot { return &t.words[i] }

// slots is how many there are, in use or not.
func (t *table) slots() int { return len(t.words) }

// home gives the first slot of the bucket at which the search for a key starts:
// the hash scaled to the number of buckets.
func (t *table) home(h keyhash.Hash) int {
	hi, _ := bits.Mul64(h.Lo, uint64(t.buckets))
	return int(hi) * bucketSize
}

// favourite says which slot of its bucket a key takes if it is free.
func favourite(h keyhash.Hash) int { return int(h.Hi % bucketSize) }

// find gives the index of the key's slot, or -1.
func (t *table) find(h keyhash.Hash) int {
	home := t.home(h)
	if i := home + favourite(h); i < len(t.words) && t.words[i].is(h) {
		return i
	}
	return t.search(h, home)
}

// search is find where the first look was in vain.
func (t *table) search(h keyhash.Hash, home int) int {
	if t.buckets == 0 {
		return -1
	}
	for b := home; ; b = t.next(b) {
		last := false
		for i := b; i < b+bucketSize; i++ {
			s := &t.words[i]
			if s.is(h) {
				return i
			}
			last = last || s.algorithm() == slotEmpty
		}
		if last {
			return -1
		}
	}
}

// next gives the first slot of the bucket behind b's.
func (t *table) next(b int) int {
	if b += bucketSize; b < len(t.words) {
		return b
	}
	return 0
}

// insert takes a slot for a key that is not there, and gives its index. The table
// must not be full: see full.
func (t *table) insert(h keyhash.Hash, a caudal.Algorithm) int {
	home := t.home(h)
	i := home + favourite(h)
	if t.inUse(i) {
		for i = home; t.inUse(i); {
			if i++; i == len(t.words) {
				i = 0
			}
		}
	}
	if t.words[i].algorithm() == slotDead {
		t.dead--
	}
	t.words[i].setKey(h, a)
	t.live++
	return i
}

// full reports whether the table must be rebuilt before an insert.
func (t *table) full() bool { return t.live+t.dead >= len(t.words)*7/8 }

// inUse reports whether slot i holds a key.
func (t *table) inUse(i int) bool { return t.words[i].inUse() }

// remove deletes slot i. Where the bucket has another empty slot no search goes
// past it, and the slot is empty at once; otherwise it stays dead until a rebuild
// or an insert takes it.
func (t *table) remove(i int) {
	t.words[i] = slot{}
	t.live--
	for j := i &^ (bucketSize - 1); j <= i|(bucketSize-1); j++ {
		if j != i && t.words[j].algorithm() == slotEmpty {
			return
		}
	}
	t.words[i][1] = uint64(slotDead)
	t.dead++
}

// rebuild makes room: it moves what is in use to a table sized for it, and tells
// moved of each slot, unless that is nil. Those that find their favourite slot free
// go first, so that no other key takes it.
func (t *table) rebuild(shard uint64, moved func(from, to int)) {
	old := *t
	buckets := old.live*10/(7*bucketSize) + 1
	*t = table{words: make([]slot, buckets*bucketSize), buckets: buckets}
	for _, first := range [2]bool{true, false} {
		for i := range old.words {
			from := &old.words[i]
			if !from.inUse() {
				continue
			}
			h := from.hash(shard)
			to := t.home(h) + favourite(h)
			if first && t.inUse(to) || !first && t.words[to].is(h) {
				continue // not its turn, or there already
			}
			to = t.insert(h, from.algorithm())
			t.words[to] = *from
			if moved != nil {
				moved(i, to)
			}
		}
	}
}
