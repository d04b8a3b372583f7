package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
)

// KeyHash is the SHA-256 of an API key: what a keys file holds instead of the key.
type KeyHash [sha256.Size]byte

// HashKey hashes an API key.
func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }

// String gives the hash in lower-case hex, as keys files and logs have it.
func (h KeyHash) String() string { return hex.EncodeToString(h[:]) }

// ParseKeyHash reads 64 hex digits.
func ParseKeyHash(s string) (KeyHash, error) {
	var h KeyHash
	err := h.parse([]byte(s))
	return h, err
}

func (h *KeyHash) parse(digits []byte) error {
	if len(digits) != 2*len(h) {
		return fmt.Errorf("identity: a key's hash has %d hex digits, not %d: print one with caudal hash KEY", 2*len(h), len(digits))
	}
	if _, err := hex.Decode(h[:], digits); err != nil {
		return errors.New("identity: a key's hash holds something that is no hex digit: print one with caudal hash KEY")
	}
	return nil
}

// KeyInfo is what a keys file says of one key.
type KeyInfo struct {
	Hash KeyHash
	// User and Plan are who has the key and what they pay for. Each may be empty:
	// then requests with the key do not have that attribute.
	User, Plan string

	limits *[]OwnLimit
}

// Limits gives the numbers that the key has of its own; often none. They must not
// be changed.
func (k KeyInfo) Limits() []OwnLimit {
	if k.limits == nil {
		return nil
	}
	return *k.limits
}

// OwnLimit is another requests_per_unit for the limit of a name.
type OwnLimit struct {
	Name     string
	Requests uint32
}

// Bounds of a keys file.
const (
	MaxKeys   = 20_000_000
	maxLabel  = 256     // bytes of a user or plan
	maxPlans  = 1 << 16 // different plans
	maxLabels = math.MaxUint32
)

// Keys are the API keys that are known. It does not change once made, is safe for
// concurrent use, and takes about 60 bytes a key beside the name of its user.
// Make it with ReadKeys; the zero value knows no key.
type Keys struct {
	records []keyRecord
	slots   []uint32 // open addressing by the hash: 1 + the number of a record
	users   string   // the users' names, one after another
	plans   []string
	limits  []*[]OwnLimit // of the keys that have some
}

// OwnLimits gives all numbers that keys have of their own, each but once.
func (k *Keys) OwnLimits() []OwnLimit {
	seen := map[OwnLimit]bool{}
	var all []OwnLimit
	for _, list := range k.limits {
		for _, l := range *list {
			if !seen[l] {
				seen[l] = true
				all = append(all, l)
			}
		}
	}
	return all
}

// keyRecord is one key. Keys come by the million, so it holds no pointer: the
// garbage collector does not look into it.
type keyRecord struct {
	hash    KeyHash
	user    uint32 // where the name begins in Keys.users
	limits  uint32 // 1 + the number in Keys.limits; 0 when there are none
	userLen uint16
	plan    uint16
}

// KeyRing holds the keys in force. They can be exchanged at any time, while others
// look keys up. Its zero value is one without any key. It must not be copied.
type KeyRing struct{ keys atomic.Pointer[Keys] }

// Set puts other keys in force at once.
func (r *KeyRing) Set(k *Keys) { r.keys.Store(k) }

// Keys gives the keys in force; they may be none, but not nil.
func (r *KeyRing) Keys() *Keys {
	if k := r.keys.Load(); k != nil {
		return k
	}
	return new(Keys)
}

// Len gives how many keys there are.
func (k *Keys) Len() int { return len(k.records) }

// At gives key i, in the order of the file.
func (k *Keys) At(i int) KeyInfo {
	r := &k.records[i]
	info := KeyInfo{Hash: r.hash, User: k.users[r.user : r.user+uint32(r.userLen)], Plan: k.plans[r.plan]}
	if r.limits > 0 {
		info.limits = k.limits[r.limits-1]
	}
	return info
}

// Find gives what is known of a key. It allocates nothing.
func (k *Keys) Find(h KeyHash) (KeyInfo, bool) {
	if len(k.slots) == 0 {
		return KeyInfo{}, false
	}
	i, found := k.slot(&h)
	if !found {
		return KeyInfo{}, false
	}
	return k.At(int(k.slots[i] - 1)), true
}

// slot gives the slot of a hash, or the free one where it belongs. A client who
// tries keys learns nothing from how long that takes: it sees hashes of what it
// sent, never how far they agree with one that is known.
func (k *Keys) slot(h *KeyHash) (int, bool) {
	mask := len(k.slots) - 1
	for i := int(binary.LittleEndian.Uint64(h[:])) & mask; ; i = (i + 1) & mask {
		switch n := k.slots[i]; {
		case n == 0:
			return i, false
		case k.records[n-1].hash == *h:
			return i, true
		}
	}
}

// keysBuilder collects keys.
type keysBuilder struct {
	keys  Keys
	users strings.Builder
	plans map[string]uint16
	last  []byte // the user of the key before: people have several in a row
}

// keyLine is one line of a file, in the memory that it was read into.
type keyLine struct {
	hash       KeyHash
	user, plan []byte
	limits     []OwnLimit
}

// add takes a key in, or says why not.
func (b *keysBuilder) add(k *keyLine) string {
	if b.plans == nil {
		b.plans = map[string]uint16{}
	}
	if 2*len(b.keys.records) >= len(b.keys.slots) {
		b.grow()
	}
	i, twice := b.keys.slot(&k.hash)
	if twice {
		return "hash"
	}
	plan, known := b.plans[string(k.plan)]
	if !known {
		if len(b.plans) == maxPlans {
			return "plans"
		}
		plan = uint16(len(b.plans))
		name := string(k.plan)
		b.plans[name] = plan
		b.keys.plans = append(b.keys.plans, name)
	}
	if len(b.keys.records) == MaxKeys || b.users.Len()+len(k.user) > maxLabels {
		return "size"
	}
	at := b.users.Len()
	if n := len(b.keys.records); n > 0 && bytes.Equal(k.user, b.last) {
		at = int(b.keys.records[n-1].user)
	} else {
		b.users.Write(k.user)
		b.last = append(b.last[:0], k.user...)
	}
	r := keyRecord{hash: k.hash, user: uint32(at), userLen: uint16(len(k.user)), plan: plan}
	if len(k.limits) > 0 {
		b.keys.limits = append(b.keys.limits, &k.limits)
		r.limits = uint32(len(b.keys.limits))
	}
	b.keys.records = append(b.keys.records, r)
	b.keys.slots[i] = uint32(len(b.keys.records))
	return ""
}

// expect makes room for about so many keys, so that large files are read without
// moving what was read again and again.
func (b *keysBuilder) expect(n int) {
	n = min(n, MaxKeys)
	b.keys.records = make([]keyRecord, 0, n)
	size := 16
	for size < 2*n {
		size *= 2
	}
	b.keys.slots = make([]uint32, size)
}

// grow doubles the slots and puts the keys in anew.
func (b *keysBuilder) grow() {
	b.keys.slots = make([]uint32, max(16, 2*len(b.keys.slots)))
	for n := range b.keys.records {
		i, _ := b.keys.slot(&b.keys.records[n].hash)
		b.keys.slots[i] = uint32(n + 1)
	}
}

func (b *keysBuilder) done() *Keys {
	k := b.keys
	k.users = b.users.String()
	return &k
}
