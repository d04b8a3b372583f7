package redisstore_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/redisstore"
)

// sizingUsers is how many users have counters, each of its own.
const sizingUsers = 200_000

// BenchmarkSizing gives the figures of docs/sizing.md: what the counters of one user
// take in Redis, and what one call takes of its CPU.
func BenchmarkSizing(b *testing.B) {
	rate, day := caudal.PerMinute(1000), caudal.PerDay(1_000_000).With(caudal.FixedWindow)
	month := caudal.Per(10_000_000, caudal.Month).With(caudal.FixedWindow)
	for _, set := range []struct {
		name   string
		limits []caudal.Limit
		calls  int // of each user
	}{
		{"token_bucket", []caudal.Limit{rate}, 1},
		{"fixed_window", []caudal.Limit{day}, 1},
		{"sliding_window", []caudal.Limit{caudal.PerHour(1000).With(caudal.SlidingWindow)}, 1},
		{"leaky_bucket", []caudal.Limit{caudal.PerHour(10).WithQueue(100, 0)}, 1},
		{"sliding_log-1", []caudal.Limit{caudal.PerHour(100).With(caudal.SlidingLog)}, 1},
		{"sliding_log-20", []caudal.Limit{caudal.PerHour(100).With(caudal.SlidingLog)}, 20},
		{"rate_and_day", []caudal.Limit{rate, day}, 1},
		{"rate_day_and_month", []caudal.Limit{rate, day, month}, 1},
	} {
		b.Run(set.name, func(b *testing.B) {
			// Rates by the minute would be forgotten before the last user has called.
			var compiled []*caudal.Compiled
			for _, l := range set.limits {
				if l.Unit == caudal.Minute {
					l.Requests, l.Unit = 1000, caudal.Day
				}
				compiled = append(compiled, compile(b, l))
			}
			for b.Loop() {
				fill(b, compiled, set.calls)
			}
		})
	}
}

// fill lets every user call, and reports what that took.
func fill(b *testing.B, limits []*caudal.Compiled, calls int) {
	r, s := single(b, redisstore.Options{})
	memory, cpu := r.InfoInt("memory", "used_memory"), serverCPU(b, r)
	users := sizingUsers / calls
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			ask, out := make([]caudal.Call, len(limits)), make([]caudal.Decision, len(limits))
			for {
				n := next.Add(1) - 1
				if n >= int64(users*calls) {
					return
				}
				key := strconv.AppendInt([]byte("user:"), n%int64(users), 10)
				for i, l := range limits {
					ask[i] = caudal.Call{Limit: l, Key: key, Cost: 1}
				}
				if err := s.Take(context.Background(), caudal.Instant{}, ask, out); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(0, "ns/op") // how long a fill takes says nothing
	b.ReportMetric(float64(r.InfoInt("memory", "used_memory")-memory)/float64(users), "B/user")
	b.ReportMetric((serverCPU(b, r)-cpu)*1e6/float64(users*calls), "server-us/call")
}
