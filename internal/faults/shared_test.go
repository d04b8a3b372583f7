package faults_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

func openStore(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	store, err := redisstore.Open(ctx, url, redisstore.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// C33: two nodes with more than the limit between them, for some windows: none
// admits more than 500, nothing is counted twice or forgotten.
func TestC33NoWindowAdmitsMoreThanTheLimit(t *testing.T) {
	server := redistest.Start(t)
	limit, err := caudal.PerSecond(500).With(caudal.FixedWindow).Compile("", "c33")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	admitted := map[int64]int{} // by the start of the window that was charged
	asked := map[int64]int{}
	var wg sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	for range 2 {
		store := openStore(t, server.URL())
		for range 8 {
			wg.Go(func() {
				for time.Now().Before(end) {
					d, err := store.TakeKey(context.Background(), caudal.Instant{}, limit, "key", 1)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					asked[time.Now().Unix()]++
					if d.Charged {
						admitted[d.Receipt.At]++
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for window, n := range admitted {
		second := window / 1e6
		if n > 500 {
			t.Errorf("the window of second %d admitted %d, want at most 500", second, n)
		}
		// A whole second in which far more was asked than fits must be used up.
		if second > end.Unix()-3 && second < end.Unix()-1 && asked[second] > 1000 && n < 500 {
			t.Errorf("the window of second %d admitted %d of %d, want 500", second, n, asked[second])
		}
	}
}

// A failover by Sentinel loses at most what the old master had not sent on: it is
// counted here, and reported.
func TestSentinelFailoverLosesOnlyWhatWasNotReplicated(t *testing.T) {
	group := redistest.StartSentinels(t)
	store := openStore(t, group.URL())
	limit, err := caudal.Per(1_000_000_000, caudal.Year).With(caudal.FixedWindow).Compile("", "failover")
	if err != nil {
		t.Fatal(err)
	}
	charge := func(cost uint32) (caudal.Decision, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return store.TakeKey(ctx, caudal.Instant{}, limit, "key", cost)
	}
	var acknowledged, failed atomic.Int64
	var recent [1 << 16]atomic.Int64
	begun := time.Now()
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				if _, err := charge(1); err != nil {
					failed.Add(1)
				} else {
					acknowledged.Add(1)
					recent[time.Since(begun).Milliseconds()&(1<<16-1)].Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	defer func() { done.Store(true); wg.Wait() }()
	for acknowledged.Load() < 200 {
		time.Sleep(time.Millisecond)
	}
	from := time.Since(begun).Milliseconds()
	group.Failover()
	to := time.Since(begun).Milliseconds()
	target := acknowledged.Load() + 200
	for waited := time.Now(); acknowledged.Load() < target; time.Sleep(5 * time.Millisecond) {
		if time.Since(waited) > patience {
			t.Fatalf("no charges after the failover within %s", patience)
		}
	}
	done.Store(true)
	wg.Wait()
	d, err := charge(0)
	if err != nil {
		t.Fatal(err)
	}
	counted := int64(d.Limit - d.Remaining)
	lost := acknowledged.Load() - counted
	t.Logf("%d charges acknowledged, %d failed, %d counted, %d lost", acknowledged.Load(), failed.Load(), counted, lost)
	// Replication is asynchronous but here runs behind by milliseconds: what was
	// charged well before the failover must all be there.
	atRisk := int64(0)
	for ms := max(0, from-1000); ms <= to; ms++ {
		atRisk += recent[ms&(1<<16-1)].Load()
	}
	if lost > atRisk {
		t.Errorf("%d charges were lost, more than the %d from a second before the failover on", lost, atRisk)
	}
	if lost < -failed.Load() {
		t.Errorf("%d charges were counted that nobody made", -lost-failed.Load())
	}
}
