package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, clock caudal.Clock) caudal.Store {
	s := memstore.New(memstore.Options{Clock: clock})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStoreKeepsTheContract(t *testing.T) {
	storetest.Run(t, open, storetest.Options{Rounds: 100})
}

func TestStoreWithASuppliedSeedKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock caudal.Clock) caudal.Store {
		return memstore.New(memstore.Options{Clock: clock, Seed: []byte("a seed of our own")})
	}, storetest.Options{Rounds: 2, Traces: 2})
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(*testing.B) caudal.Store { return memstore.New(memstore.Options{}) })
}

// limits are one of each algorithm, 25 calls in an hour.
var limits = []caudal.Limit{
	caudal.PerHour(25),
	caudal.PerHour(25).WithQueue(24, 0),
	caudal.PerHour(25).With(caudal.FixedWindow),
	caudal.PerHour(25).With(caudal.SlidingLog),
	caudal.PerHour(25).With(caudal.SlidingWindow),
}

func TestDecisionsAllocateNothing(t *testing.T) {
	ctx := context.Background()
	for _, limit := range limits {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			clock := storetest.NewClock(storetest.Start)
			store := memstore.New(memstore.Options{Clock: clock})
			l := caudal.Must(caudal.New(store, limit))
			c, err := limit.Compile("", "batch")
			if err != nil {
				t.Fatal(err)
			}
			calls := []caudal.Call{{Limit: c, Key: []byte("a"), Cost: 1}, {Limit: c, Key: []byte("b"), Cost: 1}}
			out := make([]caudal.Decision, 2)
			one := func() { // allowed calls, and denied ones from the 26th on
				if _, err := l.Allow(ctx, "user:1234567"); err != nil {
					t.Fatal(err)
				}
			}
			batch := func() {
				if err := store.Take(ctx, caudal.Instant{}, calls, out); err != nil {
					t.Fatal(err)
				}
			}
			for range 30 { // a log's block grows while it fills for the first time
				one()
				batch()
			}
			clock.Advance(3 * time.Hour)
			if n := testing.AllocsPerRun(100, one); n != 0 {
				t.Errorf("Allow allocates %v times, want 0", n)
			}
			// The race detector lets pools forget a quarter of what is put into them.
			least := math.Inf(1)
			for range 50 {
				least = min(least, testing.AllocsPerRun(1, batch))
			}
			if least != 0 {
				t.Errorf("Take allocates at least %v times, want 0", least)
			}
		})
	}
}

