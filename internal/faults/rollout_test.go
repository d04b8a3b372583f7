package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/redisstore"
	"github.com/caudal-dev/caudal/storetest"
)

// During a rollout one node has a limit of 100 and another of 10 on the same key.
// For windows, the log and the leaky bucket neither admits once the shared state
// has reached its own number, and neither changes what the other counts. A token
// bucket gives no error, and what remains is in range.
func TestRolloutWithTwoNumbersOnOneKey(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		clock := storetest.NewClock(storetest.Start)
		rollout(t, memstore.New(memstore.Options{Clock: clock}))
	})
	t.Run("redis", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		store, err := redisstore.Open(ctx, redistest.Start(t).URL(), redisstore.Options{Logger: quiet, CallerTime: true})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rollout(t, store)
	})
}

func rollout(t *testing.T, store caudal.Store) {
	for i, large := range hundred() {
		small := large
		small.Requests = 10
		if small.Algorithm == caudal.LeakyBucket {
			small.Queue = 9
		}
		t.Run(large.Algorithm.String(), func(t *testing.T) {
			key := fmt.Sprint("key ", i)
			nodes := map[uint64]*caudal.Limiter{
				100: caudal.Must(caudal.New(store, large)),
				10:  caudal.Must(caudal.New(store, small)),
			}
			ask := func(limit uint64, cost uint32) caudal.Decision {
				t.Helper()
				d, err := nodes[limit].AllowAt(context.Background(), caudal.At(storetest.Start), key, cost)
				if err != nil {
					t.Fatal(err)
				}
				if d.Limit != limit || d.Remaining > d.Limit {
					t.Fatalf("the node of %d says %d remain of %d", limit, d.Remaining, d.Limit)
				}
				return d
			}
			if large.Algorithm == caudal.TokenBucket {
				for range 30 { // what passes is stated in docs; here: no error, always in range
					ask(100, 1)
					ask(10, 1)
				}
				return
			}
			admitted := uint64(0)
			for round := range 150 {
				for _, limit := range []uint64{10, 100} {
					before := ask(100, 0).Remaining
					d := ask(limit, 1)
					if d.Allowed && !hasRoom(nodes[limit].Limit(), admitted, d) {
						t.Fatalf("round %d: the node of %d admits with %d counted, delay %s", round, limit, admitted, d.Delay)
					}
					after := ask(100, 0).Remaining
					if d.Allowed {
						admitted++
					} else if after != before {
						t.Fatalf("round %d: a denial by the node of %d changed the count of the other from %d to %d left", round, limit, before, after)
					}
				}
			}
			if large.Algorithm != caudal.LeakyBucket && admitted != 100 {
				t.Errorf("admitted %d in all, want 100", admitted)
			}
		})
	}
}

// hasRoom reports whether a node could admit by its own number: what was counted
// before is below it, and of a leaky bucket, whose state is the last turn, the turn
// lies within its own queue.
func hasRoom(l caudal.Limit, counted uint64, d caudal.Decision) bool {
	if l.Algorithm != caudal.LeakyBucket {
		return counted < uint64(l.Requests)
	}
	return d.Delay <= l.Period()/time.Duration(l.Requests)*time.Duration(l.Queue)+time.Microsecond
}
