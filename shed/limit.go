package shed

import (
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// How the limit is found. Of the settings tried, by simulation on upstreams of 4
// to 100 workers under three times their capacity, these kept all of them busy
// (over 90 % of capacity) at the shortest queues in the upstream; docs/overload.md has the
// figures. The library's own defaults forget what an unloaded upstream was like
// within ten windows, and look for it by letting the limit fall.
const (
	window        = 100 * time.Millisecond // of recent response times
	windowLongest = 5 * time.Second
	windowSamples = 20
	quantile      = 0.9
	baseline      = 50 // windows that the normal response time is an average of
	correlation   = 20 // windows in which more calls must have given more answers
	headroom      = 5  // how far the limit may be above the calls under way
	peakWindow    = 30 * time.Second
)

// newLimit makes the limiter. bound is the most that it may find, and 0 for no
// bound.
func newLimit(o *Options, bound *atomic.Int64) adaptivelimiter.AdaptiveLimiter[any] {
	return adaptivelimiter.NewBuilder[any]().
		WithLimits(uint(o.MinLimit), uint(o.MaxLimit), uint(o.Initial)).
		WithRecentWindow(window, windowLongest, windowSamples).
		WithRecentQuantile(quantile).
		WithBaselineWindow(baseline).
		WithCorrelationWindow(correlation).
		WithMaxLimitFunc(func(inflight int) float64 {
			most := headroom * float64(inflight)
			if b := bound.Load(); b > 0 {
				most = min(most, float64(b))
			}
			return most
		}).
		WithMaxLimitStabilizationWindow(peakWindow).
		Build()
}