// C43: a new key per request does not grow the store beyond its bound, and when
// the keys fall idle the store empties.
func TestC43ANewKeyPerRequest(t *testing.T) {
	const maximum, keys = 100_000, 1_000_000
	clock := storetest.NewClock(storetest.Start)
	store := memstore.New(memstore.Options{Clock: clock, MaxKeys: maximum})
	l := caudal.Must(caudal.New(store, caudal.PerMinute(10)))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range keys {
		if _, err := l.Allow(t.Context(), fmt.Sprintf("made up %d", i)); err != nil {
			t.Fatal(err)
		}
		if store.Len() > maximum {
			t.Fatalf("after %d keys the store holds %d, over its bound of %d", i+1, store.Len(), maximum)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if heap := int64(after.HeapAlloc) - int64(before.HeapAlloc); heap > 64*maximum {
		t.Errorf("%d keys take %d bytes, over 64 each", maximum, heap)
	}
	clock.Advance(2 * time.Minute)
	store.Sweep()
	if n := store.Len(); n != 0 {
		t.Errorf("after two idle windows the store holds %d keys, want 0", n)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if heap := int64(after.HeapAlloc) - int64(before.HeapAlloc); heap > 2<<20 {
		t.Errorf("an empty store still takes %d bytes", heap)
	}
	runtime.KeepAlive(store)
}

// Idle keys go without Sweep too, as other keys come and go.
func TestIdleKeysGoWithTheCallsOfOthers(t *testing.T) {
	clock := storetest.NewClock(storetest.Start)
	store := memstore.New(memstore.Options{Clock: clock})
	l := caudal.Must(caudal.New(store, caudal.PerMinute(10)))
	allow := func(key string) {
		if _, err := l.Allow(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50_000 {
		allow(fmt.Sprintf("old %d", i))
	}
	clock.Advance(2 * time.Minute)
	for i := range 50_000 {
		allow(fmt.Sprintf("new %d", i))
	}
	if n := store.Len(); n > 60_000 {
		t.Errorf("the store holds %d keys, want little more than the 50000 that count", n)
	}
}

// C44: a flood of other keys does not free the one that is held back.
func TestC44AFloodDoesNotResetTheAttackersOwnCounter(t *testing.T) {
	for _, limit := range limits {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			clock := storetest.NewClock(storetest.Start)
			store := memstore.New(memstore.Options{Clock: clock, MaxKeys: 1000})
			l := caudal.Must(caudal.New(store, limit))
			allowed := func(key string) bool {
				d, err := l.Allow(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				return d.Allowed
			}
			for range 25 {
				if !allowed("V") {
					t.Fatal("V was denied within its limit")
				}
			}
			for i := range 5000 {
				if !allowed(fmt.Sprint(i)) {
					t.Fatalf("key %d was denied", i)
				}
				if store.Len() > 1000 {
					t.Fatalf("the store holds %d keys, over its bound of 1000", store.Len())
				}
			}
			if allowed("V") {
				t.Error("V is allowed again: its counter was dropped")
			}
			if s := store.Stats(); s.Evicted < 3000 || s.EvictedDenied > 0 {
				t.Errorf("Stats() = %+v, want over 3000 evicted and none that was denied", s)
			}
		})
	}
}

// Where every key is worth keeping the store still drops one for each new one,
// and says so.
func TestEvictionOfKeysThatCountIsCounted(t *testing.T) {
	clock := storetest.NewClock(storetest.Start)
	store := memstore.New(memstore.Options{Clock: clock, MaxKeys: 100})
	l := caudal.Must(caudal.New(store, caudal.PerHour(1)))
	for i := range 300 {
		for range 2 { // the second is denied
			if _, err := l.Allow(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s := store.Stats(); s.Keys > 100 || s.EvictedDenied == 0 {
		t.Errorf("Stats() = %+v, want at most 100 keys and some denied ones evicted", s)
	}
}

// Sliding logs count for what they take: many long logs stay within the bound.
func TestLongLogsStayWithinTheBound(t *testing.T) {
	clock := storetest.NewClock(storetest.Start)
	store := memstore.New(memstore.Options{Clock: clock, MaxKeys: 10_000})
	l := caudal.Must(caudal.New(store, caudal.PerHour(1000).With(caudal.SlidingLog)))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 500 { // 500 000 entries, 8 MB, in a store for 320 kB
		for range 1000 {
			if _, err := l.Allow(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if heap := int64(after.HeapAlloc) - int64(before.HeapAlloc); heap > 4<<20 {
		t.Errorf("the store takes %d bytes, want under 4 MB", heap)
	}
	if n := store.Len(); n == 0 || n > 100 {
		t.Errorf("the store holds %d logs, want some, of the 19 that fit", n)
	}
}

// Callers on many shards at the bound, each holding a lock and looking for a
// victim elsewhere, never wait for one another.
func TestManyCallersAtTheBound(t *testing.T) {
	store := memstore.New(memstore.Options{MaxKeys: 500})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			c, err := caudal.PerHour(10).With(caudal.SlidingLog).Compile("", "x")
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 5000 {
				calls := []caudal.Call{
					{Limit: c, Key: fmt.Append(nil, g, i), Cost: 1},
					{Limit: c, Key: fmt.Append(nil, i), Cost: 1},
					{Limit: c, Key: fmt.Append(nil, i%7), Cost: 1},
				}
				if err := store.Take(t.Context(), caudal.Instant{}, calls, make([]caudal.Decision, 3)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := store.Len(); n > 520 {
		t.Errorf("the store holds %d keys, want about 500 at most", n)
	}
}

func TestReceiptsWorkOnceAlsoWhenMany(t *testing.T) {
	store := memstore.New(memstore.Options{})
	l := caudal.Must(caudal.New(store, caudal.PerHour(1_000_000)))
	var receipts []caudal.Receipt
	for range 10_000 {
		d, err := l.Allow(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		receipts = append(receipts, d.Receipt)
	}
	for i, r := range receipts {
		if err := l.Refund(t.Context(), r, 1); err != nil {
			t.Fatalf("refund %d: %v", i, err)
		}
	}
	for i, r := range receipts[len(receipts)-4096:] {
		if err := l.Refund(t.Context(), r, 1); !errors.Is(err, caudal.ErrReceiptUsed) {
			t.Fatalf("second refund %d: %v, want ErrReceiptUsed", i, err)
		}
	}
}

func TestClosedStoreDecidesNothing(t *testing.T) {
	store := memstore.New(memstore.Options{})
	l := caudal.Must(caudal.New(store, caudal.PerHour(1)))
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, caudal.ErrClosed) || !errors.Is(err, caudal.ErrStore) {
		t.Errorf("Allow on a closed store: %v, want ErrStore and ErrClosed", err)
	}
}

// Two processes with one seed find the same keys; without, they do not. Here two
// stores stand for two processes.
func TestSeedNamesTheSameKeys(t *testing.T) {
	receipt := func(seed string) [2]uint64 {
		l := caudal.Must(caudal.New(memstore.New(memstore.Options{Seed: []byte(seed)}), caudal.PerHour(1)))
		d, err := l.Allow(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		return d.Receipt.Counter
	}
	if first := receipt("one"); receipt("one") != first {
		t.Error("the same seed gives two identities to one key")
	}
	if receipt("one") == receipt("two") {
		t.Error("two seeds give one identity")
	}
}
