package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

var _ httplimit.PermitObserver = (*Metrics)(nil)

var inflightDesc = prometheus.NewDesc("caudal_inflight",
	"Calls under way here that hold a permit of a concurrency limit.", []string{"domain", "rule"}, nil)

// permits are the counts of the concurrency limits in force, by name. They outlive
// reloads for as long as the rule does, or calls hold its permits.
type permits struct {
	mu  sync.RWMutex
	all map[series]*permitCounters
	// inForce are the limits of the rules in force, in their order.
	inForce []*rule.Concurrency
}

type permitCounters struct {
	held atomic.Int64
	n    [len(outcomes)]atomic.Uint64
}

// set puts the concurrency limits of some domains in the place of those before.
func (p *permits) set(domains []*rule.Domain) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inForce = nil
	all := map[series]*permitCounters{}
	for name, c := range p.all {
		if c.held.Load() != 0 {
			all[name] = c
		}
	}
	for _, d := range domains {
		for _, l := range d.Concurrencies() {
			p.inForce = append(p.inForce, l)
			name := series{l.Domain, l.Name}
			if all[name] = p.all[name]; all[name] == nil {
				all[name] = &permitCounters{}
			}
		}
	}
	p.all = all
}

// of gives the counts of a limit. One that a reload took away counts on while its
// calls run.
func (p *permits) of(domain string, l *caudal.CompiledConcurrency) *permitCounters {
	name := series{domain, l.Name()}
	p.mu.RLock()
	c := p.all[name]
	p.mu.RUnlock()
	if c != nil {
		return c
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c = p.all[name]; c == nil {
		if c = new(permitCounters); p.all == nil {
			p.all = map[series]*permitCounters{}
		}
		p.all[name] = c
	}
	return c
}

// PermitDecided counts what became of a concurrency limit in a call; see
// httplimit.PermitObserver.
func (m *Metrics) PermitDecided(domain string, l *caudal.CompiledConcurrency, result httplimit.Result) {
	m.permits.of(domain, l).n[result].Add(1)
}

// PermitsHeld counts the calls under way; see httplimit.PermitObserver.
func (m *Metrics) PermitsHeld(domain string, l *caudal.CompiledConcurrency, change int) {
	m.permits.of(domain, l).held.Add(int64(change))
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
	p := &m.permits
	p.mu.RLock()
	defer p.mu.RUnlock()
	lives := make([]LivePermits, 0, len(p.inForce))
	for _, l := range p.inForce {
		c := p.all[series{l.Domain, l.Name}]
		live := LivePermits{Limit: l, UnderWay: c.held.Load(), Total: make(map[string]uint64, len(outcomes))}
		for i, outcome := range outcomes {
			live.Total[outcome] = c.n[i].Load()
		}
		lives = append(lives, live)
	}
	return lives
}

func (p *permits) collect(out chan<- prometheus.Metric) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for name, c := range p.all {
		out <- prometheus.MustNewConstMetric(inflightDesc, prometheus.GaugeValue, float64(c.held.Load()), name.domain, name.rule)
		for i, outcome := range outcomes {
			out <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(c.n[i].Load()), name.domain, name.rule, outcome)
		}
	}
}
