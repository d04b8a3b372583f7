package memstore_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// The rows of the memory table in docs/benchmarks.md, each with its floor: what
// any limiter must at least pay. Compare within one run: machines differ.

var (
	sinkDuration time.Duration
	sinkBool     bool
)

// BenchmarkFloorTimeSince is the floor of a decision on one key: reading a clock.
func BenchmarkFloorTimeSince(b *testing.B) {
	base := time.Now()
	for b.Loop() {
		sinkDuration += time.Since(base)
	}
}

func newLimiter(tb testing.TB, limit caudal.Limit) *caudal.Limiter {
	tb.Helper()
	l, err := caudal.New(memstore.New(memstore.Options{MaxKeys: 20_000_000}), limit)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// generous never denies in a benchmark.
var generous = caudal.PerSecond(1_000_000_000)

func BenchmarkHotKey(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit caudal.Limit
	}{
		{"token_bucket", generous},
		{"token_bucket_denied", caudal.PerHour(1)},
		{"leaky_bucket", generous.WithQueue(1_000_000_000, 0)},
		{"fixed_window", generous.With(caudal.FixedWindow)},
		{"sliding_log", caudal.PerSecond(1000).With(caudal.SlidingLog)},
		{"sliding_window", generous.With(caudal.SlidingWindow)},
	} {
		b.Run(c.name, func(b *testing.B) {
			l, ctx := newLimiter(b, c.limit), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				d, err := l.Allow(ctx, "user:1234567")
				if err != nil {
					b.Fatal(err)
				}
				sinkBool = d.Allowed
			}
		})
	}
}

func BenchmarkHotKeyParallel(b *testing.B) {
	l, ctx := newLimiter(b, generous), context.Background()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := l.Allow(ctx, "user:1234567"); err != nil || !d.Allowed {
				b.Error("denied")
			}
		}
	})
}

// state is what a bare map would keep for a token bucket.
type state struct{ tokens, at int64 }

// mutexMap is the floor of the rows with many keys: the bucket that people write
// themselves, a mutex around a map of 16-byte states.
type mutexMap struct {
	mu   sync.Mutex
	m    map[string]state
	base time.Time
}

func (m *mutexMap) allow(key string) bool {
	now := int64(time.Since(m.base))
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.m[key]
	if !ok {
		s = state{1_000_000_000, now}
	}
	s.tokens = min(1_000_000_000, s.tokens+(now-s.at))
	s.at = now
	ok = s.tokens > 0
	if ok {
		s.tokens--
	}
	m.m[key] = s
	return ok
}

// keySets holds sets of distinct keys of 12 bytes, made once per size.
type keySets struct {
	mu   sync.Mutex
	sets map[int][]string
}

var keySet keySets

func (k *keySets) of(n int) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sets == nil {
		k.sets = map[int][]string{}
	}
	if k.sets[n] == nil {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = "user" + strconv.Itoa(10_000_000+i)
		}
		k.sets[n] = keys
	}
	return k.sets[n]
}

func (k *keySets) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sets = nil
}

// picks is an endless walk over indexes, made beforehand so that drawing them
// costs the same nothing everywhere.
func zipf1M() []int32 {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 1, 1_000_000-1)
	picks := make([]int32, 1<<22)
	for i := range picks {
		picks[i] = int32(z.Uint64())
	}
	return picks
}

func uniform(n int) []int32 {
	r := rand.New(rand.NewPCG(3, 4))
	picks := make([]int32, 1<<22)
	for i := range picks {
		picks[i] = r.Int32N(int32(n))
	}
	return picks
}

func benchKeys(b *testing.B, keys []string, picks []int32, allow func(key string) bool) {
	for _, k := range keys {
		allow(k)
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := int(rand.Uint32())
		for pb.Next() {
			i++
			if !allow(keys[picks[i&(len(picks)-1)]]) {
				b.Error("denied")
			}
		}
	})
}

func limiterAllow(l *caudal.Limiter) func(string) bool {
	ctx := context.Background()
	return func(key string) bool {
		d, err := l.Allow(ctx, key)
		return err == nil && d.Allowed
	}
}

func floorAllow(n int) func(string) bool {
	m := &mutexMap{m: make(map[string]state, n), base: time.Now()}
	return m.allow
}

func BenchmarkZipf1M(b *testing.B) {
	benchKeys(b, keySet.of(1_000_000), zipf1M(), limiterAllow(newLimiter(b, generous)))
}

func BenchmarkFloorMutexMapZipf1M(b *testing.B) {
	benchKeys(b, keySet.of(1_000_000), zipf1M(), floorAllow(1_000_000))
}

func BenchmarkUniform10M(b *testing.B) {
	benchKeys(b, keySet.of(10_000_000), uniform(10_000_000), limiterAllow(newLimiter(b, generous)))
}

func BenchmarkFloorMutexMapUniform10M(b *testing.B) {
	benchKeys(b, keySet.of(10_000_000), uniform(10_000_000), floorAllow(10_000_000))
}

// BenchmarkChurn makes every key new, as an attacker does who invents them, over
// a store that is full.
func BenchmarkChurn(b *testing.B) {
	l, err := caudal.New(memstore.New(memstore.Options{MaxKeys: 1_000_000}), caudal.PerHour(1000))
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	key := make([]byte, 0, 32)
	i := int64(0)
	next := func() {
		i++
		key = strconv.AppendInt(append(key[:0], "made-up-"...), i, 10)
		if _, err := l.Allow(ctx, string(key)); err != nil {
			b.Fatal(err)
		}
	}
	for range 1_100_000 {
		next()
	}
	b.ReportAllocs()
	for b.Loop() {
		next()
	}
}

// benchMemory tells what n keys take, and how long a full collection lasts beside
// them. The keys' names are made on the way: held, they would be a work for the
// collector that is not the store's.
func benchMemory(b *testing.B, n int) {
	ctx := context.Background()
	for b.Loop() {
		before := heapAfterGC()
		l := newLimiter(b, caudal.PerDay(10)) // no key is fresh again meanwhile
		name := []byte("user")
		for i := range n {
			key := strconv.AppendInt(name, int64(10_000_000+i), 10)
			if _, err := l.Allow(ctx, string(key)); err != nil {
				b.Fatal(err)
			}
		}
		after := heapAfterGC()
		start := time.Now()
		runtime.GC()
		gc := time.Since(start)
		b.ReportMetric(float64(after-before)/float64(n), "heap-B/key")
		b.ReportMetric(gc.Seconds()*1000, "GC-ms")
		runtime.KeepAlive(l)
	}
}

func heapAfterGC() int64 {
	keySet.forget()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkMemory1M(b *testing.B)  { benchMemory(b, 1_000_000) }
func BenchmarkMemory10M(b *testing.B) { benchMemory(b, 10_000_000) }
