package redisstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/caudal-dev/caudal"
)

// counter is the identity of a counter: the first 128 bits of SHA-256 of the
// limit's scope and the key, each preceded by its length. It is the same on every
// instance, and nobody can find two keys that share one.
type counter [2]uint64

func counterOf[T ~string | ~[]byte](l *caudal.Compiled, key T) counter {
	var buf [256]byte
	b := caudal.AppendPart(buf[:0], l.Scope())
	b = caudal.AppendPart(b, key)
	sum := sha256.Sum256(b)
	return counter{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// appendOwner appends the hash under which a fair queue knows whom a call waits for:
// 64 bits of SHA-256 of the counter's identity and the value, so that one client
// looks different in each queue, and nobody can choose to look like another.
func appendOwner(b []byte, c *caudal.Call) []byte {
	var buf [256]byte
	text := caudal.AppendPart(buf[:0], c.Limit.Scope())
	text = caudal.AppendPart(text, c.Key)
	sum := sha256.Sum256(caudal.AppendPart(text, c.Fair))
	return append(b, sum[:8]...)
}

// name gives the counter's key in Redis: the prefix and the identity in braces,
// so that all keys of one counter live in one slot.
func (s *Store) name(c counter) string {
	var buf [96]byte
	return string(s.appendName(buf[:0], c))
}

func (s *Store) appendName(b []byte, c counter) []byte {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], c[0])
	binary.BigEndian.PutUint64(raw[8:], c[1])
	b = append(b, s.prefix...)
	b = append(b, '{')
	b = hex.AppendEncode(b, raw[:])
	return append(b, '}')
}

// mark gives the key that remembers that a receipt was refunded.
func (s *Store) mark(c counter, id uint64) string {
	var buf [96]byte
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], id)
	b := append(s.appendName(buf[:0], c), ':')
	return string(hex.AppendEncode(b, raw[:]))
}

// parseName reads a counter's key back.
func (s *Store) parseName(name string) (counter, bool) {
	var raw [16]byte
	n := len(s.prefix)
	if len(name) != n+34 {
		return counter{}, false
	}
	if _, err := hex.Decode(raw[:], []byte(name[n+1:n+33])); err != nil {
		return counter{}, false
	}
	return counter{binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])}, true
}
