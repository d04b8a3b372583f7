package envoyrls

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// DefaultNearRatio is the share of a limit from which hits are near it.
const DefaultNearRatio = 0.8

// MaxSeries bounds how many series by value a Stats keeps (detailed_metric and
// value_to_metric); hits of further values are counted as "other".
const MaxSeries = 1000

// Stats are the statistics of Envoy's reference service under the names that its
// Prometheus exporter gives them, for dashboards and alerts that exist. It is a
// prometheus.Collector; give it to one Service. Make it with NewStats. It is safe
// for concurrent use. A nil Stats keeps nothing.
//
// All numbers count hits. A descriptor that was not charged because another one
// of its request was over counts nothing, so total_hits is always within_limit
// and over_limit together.
type Stats struct {
	near     float64
	requests prometheus.Histogram
	total    atomic.Uint64

	table   atomic.Pointer[statTable]
	errors  [len(errorNames)]atomic.Uint64
	loads   [2]atomic.Uint64 // failed, succeeded
	unknown atomic.Uint64
	shadow  atomic.Uint64
}

// The types of errors.
const (
	storeError = iota
	serviceError
)

var errorNames = [...]string{storeError: "redis_error", serviceError: "service_error"}

// NewStats makes statistics. nearRatio is from 0 to 1; 0 means DefaultNearRatio.
func NewStats(nearRatio float64) (*Stats, error) {
	if nearRatio == 0 {
		nearRatio = DefaultNearRatio
	}
	if !(nearRatio > 0 && nearRatio <= 1) {
		return nil, fmt.Errorf("envoyrls: near limit ratio %v: it must be over 0 and at most 1", nearRatio)
	}
	s := &Stats{near: nearRatio, requests: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:        "ratelimit_service_response_time_seconds",
		Help:        "How long answers took, the time that they were held included.",
		ConstLabels: prometheus.Labels{"grpc_method": "ShouldRateLimit"},
		Buckets:     prometheus.DefBuckets,
	})}
	s.table.Store(&statTable{})
	return s, nil
}

// The counts of a rule.
const (
	totalHits = iota
	overLimit
	nearLimit
	withinLimit
	shadowMode
	totalNegativeHits
)

var statNames = [...]string{
	totalHits:         "total_hits",
	overLimit:         "over_limit",
	nearLimit:         "near_limit",
	withinLimit:       "within_limit",
	shadowMode:        "shadow_mode",
	totalNegativeHits: "total_negative_hits",
}

// ruleStats are the counts of one rule, or of one rule for some values.
type ruleStats struct {
	domain string
	path   []string
	n      [len(statNames)]atomic.Uint64
}

func (r *ruleStats) add(stat int, hits uint64) {
	if hits > 0 {
		r.n[stat].Add(hits)
	}
}

// statTable is the counts of the rules in force.
type statTable struct {
	rules map[*rule.Limit]*ruleStats
	named map[string]*ruleStats // by domain and path

	mu     sync.RWMutex
	values map[string]*ruleStats // of rules that are counted by value
}

func statName(domain string, path []string) string {
	name := caudal.AppendPart(nil, domain)
	for _, level := range path {
		name = caudal.AppendPart(name, level)
	}
	return string(name)
}

// setRules begins the series of rules that are new and ends those of rules that
// are gone.
func (s *Stats) setRules(set *rule.Set) {
	old := s.table.Load()
	t := &statTable{rules: map[*rule.Limit]*ruleStats{}, named: map[string]*ruleStats{}, values: map[string]*ruleStats{}}
	for _, l := range set.Limits() {
		if l.ByValue() {
			continue
		}
		path := l.StatPath(nil)
		t.rules[l] = t.get(old, l.Domain, path)
	}
	for _, d := range set.Domains() {
		t.get(old, d.Name(), []string{OverrideName})
	}
	s.table.Store(t)
}

func (t *statTable) get(old *statTable, domain string, path []string) *ruleStats {
	name := statName(domain, path)
	r := t.named[name]
	if r == nil {
		r = old.named[name]
	}
	if r == nil {
		r = &ruleStats{domain: domain, path: path}
	}
	t.named[name] = r
	return r
}

// find gives the counts of a limit; nil when its rule is gone.
func (t *statTable) find(l *rule.Limit, values []rule.Entry) *ruleStats {
	if r := t.rules[l]; r != nil {
		return r
	}
	if !l.ByValue() { // an override, or of rules before a reload
		return t.named[statName(l.Domain, l.StatPath(nil))]
	}
	path := l.StatPath(values)
	name := statName(l.Domain, path)
	t.mu.RLock()
	r := t.values[name]
	t.mu.RUnlock()
	if r != nil {
		return r
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.values) >= MaxSeries {
		path = []string{"other"}
		name = statName(l.Domain, path)
	}
	if r = t.values[name]; r == nil {
		r = &ruleStats{domain: l.Domain, path: path}
		t.values[name] = r
	}
	return r
}

