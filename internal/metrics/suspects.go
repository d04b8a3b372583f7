package metrics

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

// The kinds of denials that may well have hit somebody who did nothing wrong.
const (
	verifiedUser  = iota // the caller is a user whose identity was verified
	barelyOver           // the key was hardly denied before: it is a little over, or was once
	sharedAddress        // the key is an address, and several known visitors were denied from it
)

var suspectKinds = [...]string{verifiedUser: "verified_user", barelyOver: "barely_over", sharedAddress: "shared_address"}

// suspects finds likely false positives among denials, in memory that does not
// grow. What it keeps is forgotten every minute.
type suspects struct {
	left    atomic.Int64 // how many callers may still be asked about in this second
	denials [1 << 14]atomic.Uint32
	crowds  [1 << 10]crowd
}

const (
	// asksPerSecond bounds how many denied callers are asked about in a second:
	// verifying a token costs more than denying a call, and a flood of denials must
	// stay cheap.
	asksPerSecond = 256
	// crowded is how many visitors make an address a shared one.
	crowded = 3
)

// crowd is the visitors of one address, the first few. The address that comes first
// in a minute has the place; another that would have the same is not looked at.
type crowd struct {
	address  atomic.Uint64
	visitors [crowded]atomic.Uint64
}

// join adds a visitor, and reports whether the address is a shared one.
func (c *crowd) join(address, visitor uint64) bool {
	c.address.CompareAndSwap(0, address)
	if c.address.Load() != address {
		return false
	}
	for i := range c.visitors {
		v := &c.visitors[i]
		v.CompareAndSwap(0, visitor)
		if v.Load() == visitor {
			return i == crowded-1 || c.visitors[crowded-1].Load() != 0
		}
	}
	return true
}

func (c *crowd) reset() {
	c.address.Store(0)
	for i := range c.visitors {
		c.visitors[i].Store(0)
	}
}

func newSuspects() *suspects {
	s := new(suspects)
	s.left.Store(asksPerSecond)
	return s
}

// look counts a denial under the kinds that it is of.
func (s *suspects) look(w *watched, d *httplimit.Detail, hash uint64) {
	hash ^= w.salt // the same address under another rule is another key
	if n := s.denials[hash%uint64(len(s.denials))].Add(1); uint64(n) <= max(d.Decision.Limit/10, 1) && !d.Decision.Never {
		w.suspects[barelyOver].Add(1)
	}
	if d.Who == nil || s.left.Load() <= 0 || s.left.Add(-1) < 0 {
		return
	}
	user, _ := d.Who.Attribute("user")
	if user != "" {
		w.suspects[verifiedUser].Add(1)
	}
	visitor, _ := d.Who.Attribute("visitor")
	if visitor == "" {
		visitor = user
	}
	if visitor != "" && keyedByAddress(d) {
		if s.crowds[hash%uint64(len(s.crowds))].join(hash|1, maphash.String(keySeed, visitor)|1) {
			w.suspects[sharedAddress].Add(1)
		}
	}
}

// keyedByAddress reports whether all who share an address share the counter.
func keyedByAddress(d *httplimit.Detail) bool {
	if d.Rule == nil {
		return false
	}
	address := false
	for _, p := range d.Rule.KeyParts(d.Call.Key) {
		address = address || p.ByAddress || !p.Rule && p.Name == "remote_address"
		if finer(p) {
			return false
		}
	}
	return address
}

// finer reports whether a part of a key tells callers of one address apart.
func finer(p rule.KeyPart) bool {
	switch p.Name {
	case "api_key", "user", "visitor":
		return !p.Rule && !p.Absent && !p.Shared
	}
	return false
}

func (s *suspects) second() { s.left.Store(asksPerSecond) }

func (s *suspects) minute() {
	for i := range s.denials {
		s.denials[i].Store(0)
	}
	for i := range s.crowds {
		s.crowds[i].reset()
	}
}
