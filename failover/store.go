package failover

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// probesInFlight bounds the probes that a store has not answered: one that does
// not obey its context and never answers is asked no more until it gives one back.
// Heartbeats are bounded apart, so that a heart that fails stops no probe.
const (
	probesInFlight = 8
	beatsInFlight  = 2
)

// Store asks a shared store, and answers itself when that one is slow or gone.
// It is safe for concurrent use. Use New.
type Store struct {
	o          Options
	primary    caudal.Store
	keyed      caudal.KeyStore    // primary, or nil
	refunder   caudal.Refunder    // primary, or nil
	resetter   caudal.Resetter    // primary, or nil
	forecaster caudal.Forecaster  // primary, or nil
	permits    caudal.PermitStore // primary, or nil
	memory     Memory             // primary, or nil
	leaser     Leaser             // primary, or nil
	heart      Heart              // or nil

	local  *memstore.Store
	turns  *turns
	slots  *slots
	probes *slots
	beats  *slots
	jobs   sync.Pool

	breaker   *gobreaker.TwoStepCircuitBreaker[struct{}]
	open      atomic.Bool
	lostAt    atomic.Int64  // when the breaker opened, by the clock
	suspected chan struct{} // one element

	instances atomic.Int64 // by heartbeat; 0 before the first
	answered  [3]atomic.Uint64
	failures  failures
	changes   changes

	mu    sync.Mutex
	since time.Time // guarded by mu

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	owned  sync.WaitGroup
	closed atomic.Bool
}

var (
	_ caudal.Store      = (*Store)(nil)
	_ caudal.KeyStore   = (*Store)(nil)
	_ caudal.Refunder   = (*Store)(nil)
	_ caudal.Resetter   = (*Store)(nil)
	_ caudal.Forecaster = (*Store)(nil)
)

// New wraps a store. It does not wait for it: when the store is not there yet,
// calls are answered here until it is. Close the Store to end its goroutines.
func New(primary caudal.Store, o Options) *Store {
	s := &Store{o: o.withDefaults(), primary: primary, since: time.Now(), suspected: make(chan struct{}, 1)}
	s.keyed, _ = primary.(caudal.KeyStore)
	s.refunder, _ = primary.(caudal.Refunder)
	s.resetter, _ = primary.(caudal.Resetter)
	s.forecaster, _ = primary.(caudal.Forecaster)
	s.permits, _ = primary.(caudal.PermitStore)
	s.memory, _ = primary.(Memory)
	s.leaser, _ = primary.(Leaser)
	if s.heart = o.Heart; s.heart == nil {
		s.heart, _ = primary.(Heart)
	}
	s.local = memstore.New(memstore.Options{MaxKeys: s.o.LocalKeys, Clock: s.o.Clock})
	s.turns = newTurns()
	s.slots, s.probes, s.beats = newSlots(s.o.MaxInFlight), newSlots(probesInFlight), newSlots(beatsInFlight)
	s.changes.wake = make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.breaker = s.newBreaker()
	s.suspect() // a store that is not there should show before the first call
	s.owned.Go(s.watch)
	if s.o.OnChange != nil {
		s.owned.Go(s.tell)
	}
	if s.heart != nil && s.o.ExpectedInstances <= 0 {
		s.owned.Go(s.beat)
	}
	return s
}

// closeWait is how long Close waits for calls that the shared store still has.
const closeWait = time.Second

// Close ends the Store's goroutines and waits for them; later calls fail with
// caudal.ErrClosed. It does not close the shared store. The error says how many
// calls that store has not given back: their goroutines live until it does.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.cancel()
	s.owned.Wait()
	ctx, stop := context.WithTimeout(context.Background(), closeWait)
	defer stop()
	left := s.slots.drain(ctx) + s.probes.drain(ctx) + s.beats.drain(ctx)
	_ = s.local.Close()
	if left > 0 {
		return fmt.Errorf("failover: the store has not returned from %d calls although their time is up: close it to end them", left)
	}
	return nil
}

// ready gives the error of a call that must not be decided.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return fmt.Errorf("%w: %w", caudal.ErrStore, caudal.ErrClosed)
	}
	return ctx.Err()
}

func (s *Store) now(at caudal.Instant) caudal.Instant {
	if at.IsZero() {
		return s.o.Clock.Now()
	}
	return at
}

// Take decides a request, in the shared store or as its limits say without it;
// see caudal.Store. Without it any limit that denies when the store is gone wins,
// then any local denial; else the request passes. Local counts are all charged,
// or none.
//
// Turns of a leaky bucket are handed over. A local one is behind every turn that
// the shared bucket gave through this instance, and once the store is thought to
// be gone, where there are other instances, behind every turn that it can have
// given to anybody. When the store is back, the first call of a key takes no turn
// before those that were given here.
func (s *Store) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.leaser != nil && s.leaser.Leased(at, calls, out) {
		return nil
	}
	if !s.open.Load() {
		if s.memory != nil && s.memory.Remembered(at, calls, out) {
			return nil
		}
		if done, err := s.takeShared(ctx, at, calls, out); done {
			return err
		}
	}
	return s.takeLocal(ctx, s.now(at), calls, out)
}

// takeShared asks the shared store; done is false when it failed.
func (s *Store) takeShared(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) (done bool, err error) {
	j := s.newJob(at)
	j.batch(calls)
	queues := s.carryTurns(at, j.calls)
	mine, err := s.ask(ctx, opTake, j)
	if !mine {
		return ctx.Err() != nil, err
	}
	if err == nil {
		copy(out, j.out)
		if queues {
			s.noteShared(at, j.calls, j.out)
		}
	}
	j.free()
	return err == nil || ctx.Err() != nil, err
}

// TakeKey decides one limit; see Take.
func (s *Store) TakeKey(ctx context.Context, at caudal.Instant, limit *caudal.Compiled, key string, cost uint32) (caudal.Decision, error) {
	if s.keyed == nil || limit.Algorithm() == caudal.LeakyBucket || limit.Accuracy() == caudal.Leased || s.open.Load() {
		return s.takeOne(ctx, at, limit, key, cost, s.Take)
	}
	if err := s.ready(ctx); err != nil {
		return caudal.Decision{}, err
	}
	j := s.newJob(at)
	j.limit, j.key, j.cost = limit, key, cost
	mine, err := s.ask(ctx, opTake, j)
	var d caudal.Decision
	if mine {
		if err == nil {
			d = j.out[0]
		}
		j.free()
	}
	if err == nil || ctx.Err() != nil {
		return d, err
	}
	return s.takeOne(ctx, s.now(at), limit, key, cost, s.takeLocal)
}

// one keeps the slices of a batch of one.
type one struct {
	calls [1]caudal.Call
	out   [1]caudal.Decision
	key   []byte
}

var ones = sync.Pool{New: func() any { return new(one) }}

type takeFunc func(context.Context, caudal.Instant, []caudal.Call, []caudal.Decision) error

func (s *Store) takeOne(ctx context.Context, at caudal.Instant, limit *caudal.Compiled, key string, cost uint32, take takeFunc) (caudal.Decision, error) {
	b := ones.Get().(*one)
	defer ones.Put(b)
	b.key = append(b.key[:0], key...)
	b.calls[0] = caudal.Call{Limit: limit, Key: b.key, Cost: cost}
	b.out[0] = caudal.Decision{}
	err := take(ctx, at, b.calls[:], b.out[:])
	return b.out[0], err
}

// Instances gives how many instances are thought to share the store, at least 1.
func (s *Store) Instances() int {
	if n := s.o.ExpectedInstances; n > 0 {
		return n
	}
	return max(1, int(s.instances.Load()))
}
