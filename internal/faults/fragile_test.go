package faults_test

import (
	"context"
	"fmt"
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

// An upstream that falls over above 52 calls in any second, behind a leaky bucket
// of 50/s that two gateways share, survives the death and the return of Redis: the
// rate, and one call more per gateway.
func TestFragileUpstreamSurvivesTheLossOfRedis(t *testing.T) {
	server := redistest.Start(t)
	limit, err := caudal.PerSecond(50).WithQueue(60, 0).Compile("legacy", "legacy")
	if err != nil {
		t.Fatal(err)
	}
	var arrivals arrivals
	var gateways []*failover.Store
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer func() { cancel(); wg.Wait() }()
	for range 2 {
		open, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		redis, err := redisstore.Open(open, server.URL(), redisstore.Options{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer redis.Close()
		store := failover.New(redis, failover.Options{Deadline: deadline, ExpectedInstances: 2, Inline: true})
		defer store.Close()
		gateways = append(gateways, store)
		for range 50 { // more than the queue holds, so that the upstream is always busy
			wg.Go(func() { callAgainAndAgain(ctx, store, limit, &arrivals) })
		}
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for begun := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Since(begun) > patience {
				t.Fatalf("%s did not happen within %s", what, patience)
			}
		}
	}
	degraded := func() bool { return gateways[0].Degraded() && gateways[1].Degraded() }
	healthy := func() bool { return !gateways[0].Degraded() && !gateways[1].Degraded() }

	arrivals.await(t, 100)
	server.Kill()
	await("the loss of Redis", degraded)
	arrivals.await(t, 100)
	server.Restart()
	await("the return of Redis", healthy)
	arrivals.await(t, 100)
	cancel()
	wg.Wait()

	if n, at := arrivals.most(time.Second); n > 52 {
		t.Errorf("the upstream got %d calls in the second from %s on, want at most 52 (%s)", n, at.Format("05.000"), arrivals.story())
	}
}

// callAgainAndAgain asks for turns, and calls the upstream at each.
func callAgainAndAgain(ctx context.Context, store caudal.KeyStore, limit *caudal.Compiled, up *arrivals) {
	for ctx.Err() == nil {
		asked := time.Now()
		d, err := store.TakeKey(ctx, caudal.Instant{}, limit, "upstream", 1)
		if err != nil || !d.Allowed {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		answered := time.Now()
		// The turn counts from the instant of the decision, which lies between the
		// question and the answer: from the latter the call is never early.
		select {
		case <-time.After(time.Until(answered.Add(d.Delay))):
			up.add(asked.Add(d.Delay), time.Now())
		case <-ctx.Done():
		}
	}
}

// arrivals are the calls that reached the upstream.
type arrivals struct {
	count atomic.Int64
	mu    sync.Mutex
	turns []time.Time // the earliest that each may have been given
	late  time.Duration
}

func (a *arrivals) add(turn, now time.Time) {
	a.count.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turns = append(a.turns, now)
	a.late = max(a.late, now.Sub(turn))
}

// await waits for n more calls.
func (a *arrivals) await(t *testing.T, n int64) {
	t.Helper()
	target := a.count.Load() + n
	for begun := time.Now(); a.count.Load() < target; time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("%d calls of %d reached the upstream within %s", n-target+a.count.Load(), n, patience)
		}
	}
}

// most gives the largest number of calls in an interval so long, less what the
// machine was late at the worst: a call that is late by itself runs into those
// after it, which is not the limiter's doing.
func (a *arrivals) most(interval time.Duration) (n int, from time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.turns, time.Time.Compare)
	interval -= min(a.late, interval/4)
	for i, first := 0, 0; i < len(a.turns); i++ {
		for a.turns[i].Sub(a.turns[first]) >= interval {
			first++
		}
		if i-first+1 > n {
			n, from = i-first+1, a.turns[first]
		}
	}
	return n, from
}

// story tells how many calls came in each tenth of a second, and how late the
// machine was.
func (a *arrivals) story() string {
	counts := make([]int, int(a.turns[len(a.turns)-1].Sub(a.turns[0])/(100*time.Millisecond))+1)
	for _, t := range a.turns {
		counts[t.Sub(a.turns[0])/(100*time.Millisecond)]++
	}
	return fmt.Sprintf("from %s on, by tenths: %v; at most %s late", a.turns[0].Format("05.000"), counts, a.late)
}
