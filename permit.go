package caudal

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/caudal-dev/caudal/internal/keyhash"
)

// Concurrency is a promise about how many calls may be under way at once, beside
// a Limit's promise about how many may begin. It is a comparable value. The zero
// value is valid and denies everything: its Max is 0.
type Concurrency struct {
	// Max is how many calls of one key may be under way at once; 0 denies all.
	Max uint32
	// Lease is how long a permit lasts unless it is renewed, so that those of a
	// holder that died come free; 0 means DefaultLease. Whole milliseconds from
	// MinLease to MaxLease. Holders renew every third of it.
	Lease time.Duration
}

// The bounds of a lease, and the one of a Concurrency that names none.
const (
	DefaultLease = 60 * time.Second
	MinLease     = time.Second
	MaxLease     = 24 * time.Hour
)

// Validate reports what is wrong with the limit, wrapping ErrInvalidLimit; nil
// when it can be used.
func (c Concurrency) Validate() error {
	switch {
	case c.Lease != 0 && (c.Lease < MinLease || c.Lease > MaxLease):
		return fmt.Errorf("%w: lease %s is out of range: use %s to %s", ErrInvalidLimit, c.Lease, MinLease, MaxLease)
	case c.Lease%time.Millisecond != 0:
		return fmt.Errorf("%w: lease %s must be whole milliseconds", ErrInvalidLimit, c.Lease)
	}
	return nil
}

func (c Concurrency) lease() time.Duration {
	if c.Lease == 0 {
		return DefaultLease
	}
	return c.Lease
}

// String says the limit the way people do: "20 at once, lease 1m0s".
func (c Concurrency) String() string {
	return fmt.Sprintf("%d at once, lease %s", c.Max, c.lease())
}

// CompiledConcurrency is a Concurrency that has been checked and has a place in
// the identity of counters. It does not change once made and is safe for
// concurrent use.
type CompiledConcurrency struct {
	limit     Concurrency
	name      string
	scope     string
	hash      keyhash.Hash
	failure   Failure
	standsFor *CompiledConcurrency // of a local limit
}

// concurrencyMark stands in the identity where that of a Limit has its
// algorithm: no counter of permits is ever one of calls.
const concurrencyMark = 'c'

// Compile checks the limit and makes it ready; see Limit.Compile for name and
// scope. The numbers are no part of the identity: a changed Max applies at once to
// the calls under way. failure says what is done without the store.
func (c Concurrency) Compile(name, scope string, failure Failure) (*CompiledConcurrency, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	b := binary.AppendUvarint(AppendPart(nil, scope), concurrencyMark)
	l := &CompiledConcurrency{limit: c, name: name, scope: string(b), failure: failure}
	l.hash = keyhash.String(l.scope)
	return l, nil
}

// Concurrency gives the limit as written.
func (c *CompiledConcurrency) Concurrency() Concurrency { return c.limit }

// Name gives the name that people see.
func (c *CompiledConcurrency) Name() string { return c.name }

// Scope gives the part of a counter's identity that does not depend on the key.
func (c *CompiledConcurrency) Scope() string { return c.scope }

// ScopeHash gives a 128-bit hash of the scope under this process's secret seed.
func (c *CompiledConcurrency) ScopeHash() keyhash.Hash { return c.hash }

// Max gives how many calls of one key may be under way at once.
func (c *CompiledConcurrency) Max() uint64 { return uint64(c.limit.Max) }

// Lease gives how long a permit lasts unless it is renewed.
func (c *CompiledConcurrency) Lease() time.Duration { return c.limit.lease() }

// OnStoreError gives what the limit does when its store is slow or gone.
func (c *CompiledConcurrency) OnStoreError() Failure { return c.failure }

// Local gives the limit that counts in one of so many instances while the store
// that they share is gone: max(1, floor(max / instances)), and 0 stays 0. What it
// protects can bear no more, so there is no factor.
func (c *CompiledConcurrency) Local(instances int) *CompiledConcurrency {
	if c.standsFor != nil {
		return c
	}
	local := *c
	local.standsFor = c
	if c.limit.Max > 0 {
		local.limit.Max = max(1, c.limit.Max/uint32(min(max(instances, 1), maxInstances)))
	}
	return &local
}

// StandsInFor gives the limit for which this one counts in an instance; nil for
// one that was compiled from rules.
func (c *CompiledConcurrency) StandsInFor() *CompiledConcurrency { return c.standsFor }

// PermitCall is one concurrency limit of a request: which counter.
type PermitCall struct {
	// Limit decides. Required.
	Limit *CompiledConcurrency
	// Key names the counter within the limit's scope, as Call.Key does.
	Key []byte
	// Shadow keeps the limit from denying: it takes a permit when the call passes
	// and it has one, and its verdict is reported.
	Shadow bool
	// Peek asks without taking a permit, and never denies.
	Peek bool
}

// Grant is what one concurrency limit says of a request. The zero value denies.
type Grant struct {
	// Allowed says that the limit had a permit free.
	Allowed bool
	// Acquired says that Permit is held: it must be released.
	Acquired bool
	// InUse is how many permits are held, this one included; it may be above Max
	// after Max was lowered.
	InUse uint64
	// Max is how many there are.
	Max uint64
	// Degraded says that the store that should have decided did not.
	Degraded bool
	// Unavailable says that the call was denied only because the store is gone.
	Unavailable bool
	// Permit is what is held.
	Permit Permit
}

// Permit names a permit that is held. It is released once, whoever copies it.
// The zero Permit is none. Stores fill it; others only pass it on.
type Permit struct {
	// Limit is the limit that gave it.
	Limit *CompiledConcurrency
	// Counter identifies the counter, as the store's hash of the limit's scope and
	// the key.
	Counter [2]uint64
	// ID is unique among the permits of one counter.
	ID uint64
}

// PermitStore is the ability of a Store to count calls under way. It is found by
// type assertion, and safe for concurrent use.
//
// A permit that is not renewed within its lease expires: it counts no more, and
// neither renewing nor releasing it has any effect. So the permits held are never
// fewer than none, whoever releases how often. Errors mean what those of
// Store.Take mean; out and held are undefined then.
type PermitStore interface {
	// Acquire takes one permit of each limit, or none: when one that is not in
	// Shadow has none free, nothing is taken. It writes what each says into out, in
	// order.
	Acquire(ctx context.Context, at Instant, calls []PermitCall, out []Grant) error
	// Renew lets permits last another lease from now. held tells for each whether it
	// was held still; it may be nil.
	Renew(ctx context.Context, at Instant, permits []Permit, held []bool) error
	// Release gives permits back. held tells for each whether it was held until now;
	// one that was released or has expired changes nothing. It may be nil.
	Release(ctx context.Context, at Instant, permits []Permit, held []bool) error
}

// Granted reports whether the grants let a request pass.
func Granted(calls []PermitCall, grants []Grant) bool {
	for i := range grants {
		if !grants[i].Allowed && !calls[i].Shadow {
			return false
		}
	}
	return true
}
