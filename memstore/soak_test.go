package memstore_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// soak lengthens tests: make soak.
var soak = os.Getenv("CAUDAL_SOAK") != ""

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Ten million keys (a fraction outside make soak): at most 48 bytes of heap each,
// all still counted, and a collection that hardly notices them.
func TestSoakManyKeys(t *testing.T) {
	n := 300_000
	if soak {
		n = 10_000_000
	}
	before := liveHeap()
	clock := caudal.NewSystemClock()
	store := memstore.New(memstore.Options{MaxKeys: 2 * n, Clock: clock})
	l := caudal.Must(caudal.New(store, caudal.PerDay(2)))
	key := func(i int) string { return strconv.Itoa(i) }
	for i := range n {
		if d, err := l.Allow(t.Context(), key(i)); err != nil || d.Remaining != 1 {
			t.Fatalf("key %d: %+v, %v", i, d, err)
		}
	}
	if each := float64(liveHeap()-before) / float64(n); each > 48 {
		t.Errorf("%d keys take %.1f bytes each, want at most 48", n, each)
	}
	begun := time.Now()
	runtime.GC()
	if took := time.Since(begun); took > 500*time.Millisecond { // the aim is 10 ms, without -race
		t.Errorf("a full collection takes %s", took)
	}
	for i := 0; i < n; i += n / 1000 {
		if d, err := l.Peek(t.Context(), key(i)); err != nil || d.Remaining != 1 {
			t.Errorf("key %d later: %+v, %v, want 1 remaining", i, d, err)
		}
	}
	if store.Len() != n {
		t.Errorf("the store holds %d keys, want %d", store.Len(), n)
	}
}

// Minutes of load on few keys and many (a second outside make soak): what each key
// admitted never exceeds its burst and what flowed back.
func TestSoakNoKeyAdmitsTooMuch(t *testing.T) {
	lasts := time.Second
	if soak {
		lasts = 2 * time.Minute
	}
	const keys, rate, burst = 200, 50, 20
	store := memstore.New(memstore.Options{})
	l := caudal.Must(caudal.New(store, caudal.PerSecond(rate).WithBurst(burst)))
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	begun := time.Now()
	var mu sync.Mutex
	admitted := map[int]int{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			own := map[int]int{}
			for i := g; ctx.Err() == nil; i++ {
				d, err := l.Allow(context.Background(), strconv.Itoa(i%keys))
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					own[i%keys]++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range own {
				admitted[k] += n
			}
		})
	}
	wg.Wait()
	most := burst + int(time.Since(begun).Seconds()*rate) + 1
	for k, n := range admitted {
		if n > most {
			t.Errorf("key %d admitted %d in %s, want at most %d", k, n, time.Since(begun), most)
		}
	}
}
