package memstore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/caudal-dev/caudal"
)

// A state file is a header and blocks, in the order in which they were written.
// Numbers are little-endian.
//
//	header, 64 bytes: magic (16), version (4), session (16), zero, CRC-32C (4)
//	block: length of the payload (4), flags (4), number in the file (8),
//	       the instant: Mono (8), Wall (8), CRC-32C of those (4); the payload;
//	       its CRC-32C (4), "end\n" (4)
//
// A payload is a list of records; see the constants that begin with record. The
// file holds, for each shard, one image of all its keys, and what changed since.
// Until the block with flagComplete the images are not all there, and the file
// means something only behind the one that it is about to replace.
const (
	stateVersion = 1
	stateMagic   = "caudal state\r\n\x1a\n"

	headerSize = 64
	blockHead  = 36
	blockEnd   = 8
	endMark    = 'e' | 'n'<<8 | 'd'<<16 | '\n'<<24

	flagComplete = 1 << 0 // an image of each shard has been written
	flagClosed   = 1 << 1 // the process ended in order
)

// The records of a payload. Numbers of more than a byte are unsigned varints
// unless a width is named; an instant of a log is a signed difference from the
// one before.
const (
	recordScope = iota + 1 // scope number, length, text
	recordShard            // shard: those that follow are of it
	recordImage            // forget all keys of the shard: its image follows
	recordGone             // key number: the key was dropped
	recordName             // key number, scope number, length, key
	recordState            // key number, life and algorithm (2), words 2 and 3 (8 each)
	recordFreed            // the same, then how many cancelled turns, each micros, fraction
	recordLog              // key number, life and algorithm (2), word 3 (8), how many entries, each instant, cost
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// session is a process's own name: numbers of keys mean nothing beyond it.
type session [16]byte

func encodeHeader(version uint32, id session) []byte {
	b := make([]byte, 0, headerSize)
	b = append(b, stateMagic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = append(b, id[:]...)
	b = b[:headerSize-4]
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// errTorn is a file that ends in the middle of a block: a process or a machine
// died while it wrote.
var errTorn = errors.New("the file ends in the middle of a write")

// block is what stands before a payload.
type block struct {
	flags  uint32
	number uint64
	at     caudal.Instant
}

// blockSpace is left free at the front of a payload that is being made.
const blockSpace = blockHead

// seal makes a block of a payload that has blockSpace bytes free at its front.
func (h block) seal(b []byte) []byte {
	payload := b[blockSpace:]
	le := binary.LittleEndian
	le.PutUint32(b[0:], uint32(len(payload)))
	le.PutUint32(b[4:], h.flags)
	le.PutUint64(b[8:], h.number)
	le.PutUint64(b[16:], uint64(h.at.Mono))
	le.PutUint64(b[24:], uint64(h.at.Wall))
	le.PutUint32(b[32:], crc32.Checksum(b[:32], castagnoli))
	b = le.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return le.AppendUint32(b, endMark)
}

// stateReader reads the blocks of a file one after another.
type stateReader struct {
	r       *bufio.Reader
	session session
	offset  int64 // of the next block
	number  uint64
	size    int64
	payload []byte
}

// damage is what is wrong with a file, and where.
type damage struct {
	offset int64
	what   string
}

func (d *damage) Error() string { return fmt.Sprintf("byte %d: %s", d.offset, d.what) }

// otherVersion is a file in a format that is not ours.
type otherVersion uint32

func (v otherVersion) Error() string {
	return fmt.Sprintf("format %d, and this program reads and writes format %d", uint32(v), stateVersion)
}

func newStateReader(f *os.File) (*stateReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r := &stateReader{r: bufio.NewReaderSize(f, 1<<20), size: info.Size(), offset: headerSize}
	header := make([]byte, headerSize)
	if n, err := io.ReadFull(r.r, header); err != nil {
		if !torn(err) {
			return nil, err
		}
		return nil, &damage{int64(n), "the header is cut off"}
	}
	sum := binary.LittleEndian.Uint32(header[headerSize-4:])
	switch {
	case !bytes.HasPrefix(header, []byte(stateMagic)):
		return nil, &damage{0, "this is no state file"}
	case sum != crc32.Checksum(header[:headerSize-4], castagnoli):
		return nil, &damage{0, "the header's checksum is wrong"}
	}
	if v := binary.LittleEndian.Uint32(header[16:]); v != stateVersion {
		return nil, otherVersion(v)
	}
	copy(r.session[:], header[20:])
	return r, nil
}

func torn(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// next gives a block and its payload, which is good until the next call; io.EOF
// at the end of the file, errTorn where that is in the middle of a block.
func (r *stateReader) next() (block, []byte, error) {
	var head [blockHead]byte
	n, err := io.ReadFull(r.r, head[:])
	switch {
	case err == io.EOF:
		return block{}, nil, io.EOF
	case torn(err), err == nil && r.zeros(head[:]):
		return block{}, nil, errTorn
	case err != nil:
		return block{}, nil, err
	}
	le := binary.LittleEndian
	if le.Uint32(head[32:]) != crc32.Checksum(head[:32], castagnoli) {
		return block{}, nil, &damage{r.offset, "the checksum of a block's head is wrong"}
	}
	h := block{flags: le.Uint32(head[4:]), number: le.Uint64(head[8:]),
		at: caudal.Instant{Mono: int64(le.Uint64(head[16:])), Wall: int64(le.Uint64(head[24:]))}}
	if h.number != r.number {
		return block{}, nil, &damage{r.offset, fmt.Sprintf("block %d where %d was due", h.number, r.number)}
	}
	whole := int64(le.Uint32(head[0:])) + blockEnd
	if whole > r.size-r.offset-int64(n) {
		return block{}, nil, errTorn
	}
	payload, err := r.read(int(whole))
	if err != nil {
		return block{}, nil, err
	}
	r.number++
	r.offset += int64(n) + whole
	return h, payload, nil
}

// read reads a payload and what stands behind it.
func (r *stateReader) read(whole int) ([]byte, error) {
	if cap(r.payload) < whole {
		r.payload = make([]byte, whole)
	}
	b := r.payload[:whole]
	if _, err := io.ReadFull(r.r, b); err != nil {
		if torn(err) {
			return nil, errTorn
		}
		return nil, err
	}
	payload, end := b[:whole-blockEnd], b[whole-blockEnd:]
	last := r.offset+blockHead+int64(whole) == r.size
	switch sum := binary.LittleEndian.Uint32(end); {
	case last && binary.LittleEndian.Uint64(end) == 0:
		return nil, errTorn // space was made for the block, and then the power went
	case binary.LittleEndian.Uint32(end[4:]) != endMark:
		return nil, &damage{r.offset, "a block has no end"}
	case sum != crc32.Checksum(payload, castagnoli):
		return nil, &damage{r.offset, "the checksum of a block is wrong"}
	}
	return payload, nil
}

// zeros reports whether the rest of the file, with b before it, is zeros: space
// that was made and never written.
func (r *stateReader) zeros(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	for {
		c, err := r.r.ReadByte()
		if err != nil {
			return err == io.EOF
		}
		if c != 0 {
			return false
		}
	}
}
