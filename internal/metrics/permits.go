package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

var _ httplimit.PermitObserver = (*Metrics)(nil)

var inflightDesc = prometheus.NewDesc("caudal_inflight",
	"Calls under way here that hold a permit of a concurrency limit.", []string{"domain", "rule"}, nil)

// permits are the counts of the concurrency limits in force, by name.
type permits struct {
	kept[permitCounters]
	// inForce are the limits of the rules in force, in their order.
	inForce atomic.Pointer[[]*rule.Concurrency]
}

type permitCounters struct {
	held atomic.Int64
	n    [len(outcomes)]atomic.Uint64
}

// set puts the concurrency limits of some domains in the place of those before.
func (p *permits) set(domains []*rule.Domain) {
	var inForce []*rule.Concurrency
	var names []series
	for _, d := range domains {
		for _, l := range d.Concurrencies() {
			inForce = append(inForce, l)
			names = append(names, series{l.Domain, l.Name})
		}
	}
	p.keep(names, func(c *permitCounters) bool { return c.held.Load() != 0 })
	p.inForce.Store(&inForce)
}

// PermitDecided counts what became of a concurrency limit in a call; see
// httplimit.PermitObserver.
func (m *Metrics) PermitDecided(domain string, l *caudal.CompiledConcurrency, result httplimit.Result) {
	m.permits.of(series{domain, l.Name()}).n[result].Add(1)
}

// PermitsHeld counts the calls under way; see httplimit.PermitObserver.
func (m *Metrics) PermitsHeld(domain string, l *caudal.CompiledConcurrency, change int) {
	m.permits.of(series{domain, l.Name()}).held.Add(int64(change))
}

// LivePermits is what is going on with a concurrency limit.
type LivePermits struct {
	Limit *rule.Concurrency
	// UnderWay is how many calls of this process hold a permit.
	UnderWay int64
	// Total is by outcome since the rule was loaded.
	Total map[string]uint64
}

// LivePermits tells what is going on with every concurrency limit in force, in the
// order of the rules.
func (m *Metrics) LivePermits() []LivePermits {
	inForce := m.permits.inForce.Load()
	if inForce == nil {
		return []LivePermits{}
	}
	lives := make([]LivePermits, 0, len(*inForce))
	for _, l := range *inForce {
		c := m.permits.of(series{l.Domain, l.Name})
		live := LivePermits{Limit: l, UnderWay: c.held.Load(), Total: make(map[string]uint64, len(outcomes))}
		for i, outcome := range outcomes {
			live.Total[outcome] = c.n[i].Load()
		}
		lives = append(lives, live)
	}
	return lives
}

func (p *permits) collect(out chan<- prometheus.Metric) {
	p.each(func(name series, c *permitCounters) {
		out <- prometheus.MustNewConstMetric(inflightDesc, prometheus.GaugeValue, float64(c.held.Load()), name.domain, name.rule)
		for i, outcome := range outcomes {
			out <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(c.n[i].Load()), name.domain, name.rule, outcome)
		}
	})
}
