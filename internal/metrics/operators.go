package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caudal-dev/caudal/control"
)

// Operators gives the figures of what operators say by hand, for Register.
func Operators(c *control.Controls) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "caudal_enforcing", Help: "0 while an operator has turned enforcement off, else 1.",
		}, func() float64 {
			if c.Off() {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "caudal_blocks", Help: "Clients that operators have blocked by hand.",
		}, func() float64 { return float64(len(c.Blocks())) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "caudal_blocked_total", Help: "Requests denied because their client is blocked by hand.",
		}, func() float64 { return float64(c.Requests()) }),
	}
}
