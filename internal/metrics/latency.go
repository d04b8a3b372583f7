package metrics

import (
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Timing is a histogram at a moment: how many calls took at most each bound, in
// seconds. The last bound is infinity. Its zero value has no calls.
type Timing struct {
	bounds []float64
	counts []uint64 // cumulative
}

// Count gives how many calls were timed.
func (t Timing) Count() uint64 {
	if len(t.counts) == 0 {
		return 0
	}
	return t.counts[len(t.counts)-1]
}

// Since gives what was timed after an earlier moment.
func (t Timing) Since(before Timing) Timing {
	if len(before.counts) != len(t.counts) {
		return t
	}
	counts := make([]uint64, len(t.counts))
	for i := range counts {
		counts[i] = t.counts[i] - before.counts[i]
	}
	return Timing{t.bounds, counts}
}

// Quantile gives the time, in seconds, within which the share q of calls was done:
// between the bounds of a bucket the calls are taken to lie evenly. 0 without calls.
func (t Timing) Quantile(q float64) float64 {
	rank := q * float64(t.Count())
	if rank <= 0 {
		return 0
	}
	lower, below := 0.0, uint64(0)
	for i, n := range t.counts {
		if float64(n) >= rank {
			if math.IsInf(t.bounds[i], 1) {
				return lower
			}
			return lower + (t.bounds[i]-lower)*(rank-float64(below))/float64(n-below)
		}
		lower, below = t.bounds[i], n
	}
	return lower
}

// DecisionTiming gives the times of decisions since the start.
func (m *Metrics) DecisionTiming() Timing { return timingOf(m.duration) }

// Timing gives the times of all calls of the store since the start.
func (c *StoreCalls) Timing() Timing { return timingOf(c.durations) }

// Failures gives how many of them failed.
func (c *StoreCalls) Failures() (sum uint64) {
	for _, n := range c.failed() {
		sum += n
	}
	return sum
}

// timingOf adds up the histograms of a collector, which have the same buckets.
func timingOf(c prometheus.Collector) Timing {
	ch := make(chan prometheus.Metric, 64)
	go func() { c.Collect(ch); close(ch) }()
	var t Timing
	for metric := range ch {
		var out dto.Metric
		if metric.Write(&out) != nil || out.Histogram == nil {
			continue
		}
		buckets := out.Histogram.GetBucket()
		if t.bounds == nil {
			for _, b := range buckets {
				t.bounds = append(t.bounds, b.GetUpperBound())
			}
			if n := len(t.bounds); n == 0 || !math.IsInf(t.bounds[n-1], 1) {
				t.bounds = append(t.bounds, math.Inf(1))
			}
			t.counts = make([]uint64, len(t.bounds))
		}
		for _, b := range buckets {
			if i := slices.Index(t.bounds, b.GetUpperBound()); i >= 0 && i < len(t.counts)-1 {
				t.counts[i] += b.GetCumulativeCount()
			}
		}
		t.counts[len(t.counts)-1] += out.Histogram.GetSampleCount()
	}
	return t
}
