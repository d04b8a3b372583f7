package memstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// DefaultMaxKeys is the bound on keys when Options name none: about 400 MB.
const DefaultMaxKeys = 10_000_000

// Options shape a Store. The zero value is ready to use.
type Options struct {
	// MaxKeys bounds how many keys are held; 0 means DefaultMaxKeys. A sliding log
	// counts for one key more per two entries that it has room for, so this bounds
	// memory too, at about 45 bytes for each.
	//
	// At the bound each new key drops one: of a sample of 16, a key that is fresh
	// again if there is one; else one that still has room; else one that has
	// nothing left; and one whose last call was denied only when all others are
	// too. The key dropped counts as fresh afterwards. Stats tells how often that
	// happened.
	MaxKeys int

	// Clock tells the time for calls that name no instant; nil means
	// caudal.NewSystemClock.
	Clock caudal.Clock

	// Seed replaces the process's own secret seed for hashing keys, so that
	// another process can find the same keys. It must be secret and is used with
	// SHA-256, which costs about 70 ns a decision.
	Seed []byte
}

// Store counts in memory. It is safe for concurrent use. Use New.
type Store struct {
	clock   caudal.Clock
	maximum int64
	seed    []byte
	closed  atomic.Bool
	file    *stateFile // where what is counted is kept; nil for memory alone

	_       [64]byte
	keys    atomic.Int64 // keys held
	places  atomic.Int64 // what they take of maximum
	evicted [3]atomic.Int64
	_       [64]byte

	shards [shardCount]shard

	permits permits
}

var (
	_ caudal.Store      = (*Store)(nil)
	_ caudal.KeyStore   = (*Store)(nil)
	_ caudal.Refunder   = (*Store)(nil)
	_ caudal.Resetter   = (*Store)(nil)
	_ caudal.Forecaster = (*Store)(nil)
)

// New makes an empty store, which forgets all when the process ends. It starts no
// goroutine. Open makes one that remembers.
func New(o Options) *Store {
	s := &Store{clock: o.Clock, maximum: int64(o.MaxKeys), seed: append([]byte(nil), o.Seed...)}
	if s.clock == nil {
		s.clock = caudal.NewSystemClock()
	}
	if s.maximum <= 0 {
		s.maximum = DefaultMaxKeys
	}
	s.permits.most = s.maximum
	for i := range s.shards {
		s.shards[i].number = uint64(i)
		s.shards[i].store = s
	}
	return s
}

// Close makes later calls fail with caudal.ErrClosed. A store that Open made
// writes what is not written yet, and the error tells if that failed; otherwise
// it is nil.
func (s *Store) Close() error {
	s.closed.Store(true)
	if s.file != nil {
		return s.file.close()
	}
	return nil
}

// ready gives the error of a call that must not be decided.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed()
	}
	return ctx.Err()
}

func errClosed() error { return fmt.Errorf("%w: %w", caudal.ErrStore, caudal.ErrClosed) }

// now gives the instant of a call: the caller's, or one reading of the clock.
func (s *Store) now(at caudal.Instant) caudal.Instant {
	if at.IsZero() {
		return s.clock.Now()
	}
	return at
}

func (s *Store) hashString(l *caudal.Compiled, key string) keyhash.Hash {
	if len(s.seed) > 0 {
		return s.seededHash(l.Scope(), []byte(key))
	}
	return keyhash.String(key).Under(l.ScopeHash())
}

func (s *Store) hashBytes(l *caudal.Compiled, key []byte) keyhash.Hash {
	if len(s.seed) > 0 {
		return s.seededHash(l.Scope(), key)
	}
	return keyhash.Bytes(key).Under(l.ScopeHash())
}

// hashName hashes a key under a scope without its limit.
func (s *Store) hashName(scope string, key []byte) keyhash.Hash {
	if len(s.seed) > 0 {
		return s.seededHash(scope, key)
	}
	return keyhash.Bytes(key).Under(keyhash.String(scope))
}

func (s *Store) seededHash(scope string, key []byte) keyhash.Hash {
	b := caudal.AppendPart(make([]byte, 0, 256), s.seed)
	b = caudal.AppendPart(b, scope)
	sum := sha256.Sum256(append(b, key...))
	return keyhash.Hash{Hi: binary.BigEndian.Uint64(sum[:8]), Lo: binary.BigEndian.Uint64(sum[8:16])}
}

func (s *Store) shardOf(h keyhash.Hash) *shard { return &s.shards[h.Hi>>(64-shardBits)] }

// TakeKey decides one limit; see caudal.KeyStore.
func (s *Store) TakeKey(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string, cost uint32) (d caudal.Decision, err error) {
	if err := s.ready(ctx); err != nil {
		return d, err
	}
	h := s.hashString(l, key)
	at = s.now(at)
	sh := s.shardOf(h)
	sh.mu.Lock()
	if sh.attend && sh.journal.closed {
		sh.mu.Unlock()
		return d, errClosed()
	}
	sh.takeLocked(h, l, at, cost, true, &d)
	if sh.attend {
		sh.identifyLocked(l, []byte(key), at)
	}
	sh.mu.Unlock()
	return d, nil
}

// Stats are figures about a store at a moment.
type Stats struct {
	// Keys is how many keys are held, fresh ones that no call has yet dropped
	// included.
	Keys int64
	// Evicted is how many keys were dropped to make room although they were not
	// fresh: those that had room left, those that had none, and those whose last
	// call was denied. The last two forget a limit that was holding somebody back:
	// MaxKeys is too low for the traffic.
	Evicted, EvictedExhausted, EvictedDenied int64
}

// Stats gives the store's figures.
func (s *Store) Stats() Stats {
	return Stats{
		Keys:             s.keys.Load(),
		Evicted:          s.evicted[hasRoom].Load(),
		EvictedExhausted: s.evicted[exhausted].Load(),
		EvictedDenied:    s.evicted[refused].Load(),
	}
}

// Len gives how many keys are held.
func (s *Store) Len() int { return int(s.keys.Load()) }

// Sweep drops every key that is fresh again, shard by shard, and gives memory
// back where few are left. Calls do this little by little anyway; a service that
// may fall idle with many keys calls Sweep now and then.
func (s *Store) Sweep() {
	at := s.now(caudal.Instant{})
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for n := 0; n <= sh.table.slots(); n += lookSize {
			sh.sweepLocked(at, -1)
		}
		if sh.table.slots() > 4*sh.table.live+4*bucketSize {
			sh.rebuildLocked()
		}
		sh.mu.Unlock()
	}
}
