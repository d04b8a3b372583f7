package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms     = time.Millisecond
	minute = time.Minute
)

type spin = sync.Mutex

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v, want no error", err)
	}
}

// kindError is a failure that names its kind, as those of a real store do.
type kindError struct{ kind string }

func (e *kindError) Error() string { return "fake: " + e.kind }
func (e *kindError) Unwrap() error { return caudal.ErrStore }
func (e *kindError) Kind() string  { return e.kind }

// refusing is a store that fails every call at once.
type refusing struct{}

var errRefused = &kindError{"connection"}

func (refusing) Take(context.Context, caudal.Instant, []caudal.Call, []caudal.Decision) error {
	return errRefused
}
func (refusing) Refund(context.Context, caudal.Instant, []caudal.Refund) error { return errRefused }
func (refusing) Forecast(context.Context, caudal.Instant, *caudal.Compiled, string) (caudal.Forecast, error) {
	return nil, errRefused
}
func (refusing) Reset(context.Context, *caudal.Compiled, string) error { return errRefused }

// fake is a store in memory that can be made to misbehave. It counts the calls
// that reach it.
type fake struct {
	*memstore.Store
	calls, probes atomic.Int64
	inside        atomic.Int64 // calls that it has not given back
	most          atomic.Int64 // of those, ever

	mu    sync.Mutex
	fault func(context.Context) error // nil: behave
	heal  chan struct{}               // closed when the fault ends
}

func newFake(clock caudal.Clock) *fake {
	return &fake{Store: memstore.New(memstore.Options{Clock: clock}), heal: make(chan struct{})}
}

// set makes the store misbehave from now on. A call that hangs meanwhile is
// answered when the store behaves again, as by a process that was stopped.
func (f *fake) set(fault func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
	close(f.heal)
	f.heal = make(chan struct{})
}

func (f *fake) enter(ctx context.Context, probe bool) error {
	if probe {
		f.probes.Add(1)
	} else {
		f.calls.Add(1)
	}
	n := f.inside.Add(1)
	defer f.inside.Add(-1)
	for old := f.most.Load(); old < n && !f.most.CompareAndSwap(old, n); old = f.most.Load() {
	}
	f.mu.Lock()
	fault, heal := f.fault, f.heal
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(context.WithValue(ctx, healKey{}, heal))
}

func (f *fake) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	if err := f.enter(ctx, len(calls) == 1 && calls[0].Limit == probeLimit); err != nil {
		return err
	}
	return f.Store.Take(ctx, at, calls, out)
}

func (f *fake) TakeKey(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string, cost uint32) (caudal.Decision, error) {
	if err := f.enter(ctx, false); err != nil {
		return caudal.Decision{}, err
	}
	return f.Store.TakeKey(ctx, at, l, key, cost)
}

func (f *fake) Refund(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) error {
	if err := f.enter(ctx, false); err != nil {
		return err
	}
	return f.Store.Refund(ctx, at, refunds)
}

func (f *fake) Reset(ctx context.Context, l *caudal.Compiled, key string) error {
	if err := f.enter(ctx, false); err != nil {
		return err
	}
	return f.Store.Reset(ctx, l, key)
}

// The ways to misbehave.

// fails gives an error at once.
func fails(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

type healKey struct{}

// hangs answers when the context ends, or the store is well again.
func hangs(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ctx.Value(healKey{}).(chan struct{}):
		return nil
	}
}

// deaf takes no notice of its context, and answers only when told to.
func deaf(release <-chan struct{}) func(context.Context) error {
	return func(context.Context) error {
		<-release
		return errors.New("fake: released")
	}
}

// slow answers after a while, or when the context ends.
func slow(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// limit compiles a limit as caudal.ParseLimit reads it.
func limit(t testing.TB, text string, opts ...caudal.CompileOption) *caudal.Compiled {
	t.Helper()
	l, err := caudal.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Compile(text, text, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func take(t testing.TB, s *Store, l *caudal.Compiled, key string) caudal.Decision {
	t.Helper()
	return takeN(t, s, l, key, 1)
}

func takeN(t testing.TB, s *Store, l *caudal.Compiled, key string, cost uint32) caudal.Decision {
	t.Helper()
	d, err := s.TakeKey(context.Background(), caudal.Instant{}, l, key, cost)
	if err != nil {
		t.Fatalf("TakeKey(%s, %q, %d) = error %v, want a decision", l.Limit(), key, cost, err)
	}
	return d
}

func show(d caudal.Decision) string {
	return fmt.Sprintf("allowed %v, degraded %v, unavailable %v, limit %d, remaining %d, delay %s, retry %s",
		d.Allowed, d.Degraded, d.Unavailable, d.Limit, d.Remaining, d.Delay, d.RetryAfter)
}

// degraded takes a store to where it is not asked any more. The fake must fail.
func degraded(t testing.TB, s *Store) {
	t.Helper()
	l := limit(t, "1000000/s")
	for n := 0; !s.Degraded(); n++ {
		if n > 100_000 {
			t.Fatal("the store was never given up")
		}
		take(t, s, l, "degraded")
	}
}
