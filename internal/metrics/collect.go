package metrics

import "github.com/prometheus/client_golang/prometheus"

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
