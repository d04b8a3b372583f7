// Package keyhash turns keys into 128-bit identities under a seed that only this
// process knows, so that nobody outside can find two keys that collide.
package keyhash

import (
	"hash/maphash"
	"math/bits"
)

// Hash is a 128-bit identity.
type Hash struct{ Hi, Lo uint64 }

// Two independent 64-bit hashes with secret seeds: the runtime's own map hash,
// which uses the processor's AES instructions where it has them. One alone would
// make a collision likely among some billions of keys; both together do not.
var seedHi, seedLo = maphash.MakeSeed(), maphash.MakeSeed()

// String hashes a key.
func String(s string) Hash {
	return Hash{maphash.String(seedHi, s), maphash.String(seedLo, s)}
}

// Bytes hashes a key; it gives what String gives for the same bytes.
func Bytes(b []byte) Hash {
	return Hash{maphash.Bytes(seedHi, b), maphash.Bytes(seedLo, b)}
}

// Under joins the hash of a scope and of a key into that of the pair. With
// secret, independent hashes an exclusive or keeps the chance of a collision
// where it was. The scope's hash is rotated first: otherwise two keys that spell
// each other's scope would meet, and a key that spells its own would cancel out.
func (h Hash) Under(scope Hash) Hash {
	return Hash{h.Hi ^ bits.RotateLeft64(scope.Hi, 32), h.Lo ^ bits.RotateLeft64(scope.Lo, 32)}
}