// count counts what became of a request.
func (s *Stats) count(x *exchange, globalShadow bool) {
	t := s.table.Load()
	if globalShadow && s.wouldDeny(x) {
		s.shadow.Add(1)
	}
	for k := range x.parts {
		p := &x.parts[k]
		if p.exempt != nil && !p.negative {
			if r := t.find(p.exempt, x.valuesOf(p)); r != nil {
				r.add(totalHits, uint64(p.hits))
				r.add(withinLimit, uint64(p.hits))
			}
		}
		for i := p.first; i < p.last; i++ {
			r := t.find(x.match.Limits[i], x.valuesOf(p))
			if r == nil || p.hits == 0 {
				continue
			}
			if p.negative {
				r.add(totalNegativeHits, uint64(p.hits))
				continue
			}
			s.countHits(r, x.modes[i], &x.decisions[i], uint64(p.hits))
		}
	}
}

func (s *Stats) countHits(r *ruleStats, mode caudal.Mode, d *caudal.Decision, hits uint64) {
	switch {
	case !d.Allowed:
		r.add(totalHits, hits)
		r.add(overLimit, hits)
		if mode == caudal.Shadow {
			r.add(shadowMode, hits)
		}
	case d.Charged:
		r.add(totalHits, hits)
		r.add(withinLimit, hits)
		near, after := uint64(float64(d.Limit)*s.near), d.Limit-d.Remaining
		if after > near {
			r.add(nearLimit, min(hits, after-near))
		}
	}
}

// wouldDeny reports whether a request would have been denied without the global
// shadow mode.
func (s *Stats) wouldDeny(x *exchange) bool {
	for i := range x.decisions {
		if !x.decisions[i].Allowed && x.modes[i] == caudal.Enforce {
			return true
		}
	}
	return false
}

func (s *Stats) failed(kind int) {
	if s != nil {
		s.errors[kind].Add(1)
	}
}

func (s *Stats) unknownDomain() {
	if s != nil {
		s.unknown.Add(1)
	}
}

func (s *Stats) answered(start time.Time) {
	s.total.Add(1)
	s.requests.Observe(time.Since(start).Seconds())
}

// Loaded counts an attempt to load rules.
func (s *Stats) Loaded(ok bool) {
	i := 0
	if ok {
		i = 1
	}
	s.loads[i].Add(1)
}

// Describe names no metric: the labels of a rule depend on its depth.
func (s *Stats) Describe(chan<- *prometheus.Desc) {}

// Collect gives the statistics.
func (s *Stats) Collect(out chan<- prometheus.Metric) {
	s.requests.Collect(out)
	for i, name := range errorNames {
		counter(out, "ratelimit_service_should_rate_limit_error", "Requests that got no decision, by type.",
			s.errors[i].Load(), "err_type", name)
	}
	counter(out, "ratelimit_service_total_requests", "Requests.", s.total.Load(), "grpc_method", "ShouldRateLimit")
	counter(out, "ratelimit_service_config_load_success", "Rules loaded.", s.loads[1].Load())
	counter(out, "ratelimit_service_config_load_error", "Rules that could not be loaded.", s.loads[0].Load())
	counter(out, "ratelimit_service_global_shadow_mode", "Requests that only the global shadow mode let pass.", s.shadow.Load())
	counter(out, "ratelimit_service_rate_limit_domain_not_found", "Requests for domains without rules.", s.unknown.Load(), "domain", "other")
	t := s.table.Load()
	for _, r := range t.named {
		r.collect(out)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, r := range t.values {
		r.collect(out)
	}
}

func (r *ruleStats) collect(out chan<- prometheus.Metric) {
	labels := []string{"domain", r.domain}
	for i, level := range r.path {
		labels = append(labels, fmt.Sprintf("key%d", i+1), level)
	}
	for stat, name := range statNames {
		counter(out, "ratelimit_service_rate_limit_"+name, "Hits of a rule: "+strings.ReplaceAll(name, "_", " ")+".", r.n[stat].Load(), labels...)
	}
}

// counter sends a counter with labels given as names and values in turns.
func counter(out chan<- prometheus.Metric, name, help string, n uint64, labels ...string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), prometheus.CounterValue, float64(n), values...)
}
