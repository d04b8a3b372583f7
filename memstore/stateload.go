package memstore

import (
	"encoding/binary"
	"errors"
	"io"
	"os"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// survey is what a first reading of a file tells. It checks every checksum, so
// that nothing of a damaged file gets into the store.
type survey struct {
	session  session
	complete bool
	blocks   uint64         // whole ones
	last     caudal.Instant // when the last of them was written
	torn     int64          // bytes behind them
}

func surveyFile(f *os.File) (survey, error) {
	r, err := newStateReader(f)
	if err != nil {
		return survey{}, err
	}
	v := survey{session: r.session}
	for {
		h, _, err := r.next()
		if err != nil {
			v.blocks, v.torn = r.number, r.size-r.offset
			if err == io.EOF || errors.Is(err, errTorn) {
				err = nil
			}
			return v, err
		}
		v.complete = v.complete || h.flags&flagComplete != 0
		v.last = h.at
	}
}

// loader puts the keys of a file into an empty store.
type loader struct {
	store  *Store
	now    caudal.Instant
	shift  int64 // from the file's elapsed time to ours
	scopes map[uint64]string
	shards [shardCount]loadedShard
	at     *loadedShard // that the records are of
	states int64        // read
}

// loadedShard is a shard of the process that wrote the file: its hashes were
// others, so its keys are anywhere in ours.
type loadedShard struct {
	keys   []loadedKey // by number
	imaged bool        // what comes before is of an older file
}

type loadedKey struct {
	hash keyhash.Hash
	used bool
}

func newLoader(s *Store, last caudal.Instant) *loader {
	l := &loader{store: s, now: s.clock.Now(), scopes: map[uint64]string{}}
	// Between the processes only the wall clock ran. Where it was set back no time
	// has passed.
	passed := max(0, l.now.Wall-last.Wall)
	l.shift = l.now.Mono - last.Mono - passed
	return l
}

// read loads the blocks that the survey found whole.
func (l *loader) read(f *os.File, v survey) error {
	r, err := newStateReader(f)
	if err != nil {
		return err
	}
	l.at = nil
	for r.number < v.blocks {
		offset := r.offset
		_, payload, err := r.next()
		if err != nil {
			return err
		}
		d := decoder{b: payload}
		for len(d.b) > 0 && !d.bad {
			l.record(&d)
		}
		if d.bad {
			return &damage{offset, "a record in a block is not understood"}
		}
	}
	return nil
}

func (l *loader) record(d *decoder) {
	kind := d.byte()
	switch kind {
	case recordScope:
		n := d.uvarint()
		l.scopes[n] = string(d.bytes())
		return
	case recordShard:
		if n := d.uvarint(); n < shardCount {
			l.at = &l.shards[n]
			return
		}
	}
	if l.at == nil {
		d.bad = true
		return
	}
	switch kind {
	case recordImage:
		for n := range l.at.keys {
			l.forget(uint64(n))
		}
		l.at.keys, l.at.imaged = l.at.keys[:0], true
	case recordGone:
		l.forget(d.uvarint())
	case recordName:
		l.name(d)
	case recordState, recordFreed, recordLog:
		l.state(kind, d)
	default:
		d.bad = true
	}
}

// maxKeyNumber bounds the numbers of keys in a shard: they are dense, and no more
// than a shard ever held.
const maxKeyNumber = 1 << 27

func (l *loader) name(d *decoder) {
	n, scope, key := d.uvarint(), d.uvarint(), d.bytes()
	text, known := l.scopes[scope]
	if d.bad || !known || n == 0 || n >= maxKeyNumber {
		d.bad = true
		return
	}
	l.forget(n)
	if !l.at.imaged {
		return
	}
	for uint64(len(l.at.keys)) <= n {
		l.at.keys = append(l.at.keys, loadedKey{})
	}
	h := l.store.hashName(text, key)
	l.at.keys[n] = loadedKey{hash: h, used: true}
	sh := l.store.shardOf(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i := sh.table.find(h); i >= 0 {
		sh.dropLocked(i) // the same key under another number
	}
	// The state follows; until then a bucket that is fresh stands for it.
	sh.newSlotLocked(h, caudal.TokenBucket, l.now)
	sh.nameLocked(text, key, l.now)
}

// forget drops a key.
func (l *loader) forget(n uint64) {
	if n >= uint64(len(l.at.keys)) || !l.at.keys[n].used {
		return
	}
	h := l.at.keys[n].hash
	l.at.keys[n] = loadedKey{}
	sh := l.store.shardOf(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i := sh.table.find(h); i >= 0 {
		sh.dropLocked(i)
	}
}

// state replaces what is known of a key.
func (l *loader) state(kind byte, d *decoder) {
	s := loadedState{kind: kind, number: d.uvarint(), meta: d.uint16()}
	s.decode(d)
	if d.bad || !s.valid() {
		d.bad = true
		return
	}
	if !l.at.imaged {
		return
	}
	if s.number >= uint64(len(l.at.keys)) || !l.at.keys[s.number].used {
		d.bad = true
		return
	}
	l.states++
	h := l.at.keys[s.number].hash
	sh := l.store.shardOf(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i := sh.table.find(h); i >= 0 { // else the store is full, and it was dropped for another
		sh.restoreLocked(i, h, &s, l.shift)
	}
}

// loadedState is a state as the file has it.
type loadedState struct {
	kind    byte
	number  uint64
	meta    uint16
	words   [2]uint64
	turns   []algorithm.Turn
	entries []algorithm.Entry
}

func (s *loadedState) algorithm() caudal.Algorithm { return caudal.Algorithm(s.meta & algMask) }

func (s *loadedState) decode(d *decoder) {
	if s.kind != recordLog {
		s.words[0] = d.uint64()
	}
	s.words[1] = d.uint64()
	switch s.kind {
	case recordFreed:
		for n := d.count(2); n > 0; n-- {
			s.turns = append(s.turns, algorithm.Turn{Micros: d.varint(), Frac: uint32(d.uvarint())})
		}
	case recordLog:
		at := int64(0)
		for n := d.count(2); n > 0; n-- {
			at += d.varint()
			s.entries = append(s.entries, algorithm.Entry{At: at, Cost: uint32(d.uvarint())})
		}
	}
}

func (s *loadedState) valid() bool {
	a := s.algorithm()
	switch s.kind {
	case recordLog:
		return a == caudal.SlidingLog
	case recordFreed:
		return a == caudal.LeakyBucket
	}
	return a == caudal.TokenBucket || a == caudal.LeakyBucket || a == caudal.FixedWindow || a == caudal.SlidingWindow
}

// decoder takes numbers from the front of a payload; bad once one is not there.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad = true
		return make([]byte, min(n, 8))
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte     { return d.take(1)[0] }
func (d *decoder) uint16() uint16 { return binary.LittleEndian.Uint16(d.take(2)) }
func (d *decoder) uint64() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads how many items follow, each of at least size bytes.
func (d *decoder) count(size uint64) uint64 {
	n := d.uvarint()
	if n > uint64(len(d.b))/size {
		d.bad = true
		return 0
	}
	return n
}

// bytes reads a length and as many bytes, which are good while the payload is.
func (d *decoder) bytes() []byte { return d.take(int(d.count(1))) }
