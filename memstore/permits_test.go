package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

func concurrency(t testing.TB, most uint32, lease time.Duration) *caudal.CompiledConcurrency {
	t.Helper()
	l, err := caudal.Concurrency{Max: most, Lease: lease}.Compile("limit", "test", caudal.FailLocal)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestPermitsAreBounded: at the bound the permit that would expire first goes, and
// nothing grows.
func TestPermitsAreBounded(t *testing.T) {
	const most = 1000
	clock := storetest.NewClock(storetest.Start)
	store := memstore.New(memstore.Options{MaxKeys: most, Clock: clock})
	l := concurrency(t, 1, time.Hour)
	var out [1]caudal.Grant
	for i := range 20 * most {
		clock.Advance(time.Millisecond)
		call := []caudal.PermitCall{{Limit: l, Key: fmt.Appendf(nil, "key %d", i)}}
		if err := store.Acquire(t.Context(), caudal.Instant{}, call, out[:]); err != nil || !out[0].Acquired {
			t.Fatalf("Acquire(%d) = %+v, %v, want a permit", i, out[0], err)
		}
	}
	if n := store.Permits(); n > most+64 {
		t.Errorf("%d permits are held, want at most %d", n, most+64)
	}
	if held := make([]bool, 1); store.Release(t.Context(), caudal.Instant{}, []caudal.Permit{out[0].Permit}, held) != nil || !held[0] {
		t.Error("the newest permit is not held any more, want the oldest to go")
	}
	clock.Advance(2 * time.Hour)
	for i := range 1000 { // touches every shard
		call := []caudal.PermitCall{{Limit: l, Key: fmt.Appendf(nil, "late %d", i), Peek: true}}
		if err := store.Acquire(t.Context(), caudal.Instant{}, call, out[:]); err != nil {
			t.Fatal(err)
		}
	}
	if n := store.Permits(); n != 0 {
		t.Errorf("%d permits are held after their leases, want 0", n)
	}
}

func TestPermitsAllocateNothing(t *testing.T) {
	store := memstore.New(memstore.Options{})
	call := []caudal.PermitCall{{Limit: concurrency(t, 100, 0), Key: []byte("k")}}
	var out [1]caudal.Grant
	var permits [1]caudal.Permit
	var held [1]bool
	got := testing.AllocsPerRun(1000, func() {
		if err := store.Acquire(t.Context(), caudal.Instant{}, call, out[:]); err != nil || !out[0].Acquired {
			t.Fatalf("Acquire = %+v, %v, want a permit", out[0], err)
		}
		permits[0] = out[0].Permit
		if err := store.Release(t.Context(), caudal.Instant{}, permits[:], held[:]); err != nil || !held[0] {
			t.Fatalf("Release says %v, %v, want held", held[0], err)
		}
	})
	if got != 0 {
		t.Errorf("acquire and release allocate %v times, want 0", got)
	}
}

func TestPermitsOfAClosedStore(t *testing.T) {
	store := memstore.New(memstore.Options{})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	call := []caudal.PermitCall{{Limit: concurrency(t, 1, 0), Key: []byte("k")}}
	if err := store.Acquire(t.Context(), caudal.Instant{}, call, make([]caudal.Grant, 1)); !errors.Is(err, caudal.ErrClosed) {
		t.Errorf("Acquire = %v, want ErrClosed", err)
	}
	if err := store.Release(t.Context(), caudal.Instant{}, nil, nil); !errors.Is(err, caudal.ErrClosed) {
		t.Errorf("Release = %v, want ErrClosed", err)
	}
}

func BenchmarkPermit(b *testing.B) {
	store := memstore.New(memstore.Options{})
	call := []caudal.PermitCall{{Limit: concurrency(b, 100, 0), Key: []byte("k")}}
	var out [1]caudal.Grant
	var permits [1]caudal.Permit
	for b.Loop() {
		_ = store.Acquire(b.Context(), caudal.Instant{}, call, out[:])
		permits[0] = out[0].Permit
		_ = store.Release(b.Context(), caudal.Instant{}, permits[:], nil)
	}
}
