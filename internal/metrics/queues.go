package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

var _ httplimit.QueueObserver = (*Metrics)(nil)

var depthDesc = prometheus.NewDesc("caudal_queue_depth",
	"Calls held here until their turn in a leaky_bucket.", []string{"domain", "rule"}, nil)

// queues count who waits in the leaky buckets in force, by name.
type queues struct{ kept[atomic.Int64] }

// set puts the queues of some domains in the place of those before.
func (q *queues) set(domains []*rule.Domain) {
	var names []series
	for _, d := range domains {
		for _, l := range d.Limits() {
			if !l.Unlimited && l.Compiled.Algorithm() == caudal.LeakyBucket {
				names = append(names, series{l.Domain, l.Name})
			}
		}
	}
	q.keep(names, func(n *atomic.Int64) bool { return n.Load() != 0 })
}

// Waiting counts who waits; see httplimit.QueueObserver.
func (m *Metrics) Waiting(domain string, l *caudal.Compiled, change int) {
	m.queues.of(series{domain, l.Name()}).Add(int64(change))
}

// waiting tells how many wait in a queue; 0 where there is none.
func (q *queues) waiting(name series) int64 {
	if n := q.known(name); n != nil {
		return n.Load()
	}
	return 0
}

func (q *queues) collect(out chan<- prometheus.Metric) {
	q.each(func(name series, n *atomic.Int64) {
		out <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(n.Load()), name.domain, name.rule)
	})
}
