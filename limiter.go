package caudal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Limiter holds one limit over many keys, counted in a store. It is safe for
// concurrent use; make one per limit and share it. Use [New].
type Limiter struct {
	store  Store
	keyed  KeyStore // store, or an adapter where it lacks the ability
	scope  string
	limit  atomic.Pointer[Compiled]
	queues queues
}

// Option changes a Limiter.
type Option func(*options)

type options struct {
	name     string
	accuracy Accuracy
}

// WithName names the limit. The name is part of the counters' identity: two
// limiters on one store with the same algorithm, period and name share their
// counters, and with different names never do. The default name is empty.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// Accurate sets how closely the limiter counts in a store that several instances
// share; Exact when it is not given. It is kept when the limit changes.
func Accurate(a Accuracy) Option { return func(o *options) { o.accuracy = a } }

// New makes a limiter. The error wraps ErrInvalidLimit when the limit cannot be
// used.
func New(store Store, limit Limit, opts ...Option) (*Limiter, error) {
	if store == nil {
		return nil, fmt.Errorf("caudal: no store: use memstore.New for one in memory")
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	l := &Limiter{store: store, scope: string(AppendPart([]byte("limiter"), o.name))}
	if l.keyed, _ = store.(KeyStore); l.keyed == nil {
		l.keyed = batchOfOne{store}
	}
	c, err := limit.Compile(o.name, l.scope, WithAccuracy(o.accuracy))
	if err != nil {
		return nil, err
	}
	l.limit.Store(c)
	return l, nil
}

// Must is New for limits written in source code: it panics on an error.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// Limit gives the limit in force.
func (l *Limiter) Limit() Limit { return l.limit.Load().limit }

// Compiled gives the limit in force, made ready, for those who report about it.
func (l *Limiter) Compiled() *Compiled { return l.limit.Load() }

// SetLimit puts another limit in force at once. When only its numbers change,
// what the keys have consumed is kept; another algorithm or period starts
// fresh counters.
func (l *Limiter) SetLimit(limit Limit) error {
	old := l.limit.Load()
	c, err := limit.Compile(old.name, l.scope, WithAccuracy(old.accuracy))
	if err != nil {
		return err
	}
	l.limit.Store(c)
	l.queues.wake()
	return nil
}

// Allow asks whether one call of this key may pass now, and charges it if so.
// Any key will do; keep personal data out of keys that a shared store will hold.
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	return l.keyed.TakeKey(ctx, Instant{}, l.limit.Load(), key, 1)
}

// AllowN is Allow for a call of the given cost. Cost 0 is a peek.
func (l *Limiter) AllowN(ctx context.Context, key string, cost uint32) (Decision, error) {
	return l.keyed.TakeKey(ctx, Instant{}, l.limit.Load(), key, cost)
}

// Peek tells what remains without charging anything.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.AllowAt(ctx, Instant{}, key, 0)
}

// AllowAt is the full form: may a call of this key and cost pass at this
// instant?
func (l *Limiter) AllowAt(ctx context.Context, at Instant, key string, cost uint32) (Decision, error) {
	return l.keyed.TakeKey(ctx, at, l.limit.Load(), key, cost)
}

// batchOfOne makes a KeyStore of a store that only takes batches.
type batchOfOne struct{ Store }

func (s batchOfOne) TakeKey(ctx context.Context, at Instant, limit *Compiled, key string, cost uint32) (Decision, error) {
	b := batches.Get().(*batch)
	defer batches.Put(b)
	b.key = append(b.key[:0], key...)
	b.calls[0] = Call{Limit: limit, Key: b.key, Cost: cost}
	b.out[0] = Decision{}
	err := s.Take(ctx, at, b.calls[:], b.out[:])
	return b.out[0], err
}

// batch keeps the slices of a batch of one off the heap's busy path.
type batch struct {
	calls [1]Call
	out   [1]Decision
	key   []byte
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// Refund takes back n of what an allowed decision charged, for a call that is
// over: a leaky bucket gives nothing back for it. A receipt works once.
func (l *Limiter) Refund(ctx context.Context, r Receipt, n uint32) error {
	return l.refund(ctx, Refund{Receipt: r, N: n, Left: true})
}

// Cancel takes back the whole charge of a call that never left its queue. For
// limits without a queue it is Refund of the whole cost.
func (l *Limiter) Cancel(ctx context.Context, r Receipt) error {
	return l.refund(ctx, Refund{Receipt: r, N: r.Cost})
}

// Credit gives n back to a key without a receipt: tokens, the current window,
// the newest entries, the last turns; never below nothing used.
func (l *Limiter) Credit(ctx context.Context, key string, n uint32) error {
	return l.refund(ctx, Refund{Limit: l.limit.Load(), Key: key, N: n})
}

func (l *Limiter) refund(ctx context.Context, r Refund) error {
	refunder, ok := l.store.(Refunder)
	if !ok {
		return fmt.Errorf("%w: refund", ErrUnsupported)
	}
	return refunder.Refund(ctx, Instant{}, []Refund{r})
}

// Reset makes a key fresh.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	resetter, ok := l.store.(Resetter)
	if !ok {
		return fmt.Errorf("%w: reset", ErrUnsupported)
	}
	return resetter.Reset(ctx, l.limit.Load(), key)
}
