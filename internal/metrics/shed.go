package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// Shedding shows what sheds load: calls refused by priority, of all routes
// together, and for each route how full it is.
type Shedding map[string]*shed.Shedder // by route

var (
	shedDesc = prometheus.NewDesc("caudal_shed_total",
		"Calls refused because there was no room for them, by priority.", []string{"priority"}, nil)
	shedLimitDesc = prometheus.NewDesc("caudal_shed_limit",
		"How many calls may be under way at the route's upstream, as it was found.", []string{"route"}, nil)
	shedInflightDesc = prometheus.NewDesc("caudal_shed_inflight",
		"How many calls are under way at the route's upstream.", []string{"route"}, nil)
	shedWaitingDesc = prometheus.NewDesc("caudal_shed_waiting",
		"How many calls wait for room at the route's upstream.", []string{"route"}, nil)
)

// Describe is for a registry.
func (s Shedding) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{shedDesc, shedLimitDesc, shedInflightDesc, shedWaitingDesc} {
		out <- d
	}
}

// Collect is for a registry.
func (s Shedding) Collect(out chan<- prometheus.Metric) {
	var refused [rule.PriorityCritical + 1]uint64
	for route, shedder := range s {
		st := shedder.Stats()
		for p, n := range st.Shed {
			refused[p] += n
		}
		out <- prometheus.MustNewConstMetric(shedLimitDesc, prometheus.GaugeValue, float64(st.Limit), route)
		out <- prometheus.MustNewConstMetric(shedInflightDesc, prometheus.GaugeValue, float64(st.Inflight), route)
		out <- prometheus.MustNewConstMetric(shedWaitingDesc, prometheus.GaugeValue, float64(st.Waiting), route)
	}
	for p := rule.PriorityLow; p <= rule.PriorityCritical; p++ {
		out <- prometheus.MustNewConstMetric(shedDesc, prometheus.CounterValue, float64(refused[p]), p.String())
	}
}
