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
	out <- loadedDesc
	out <- infoDesc
}

func (r rules) Collect(out chan<- prometheus.Metric) {
	t := r.m.table.Load()
	for _, c := range t.all {
		for i, outcome := range outcomes {
			out <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(c.sum(i)), c.domain, c.rule, outcome)
		}
	}
	if t.hash != "" {
		out <- prometheus.MustNewConstMetric(loadedDesc, prometheus.GaugeValue, float64(t.loaded.UnixMilli())/1000)
		out <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, t.hash)
	}
}
