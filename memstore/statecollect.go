package memstore

import (
	"encoding/binary"

	"github.com/caudal-dev/caudal"
)

// collectSlots is how many slots are copied at a time under a shard's lock: some
// microseconds' work.
const collectSlots = 128

// collect appends what is newer than the file in a shard, from slot i on, and
// gives the slot to go on with, or -1 at the end. rebuilds is how often the table
// had been rebuilt at the last call: slots may since have moved to before i.
func (sh *shard) collect(b []byte, i int, rebuilds *int) ([]byte, int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	j := sh.journal
	if *rebuilds != j.rebuilds {
		*rebuilds, i = j.rebuilds, 0
	}
	if j.renewed {
		b, i = sh.imageLocked(b), 0
	}
	next := j.nextDirty(i)
	if next < 0 && len(j.gone) == 0 {
		return b, -1
	}
	b = appendShard(b, sh.number)
	// First those that went: their numbers may already be those of others.
	for _, id := range j.gone {
		b = binary.AppendUvarint(append(b, recordGone), uint64(id))
	}
	j.gone = j.gone[:0]
	for n := 0; next >= 0 && n < collectSlots; n++ {
		b = sh.appendSlotLocked(b, next)
		j.dirty[next>>6] &^= 1 << (next & 63)
		next = j.nextDirty(next + 1)
	}
	return b, next
}

// image makes the whole shard unwritten, and appends that its image follows.
func (sh *shard) image(b []byte) []byte {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.imageLocked(b)
}

func (sh *shard) imageLocked(b []byte) []byte {
	sh.journal.renew()
	return append(appendShard(b, sh.number), recordImage)
}

func appendShard(b []byte, number uint64) []byte {
	return binary.AppendUvarint(append(b, recordShard), number)
}

// appendSlotLocked appends a key's state, and before its first one its name.
func (sh *shard) appendSlotLocked(b []byte, i int) []byte {
	j, s := sh.journal, sh.table.slot(i)
	id := uint64(j.ids[i] &^ unwritten)
	if id == 0 {
		return b // a key without a name
	}
	if j.ids[i]&unwritten != 0 {
		j.ids[i] &^= unwritten
		name, _ := j.names.of(uint32(id))
		b = append(binary.AppendUvarint(append(b, recordName), id), name...)
	}
	le, meta := binary.LittleEndian, uint16(s[1]&(1<<metaBits-1))
	head := func(record byte) []byte {
		return le.AppendUint16(binary.AppendUvarint(append(b, record), id), meta)
	}
	switch s.algorithm() {
	case caudal.SlidingLog:
		return sh.appendLog(le.AppendUint64(head(recordLog), s[3]), s.log())
	case caudal.LeakyBucket:
		if _, freed := s.leakyBucket(); freed {
			b = le.AppendUint64(le.AppendUint64(head(recordFreed), s[2]), s[3])
			turns := sh.freed[s.hash(sh.number)]
			b = binary.AppendUvarint(b, uint64(len(turns)))
			for _, t := range turns {
				b = binary.AppendUvarint(binary.AppendVarint(b, t.Micros), uint64(t.Frac))
			}
			return b
		}
	}
	return le.AppendUint64(le.AppendUint64(head(recordState), s[2]), s[3])
}

func (sh *shard) appendLog(b []byte, number uint32) []byte {
	v := sh.logs.view(number)
	b = binary.AppendUvarint(b, uint64(len(v.Entries)))
	before := int64(0)
	for _, e := range v.Entries {
		b = binary.AppendUvarint(binary.AppendVarint(b, e.At-before), uint64(e.Cost))
		before = e.At
	}
	return b
}
