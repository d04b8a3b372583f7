package faults_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/failover"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// BenchmarkFault measures what callers notice of a fault, with the default
// deadline of 5 ms: how long calls take until the breaker opens (at most the
// deadline and 10 ms is the aim) and after it has (1 ms), and how long it takes to
// open and to recover. One iteration is one fault of a second.
func BenchmarkFault(b *testing.B) {
	for _, f := range []struct {
		name       string
		begin, end func(*redistest.Server)
	}{
		{"paused", (*redistest.Server).Pause, (*redistest.Server).Resume},
		{"killed", (*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		b.Run(f.name, func(b *testing.B) {
			for b.Loop() {
				measureFault(b, f.begin, f.end)
			}
		})
	}
}

// phases of a fault.
const (
	healthy = iota
	searching
	open
)

func measureFault(b *testing.B, begin, end func(*redistest.Server)) {
	server := redistest.Start(b)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	redis, err := redisstore.Open(ctx, server.URL(), redisstore.Options{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer redis.Close()
	store := failover.New(redis, failover.Options{ExpectedInstances: 1, Inline: true})
	defer store.Close()
	limit, err := caudal.PerSecond(1_000_000).Compile("", "bench")
	if err != nil {
		b.Fatal(err)
	}
	var phase atomic.Int32
	var done atomic.Bool
	var mu sync.Mutex
	var took [3][]time.Duration
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var own [3][]time.Duration
			for !done.Load() {
				p, asked := phase.Load(), time.Now()
				if _, err := store.TakeKey(context.Background(), caudal.Instant{}, limit, "key", 1); err != nil {
					b.Error(err)
				}
				if phase.Load() == p {
					own[p] = append(own[p], time.Since(asked))
				}
				time.Sleep(time.Millisecond) // some thousand calls a second, not as many as fit
			}
			mu.Lock()
			defer mu.Unlock()
			for p := range own {
				took[p] = append(took[p], own[p]...)
			}
		})
	}
	wait := func(degraded bool) time.Duration {
		begun := time.Now()
		for store.Degraded() != degraded && time.Since(begun) < patience {
			time.Sleep(100 * time.Microsecond)
		}
		return time.Since(begun)
	}
	time.Sleep(300 * time.Millisecond) // the healthy phase
	phase.Store(searching)
	begin(server)
	opened := wait(true)
	phase.Store(open)
	time.Sleep(time.Second) // the fault
	end(server)
	recovered := wait(false)
	done.Store(true)
	wg.Wait()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for p, name := range [3]string{"healthy-p99.9-ms", "until-open-p99.9-ms", "open-p99.9-ms"} {
		slices.Sort(took[p])
		if n := len(took[p]); n > 0 {
			b.ReportMetric(ms(took[p][min(n-1, n*999/1000)]), name)
		}
	}
	b.ReportMetric(ms(opened), "to-open-ms")
	b.ReportMetric(ms(recovered), "to-recover-ms")
}
