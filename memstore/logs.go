package memstore

import (
	"math/bits"

	"github.com/caudal-dev/caudal/algorithm"
)

// logs keeps the entries of a shard's sliding logs, in blocks of 4, 8, 16 ...
// entries that are handed out again when a log grows or ends. There is a pointer
// per chunk of blocks, none per log.
type logs struct {
	headers []logHeader
	free    []uint32 // headers not in use
	classes [32]blockClass
}

// logHeader says where a log is: a block of 4 << class entries, of which n are in
// use from head on.
type logHeader struct {
	used    uint64
	block   uint32
	head, n uint32
	class   uint8
}

// blockClass hands out blocks of one size.
type blockClass struct {
	chunks [][]algorithm.Entry
	free   []uint32
	next   uint32 // blocks handed out so far, free ones included
}

const (
	smallestBlock = 4
	// chunkEntries is how many entries are made at a time: 4 KiB, or one block
	// where that is larger.
	chunkEntries = 256
	// smallBlock is the size up to which a log stays in its block when it becomes
	// short: one that fills and empties each period would pay for each move.
	smallBlock = 128
)

func blockSize(class uint8) int { return smallestBlock << class }

func blocksPerChunk(class uint8) int { return max(1, chunkEntries/blockSize(class)) }

// places is what a block takes of the store's bound, in slots of 32 bytes.
func places(class uint8) int64 { return int64(blockSize(class) / 2) }

func (c *blockClass) get(class uint8) uint32 {
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b
	}
	per := blocksPerChunk(class)
	if int(c.next) == len(c.chunks)*per {
		c.chunks = append(c.chunks, make([]algorithm.Entry, per*blockSize(class)))
	}
	c.next++
	return c.next - 1
}

func (c *blockClass) entries(class uint8, block uint32) []algorithm.Entry {
	per := blocksPerChunk(class)
	from := int(block) % per * blockSize(class)
	return c.chunks[int(block)/per][from : from+blockSize(class) : from+blockSize(class)]
}

// put takes a block back. When none of the class is in use its memory goes.
func (c *blockClass) put(block uint32) {
	c.free = append(c.free, block)
	if len(c.free) == int(c.next) {
		*c = blockClass{}
	}
}

// add makes an empty log and gives its number.
func (l *logs) add() uint32 {
	h := logHeader{block: l.classes[0].get(0)}
	if n := len(l.free); n > 0 {
		i := l.free[n-1]
		l.free = l.free[:n-1]
		l.headers[i] = h
		return i
	}
	l.headers = append(l.headers, h)
	return uint32(len(l.headers) - 1)
}

// view gives a log as the algorithm sees it: the block's own memory.
func (l *logs) view(i uint32) algorithm.SlidingLog {
	h := &l.headers[i]
	block := l.classes[h.class].entries(h.class, h.block)
	return algorithm.SlidingLog{Entries: block[h.head : h.head+h.n], Used: h.used}
}

// trim notes that the algorithm dropped entries at the front or elsewhere: v is
// what view gave, shortened.
func (l *logs) trim(i uint32, v algorithm.SlidingLog, purged int) {
	h := &l.headers[i]
	h.head += uint32(purged)
	h.n = uint32(len(v.Entries))
	h.used = v.Used
}

// push appends an entry; it gives by how many places the log grew.
func (l *logs) push(i uint32, e algorithm.Entry) (grown int64) {
	h := &l.headers[i]
	block := l.classes[h.class].entries(h.class, h.block)
	switch {
	case int(h.head+h.n) < len(block):
	case int(h.n) <= len(block)/2:
		copy(block, block[h.head:h.head+h.n])
		h.head = 0
	default:
		grown = l.move(h, h.class+1)
		block = l.classes[h.class].entries(h.class, h.block)
	}
	block[h.head+h.n] = e
	h.n++
	h.used += uint64(e.Cost)
	return grown
}

// move puts a log into a block of another class.
func (l *logs) move(h *logHeader, class uint8) (grown int64) {
	block := l.classes[class].get(class)
	to := l.classes[class].entries(class, block)
	from := l.classes[h.class].entries(h.class, h.block)
	copy(to, from[h.head:h.head+h.n])
	l.classes[h.class].put(h.block)
	grown = places(class) - places(h.class)
	h.class, h.block, h.head = class, block, 0
	return grown
}

// shrink puts a log that has become short into a smaller block, so that one
// burst does not hold memory for as long as the key lives.
func (l *logs) shrink(i uint32) (grown int64) {
	h := &l.headers[i]
	if blockSize(h.class) <= smallBlock || int(h.n) > blockSize(h.class)/8 {
		return 0
	}
	fit := bits.Len32(max(h.n*2, smallestBlock) - 1)
	return l.move(h, uint8(max(fit-2, 0)))
}

// drop ends a log; it gives the places that became free.
func (l *logs) drop(i uint32) int64 {
	h := l.headers[i]
	l.classes[h.class].put(h.block)
	l.headers[i] = logHeader{}
	l.free = append(l.free, i)
	return places(h.class)
}
