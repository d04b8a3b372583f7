package memstore

import (
	"math/bits"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// slot is one key: who it is and its state, in half a cache line.
//
// The 128 bits of the key's hash are all there: the shard that holds the slot is
// named by the top shardBits of Hi, so only the other 54 are stored.
//
//	word 0  Lo
//	word 1  Hi (54 bits) | life (7 bits) | algorithm (3 bits)
//	word 2  state
//	word 3  an instant (54 bits) | state (8 bits) | level (2 bits)
//
// The instant is the state's own time, and a leaky bucket's is 61 bits wide: its
// last turn may lie years ahead, and before 1970 in tests.
type slot [4]uint64

const (
	shardBits  = 10
	keyMask    = 1<<(64-shardBits) - 1
	metaBits   = 64 - (64 - shardBits)
	lifeShift  = 3
	lifeMask   = 1<<7 - 1
	algMask    = 1<<lifeShift - 1
	levelMask  = 3
	atShift    = 10
	lastShift  = 3
	freedFlag  = 1 << 2
	instantCap = caudal.MaxInstant
)

// level says how much a key would be missed if it were dropped.
type level uint64

const (
	hasRoom   level = iota
	exhausted       // nothing remained after the last call
	refused         // the last call was denied
)

func (s *slot) is(h keyhash.Hash) bool {
	return s[0] == h.Lo && s[1]>>metaBits == h.Hi&keyMask && s.inUse()
}

// inUse reports whether the slot holds a key.
func (s *slot) inUse() bool { return s[1]&algMask-1 < uint64(slotDead)-1 }

// hash gives back the key's hash, whose top bits the shard's number tells.
func (s *slot) hash(shard uint64) keyhash.Hash {
	return keyhash.Hash{Hi: shard<<(64-shardBits) | s[1]>>metaBits, Lo: s[0]}
}

func (s *slot) setKey(h keyhash.Hash, a caudal.Algorithm) {
	s[0] = h.Lo
	s[1] = h.Hi<<metaBits | uint64(a)
}

func (s *slot) algorithm() caudal.Algorithm { return caudal.Algorithm(s[1] & algMask) }

func (s *slot) level() level { return level(s[3] & levelMask) }

func (s *slot) setLevel(l level) { s[3] = s[3]&^levelMask | uint64(l) }

// setLife notes that the key is fresh again at most d microseconds after the
// state's own time.
func (s *slot) setLife(d int64) {
	s[1] = s[1]&^(lifeMask<<lifeShift) | lifeCode(d)<<lifeShift
}

// life gives how long after its own time the state is certainly fresh.
func (s *slot) life() int64 { return lifeOf(s[1] >> lifeShift & lifeMask) }

// at gives the state's own time.
func (s *slot) at() int64 {
	if s.algorithm() == caudal.LeakyBucket {
		return int64(s[3]) >> lastShift
	}
	return int64(s[3] >> atShift)
}

// freshAt gives an instant from which the key is certainly fresh again; it is at
// most a quarter of the key's life late, or 4 seconds.
func (s *slot) freshAt() int64 {
	return s.at() + s.life()
}

// lifeCode writes a length of time in 7 bits, rounded up: 0, or (4 + 2 bits)
// shifted by 20 + 5 bits, from 4 seconds to 490 years.
func lifeCode(d int64) uint64 {
	if d <= 0 {
		return 0
	}
	units := uint64(d-1)>>20 + 1 // rounded up
	if units <= 4 {
		return 1 << 0 // code 0 of the scale is taken by "fresh"; the next is 5 units
	}
	shift := bits.Len64(units) - 3
	m := (units + 1<<shift - 1) >> shift // 4 to 8, rounded up
	if m == 8 {
		shift, m = shift+1, 4
	}
	return min(uint64(shift)<<2|(m-4), lifeMask)
}

func lifeOf(code uint64) int64 {
	if code == 0 {
		return 0
	}
	return int64((4 + code&3) << (code >> 2) << 20)
}

func (s *slot) tokenBucket() algorithm.TokenBucket {
	return algorithm.TokenBucketOf(s[3]>>2&0xff, s[2], int64(s[3]>>atShift))
}

func (s *slot) setTokenBucket(t algorithm.TokenBucket) {
	hi, lo := t.Words()
	s[2] = lo
	s[3] = uint64(min(t.At, instantCap))<<atShift | hi<<2
}

func (s *slot) fixedWindow() algorithm.FixedWindow {
	return algorithm.FixedWindow{Start: int64(s[3] >> atShift), Count: s[2]}
}

func (s *slot) setFixedWindow(w algorithm.FixedWindow) {
	s[2] = w.Count
	s[3] = uint64(min(max(w.Start, 0), instantCap)) << atShift
}

func (s *slot) slidingWindow() algorithm.SlidingWindow {
	return algorithm.SlidingWindow{Start: int64(s[3] >> atShift), Current: s[2] >> 32, Previous: s[2] & (1<<32 - 1)}
}

func (s *slot) setSlidingWindow(w algorithm.SlidingWindow) {
	s[2] = w.Current<<32 | w.Previous
	s[3] = uint64(min(max(w.Start, 0), instantCap)) << atShift
}

// leakyBucket gives the state without its freed turns, which the shard keeps.
func (s *slot) leakyBucket() (b algorithm.LeakyBucket, freed bool) {
	last := algorithm.Turn{Micros: int64(s[3]) >> lastShift, Frac: uint32(s[2] >> 32)}
	return algorithm.LeakyBucket{Last: last, Rate: uint32(s[2])}, s[3]&freedFlag != 0
}

func (s *slot) setLeakyBucket(b algorithm.LeakyBucket) {
	s[2] = uint64(b.Last.Frac)<<32 | uint64(b.Rate)
	s[3] = uint64(b.Last.Micros) << lastShift
	if len(b.Freed) > 0 {
		s[3] |= freedFlag
	}
}

// keepFor makes a leaky bucket last as long as a limit that denies by it needs: the
// limit may have been made slower since the charge.
func (s *slot) keepFor(b algorithm.LeakyBucket, l *caudal.Compiled) {
	s.setLife(max(s.life(), b.FreshAt(l)-s.at()))
}

// log gives the number of the sliding log that the shard keeps for the key.
func (s *slot) log() uint32 { return uint32(s[2]) }

func (s *slot) setLog(n uint32, newest int64) {
	s[2] = uint64(n)
	s[3] = uint64(min(max(newest, 0), instantCap)) << atShift
}
