package failover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

func (refusing) Acquire(context.Context, caudal.Instant, []caudal.PermitCall, []caudal.Grant) error {
	return errRefused
}
func (refusing) Renew(context.Context, caudal.Instant, []caudal.Permit, []bool) error {
	return errRefused
}
func (refusing) Release(context.Context, caudal.Instant, []caudal.Permit, []bool) error {
	return errRefused
}

// switched is a store in memory whose permits can be had or not.
type switched struct {
	*memstore.Store
	gone bool
}

func (s *switched) Acquire(ctx context.Context, at caudal.Instant, calls []caudal.PermitCall, out []caudal.Grant) error {
	if s.gone {
		return errRefused
	}
	return s.Store.Acquire(ctx, at, calls, out)
}

func (s *switched) Release(ctx context.Context, at caudal.Instant, permits []caudal.Permit, held []bool) error {
	if s.gone {
		return errRefused
	}
	return s.Store.Release(ctx, at, permits, held)
}

func concurrencyOf(t testing.TB, most uint32, scope string, f caudal.Failure) *caudal.CompiledConcurrency {
	t.Helper()
	l, err := caudal.Concurrency{Max: most, Lease: 30 * time.Second}.Compile(scope, scope, f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func acquire(t testing.TB, s *Store, limits ...*caudal.CompiledConcurrency) ([]caudal.Grant, bool) {
	t.Helper()
	calls, out := make([]caudal.PermitCall, len(limits)), make([]caudal.Grant, len(limits))
	for i, l := range limits {
		calls[i] = caudal.PermitCall{Limit: l, Key: []byte("k")}
	}
	if err := s.Acquire(t.Context(), caudal.Instant{}, calls, out); err != nil {
		t.Fatalf("Acquire = error %v", err)
	}
	return out, caudal.Granted(calls, out)
}

// TestPermitsWithoutTheStore: each of three instances gives a third, rounded down;
// what was taken here is released here, and what was taken there ends there.
func TestPermitsWithoutTheStore(t *testing.T) {
	clock := storetest.NewClock(storetest.Start)
	shared := &switched{Store: memstore.New(memstore.Options{Clock: clock})}
	s := New(shared, Options{Clock: clock, Deadline: patient, ExpectedInstances: 3})
	defer mustClose(t, s)
	l := concurrencyOf(t, 8, "limit", caudal.FailLocal)

	before, _ := acquire(t, s, l)
	if before[0].Degraded || before[0].Permit.Limit != l {
		t.Errorf("with the store the grant is %+v, want the shared one", before[0])
	}
	shared.gone = true
	var here []caudal.Permit
	for i := range 3 {
		grants, ok := acquire(t, s, l)
		if ok != (i < 2) || !grants[0].Degraded || grants[0].Max != 2 {
			t.Errorf("call %d without the store: %+v, want 2 permits here", i+1, grants[0])
		}
		if ok {
			here = append(here, grants[0].Permit)
		}
	}
	held := make([]bool, 3)
	err := s.Release(t.Context(), caudal.Instant{}, append(here, before[0].Permit), held)
	if !errors.Is(err, caudal.ErrStore) || !held[0] || !held[1] || held[2] {
		t.Errorf("Release = %v, %v, want the two from here and an error for the one from there", held, err)
	}
	if n := s.local.Permits(); n != 0 {
		t.Errorf("%d permits are held here, want 0", n)
	}
	shared.gone = false
	if n := shared.Permits(); n != 1 {
		t.Errorf("%d permits are held there, want the 1 that could not be released", n)
	}
	clock.Advance(30 * time.Second)
	var grants [1]caudal.Grant // straight from the shared store: s may think for a moment yet that it is gone
	if err := shared.Acquire(t.Context(), caudal.Instant{}, []caudal.PermitCall{{Limit: l, Key: []byte("k")}}, grants[:]); err != nil || grants[0].InUse != 1 {
		t.Errorf("after its lease the grant is %+v, %v, want the new one alone", grants[0], err)
	}
}

// TestPermitPolicies: allow passes without a permit, deny refuses and takes
// nothing of the others, and 0 stays 0.
func TestPermitPolicies(t *testing.T) {
	s := New(refusing{}, Options{Clock: storetest.NewClock(storetest.Start), ExpectedInstances: 50})
	defer mustClose(t, s)
	local, allow, deny := concurrencyOf(t, 8, "local", caudal.FailLocal), concurrencyOf(t, 8, "allow", caudal.FailOpen), concurrencyOf(t, 8, "deny", caudal.FailClosed)
	if grants, ok := acquire(t, s, local, allow, deny); ok || !grants[2].Unavailable || grants[0].Acquired || s.local.Permits() != 0 {
		t.Errorf("with a limit that denies without its store: %+v, want nothing taken", grants)
	}
	grants, ok := acquire(t, s, local, allow)
	if !ok || !grants[0].Acquired || grants[0].Max != 1 || grants[1].Acquired || !grants[1].Allowed {
		t.Errorf("local and allow: %+v, want one permit of at least 1, and one pass without", grants)
	}
	for _, f := range []caudal.Failure{caudal.FailLocal, caudal.FailOpen, caudal.FailClosed} {
		if grants, ok := acquire(t, s, concurrencyOf(t, 0, "zero", f)); ok {
			t.Errorf("max 0 with on_store_error %s: %+v, want denied", f, grants)
		}
	}
}

// TestPermitTooLate: what a store gives after its caller has gone goes back.
func TestPermitTooLate(t *testing.T) {
	shared := &slowPermits{Store: memstore.New(memstore.Options{}), open: make(chan struct{}), done: make(chan struct{})}
	s := New(shared, Options{Deadline: time.Millisecond})
	defer mustClose(t, s)
	grants, ok := acquire(t, s, concurrencyOf(t, 8, "limit", caudal.FailLocal))
	if !ok || !grants[0].Degraded {
		t.Errorf("a store that does not answer: %+v, want a local permit", grants)
	}
	close(shared.open)
	<-shared.done
	if n := shared.Permits(); n != 0 {
		t.Errorf("%d permits are held in the store that was late, want 0", n)
	}
}

// slowPermits gives permits when it is told to, whatever the context says.
type slowPermits struct {
	*memstore.Store
	open, done chan struct{}
}

func (s *slowPermits) Acquire(_ context.Context, at caudal.Instant, calls []caudal.PermitCall, out []caudal.Grant) error {
	<-s.open
	return s.Store.Acquire(context.Background(), at, calls, out)
}

func (s *slowPermits) Release(ctx context.Context, at caudal.Instant, permits []caudal.Permit, held []bool) error {
	defer close(s.done)
	return s.Store.Release(ctx, at, permits, held)
}
