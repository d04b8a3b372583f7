package faults_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/failover"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/redisstore"
	"github.com/caudal-dev/caudal/rule"
)

// regionNames are three regions, each with a Redis of its own.
var regionNames = []string{"eu", "us", "ap"}

// fatal is what a *testing.T and a *rapid.T have in common.
type fatal interface {
	Helper()
	Fatal(args ...any)
}

// inRegion reads rules as the instances of one region do, and gives the first limit.
func inRegion(t fatal, region, rateLimit string) *caudal.Compiled {
	t.Helper()
	set, _, err := rule.Options{Region: region, AllRegions: region == ""}.Parse("rules.yaml",
		[]byte("domain: d\ndescriptors:\n  - key: api_key\n    rate_limit: {"+rateLimit+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return set.Limits()[0].Compiled
}

// Whatever three regions let pass by their shares, the limit alone would have let
// pass too: each call that one of them admits is charged to the whole limit at the
// same instant, and there is always room. It holds for every mix of costs, times and
// shares, in all algorithms but the sliding window, whose estimate is rounded down
// once in each region; there each window holds at most the limit.
func TestRegionsTogetherNeverPassTheLimit(t *testing.T) {
	var stores []*redisstore.Store
	for range regionNames {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		store, err := redisstore.Open(ctx, redistest.Start(t).URL(), redisstore.Options{Logger: quiet, CallerTime: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		stores = append(stores, store)
	}
	run := 0
	for _, form := range []string{
		"algorithm: token_bucket", "algorithm: token_bucket, burst: %d", "algorithm: fixed_window", "algorithm: sliding_log",
		"algorithm: leaky_bucket, queue: %d", "algorithm: leaky_bucket, queue: %d, max_wait: 30s", "algorithm: sliding_window",
	} {
		t.Run(form, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				run++
				regionsTrace(t, stores, form, fmt.Sprintf("key %d", run))
			})
		})
	}
}

// regionsTrace makes calls in all regions, and charges what they admit to the whole.
func regionsTrace(t *rapid.T, stores []*redisstore.Store, form, key string) {
	eu := rapid.IntRange(10, 80).Draw(t, "eu")
	us := rapid.IntRange(10, 90-eu).Draw(t, "us")
	ap := rapid.IntRange(10, 100-eu-us).Draw(t, "ap")
	if strings.Contains(form, "%") {
		form = fmt.Sprintf(form, rapid.IntRange(10, 60).Draw(t, "at once"))
	}
	limit := fmt.Sprintf("unit: minute, requests_per_unit: %d, %s, scope: global, share: {eu: %d, us: %d, ap: %d}",
		rapid.IntRange(20, 60).Draw(t, "requests"), form, eu, us, ap)
	whole := inRegion(t, "", limit)
	var parts []*caudal.Compiled
	for _, region := range regionNames {
		parts = append(parts, inRegion(t, region, limit))
	}
	alone := memstore.New(memstore.Options{})
	defer alone.Close()
	ctx := context.Background()
	windows := map[int64]uint64{}
	now := int64(1_800_000_000_000_000)
	for range rapid.IntRange(20, 60).Draw(t, "calls") {
		now += rapid.SampledFrom([]int64{0, 0, 0, 1, 500_000, 7_000_000, 31_000_000}).Draw(t, "later by")
		at := caudal.Instant{Mono: now, Wall: now}
		i := rapid.IntRange(0, len(parts)-1).Draw(t, "region")
		cost := rapid.Uint32Range(1, 8).Draw(t, "cost")
		d, err := stores[i].TakeKey(ctx, at, parts[i], key, cost)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed {
			continue
		}
		if whole.Algorithm() == caudal.SlidingWindow {
			window := now / whole.Limit().Period().Microseconds()
			if windows[window] += uint64(cost); windows[window] > whole.Requests() {
				t.Fatalf("%s: %d in one window", limit, windows[window])
			}
			continue
		}
		if d, err = alone.TakeKey(ctx, at, whole, key, cost); err != nil || !d.Allowed {
			t.Fatalf("%s: region %s let a call of cost %d pass, and the whole has %d left (%v)", limit, regionNames[i], cost, d.Remaining, err)
		}
	}
}

// A region that is cut off from its Redis counts by itself; the others have no part
// in it: every answer still comes from their own Redis, within their own deadline.
func TestRegionCutOffDelaysNoOther(t *testing.T) {
	const limit = "unit: year, requests_per_unit: 1000000, algorithm: fixed_window, scope: global, share: {eu: 50, us: 30, ap: 20}"
	type region struct {
		wire   *wire
		store  *failover.Store
		limit  *caudal.Compiled
		failed atomic.Int64
	}
	var regions []*region
	for _, name := range regionNames {
		r := &region{wire: newWire(t, redistest.Start(t).Addr), limit: inRegion(t, name, limit)}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		redis, err := redisstore.Open(ctx, r.wire.url(), redisstore.Options{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		r.store = failover.New(redis, failover.Options{Deadline: time.Second, ExpectedInstances: 1})
		t.Cleanup(func() { _ = r.store.Close(); _ = redis.Close() })
		regions = append(regions, r)
	}
	// measure makes calls in every region at once and gives the median time in each.
	measure := func() []time.Duration {
		medians := make([]time.Duration, len(regions))
		var wg sync.WaitGroup
		for i, r := range regions {
			wg.Go(func() {
				var took []time.Duration
				for range 200 {
					begun := time.Now()
					d, err := r.store.TakeKey(context.Background(), caudal.Instant{}, r.limit, "key", 1)
					took = append(took, time.Since(begun))
					if err != nil {
						t.Error(err)
						return
					}
					if d.Degraded {
						r.failed.Add(1)
					}
				}
				slices.Sort(took)
				medians[i] = took[len(took)/2]
			})
		}
		wg.Wait()
		return medians
	}
	before := measure()
	regions[0].wire.breakIt(`{"name":"cut","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`)
	during := measure()
	t.Logf("median of a call in %v: %v, and with %s cut off: %v", regionNames, before, regionNames[0], during)
	if regions[0].failed.Load() == 0 {
		t.Error("the region that was cut off never counted by itself: the cut did not work")
	}
	for i := 1; i < len(regions); i++ {
		if n := regions[i].failed.Load(); n > 0 {
			t.Errorf("region %s, which was not cut off, counted %d calls by itself", regionNames[i], n)
		}
		if during[i] > 10*before[i]+patience/100 {
			t.Errorf("region %s took %s for a call while another was cut off, and %s before", regionNames[i], during[i], before[i])
		}
	}
}
