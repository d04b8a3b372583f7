package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

var _ httplimit.QueueObserver = (*Metrics)(nil)

var depthDesc = prometheus.NewDesc("caudal_queue_depth",
	"Calls held here until their turn in a leaky_bucket.", []string{"domain", "rule"}, nil)

// queues count who waits in the leaky buckets in force, by name. They outlive
// reloads for as long as the rule does, or calls wait.
type queues struct {
	mu  sync.RWMutex
	all map[series]*atomic.Int64
}

// set puts the queues of some domains in the place of those before.
func (q *queues) set(domains []*rule.Domain) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := map[series]*atomic.Int64{}
	for name, n := range q.all {
		if n.Load() != 0 {
			all[name] = n
		}
	}
	for _, d := range domains {
		for _, l := range d.Limits() {
			if l.Unlimited || l.Compiled.Algorithm() != caudal.LeakyBucket {
				continue
			}
			name := series{l.Domain, l.Name}
			if all[name] = q.all[name]; all[name] == nil {
				all[name] = new(atomic.Int64)
			}
		}
	}
	q.all = all
}

// of gives the count of a queue. One that a reload took away counts on while calls
// wait in it.
func (q *queues) of(name series) *atomic.Int64 {
	q.mu.RLock()
	n := q.all[name]
	q.mu.RUnlock()
	if n != nil {
		return n
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n = q.all[name]; n == nil {
		if n = new(atomic.Int64); q.all == nil {
			q.all = map[series]*atomic.Int64{}
		}
		q.all[name] = n
	}
	return n
}

// Waiting counts who waits; see httplimit.QueueObserver.
func (m *Metrics) Waiting(domain string, l *caudal.Compiled, change int) {
	m.queues.of(series{domain, l.Name()}).Add(int64(change))
}

// waiting tells how many wait in a queue; 0 where there is none.
func (q *queues) waiting(name series) int64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if n := q.all[name]; n != nil {
		return n.Load()
	}
	return 0
}

func (q *queues) collect(out chan<- prometheus.Metric) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	for name, n := range q.all {
		out <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(n.Load()), name.domain, name.rule)
	}
}
