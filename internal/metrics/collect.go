package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	decisionsDesc = prometheus.NewDesc("caudal_decisions_total",
		"Decisions by limit: one count per call for each limit that was charged or denied it.",
		[]string{"domain", "rule", "outcome"}, nil)
	loadedDesc = prometheus.NewDesc("caudal_config_loaded_timestamp_seconds",
		"When the rules in force were loaded.", nil, nil)
	infoDesc = prometheus.NewDesc("caudal_config_info",
		"Always 1; the label names the rules in force. Instances with the same rules have the same hash.",
		[]string{"hash"}, nil)
)

var (
	suspectsDesc = prometheus.NewDesc("caudal_likely_false_positives_total",
		"Denials that may well have hit somebody who did nothing wrong, by kind.",
		[]string{"domain", "rule", "kind"}, nil)
	nearDesc = prometheus.NewDesc("caudal_near_limit_keys",
		"About how many keys had less than a fifth of the limit left in the last one to two minutes.",
		[]string{"domain", "rule"}, nil)
	shareDesc = prometheus.NewDesc("caudal_top_key_share",
		"Share of the calls of the last minutes that the busiest key made, by a sample; 0 when there are too few to say.",
		[]string{"domain", "rule"}, nil)
)

var errorsDesc = prometheus.NewDesc("caudal_store_errors_total",
	"Calls of the store that failed, decisions that could not be made, and charges that could not be taken back, by kind.",
	[]string{"kind"}, nil)

// storeErrors shows failures of a shared store's calls and of decisions in one
// family: both keep a decision from being made as it should be.
type storeErrors struct {
	calls     *StoreCalls // or nil
	decisions *[len(errorKinds)]atomic.Uint64
}

func (e storeErrors) Describe(out chan<- *prometheus.Desc) { out <- errorsDesc }

func (e storeErrors) Collect(out chan<- prometheus.Metric) {
	sums := map[string]uint64{}
	if e.calls != nil {
		sums = e.calls.failed()
	}
	for i, kind := range errorKinds { // a series that begins at 0 shows its first step
		sums[kind] += e.decisions[i].Load()
	}
	for kind, n := range sums {
		out <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(n), kind)
	}
}

// rules shows what depends on the rules in force: all of it from one table, so
// that a scrape never sees half a reload.
type rules struct{ m *Metrics }

func (r rules) Describe(out chan<- *prometheus.Desc) {
	out <- decisionsDesc
	out <- suspectsDesc
	out <- nearDesc
	out <- shareDesc
	out <- loadedDesc
	out <- inflightDesc
	out <- depthDesc
	out <- infoDesc
}

func (r rules) Collect(out chan<- prometheus.Metric) {
	r.m.permits.collect(out)
	r.m.queues.collect(out)
	t := r.m.table.Load()
	for _, c := range t.all {
		c.collect(out)
		if c.values != nil {
			c.values.each(func(v *counters) { v.collect(out) })
		}
		if c.watched != nil {
			r.watched(c, out)
		}
	}
	if t.hash != "" {
		out <- prometheus.MustNewConstMetric(loadedDesc, prometheus.GaugeValue, float64(t.loaded.UnixMilli())/1000)
		out <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, t.hash)
	}
}

func (c *counters) collect(out chan<- prometheus.Metric) {
	for i, outcome := range outcomes {
		out <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(c.sum(i)), c.domain, c.rule, outcome)
	}
}

func (r rules) watched(c *counters, out chan<- prometheus.Metric) {
	for kind, name := range suspectKinds {
		out <- prometheus.MustNewConstMetric(suspectsDesc, prometheus.CounterValue, float64(c.watched.suspects[kind].Load()), c.domain, c.rule, name)
	}
	out <- prometheus.MustNewConstMetric(nearDesc, prometheus.GaugeValue, float64(c.watched.near.estimate()), c.domain, c.rule)
	r.m.ticking.Lock()
	share := c.watched.share
	r.m.ticking.Unlock()
	out <- prometheus.MustNewConstMetric(shareDesc, prometheus.GaugeValue, share, c.domain, c.rule)
}
