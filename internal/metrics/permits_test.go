package metrics

import (
	"testing"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
)

func TestInflight(t *testing.T) {
	m := New(Options{})
	m.SetRules(load(t, `domain: d
descriptors:
  - key: path
    value: /slow
    concurrency: { max: 2 }
`), "abc", time.Now())
	value := func(name string, labels ...string) float64 {
		t.Helper()
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, metric := range f.GetMetric() {
				found := len(labels) == 0
				for _, l := range metric.GetLabel() {
					found = found || len(labels) == 2 && l.GetName() == labels[0] && l.GetValue() == labels[1]
				}
				if found {
					return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
				}
			}
		}
		return -1
	}
	if got := value("caudal_inflight"); got != 0 {
		t.Errorf("before the first call caudal_inflight = %v, want 0", got)
	}
	l := load(t, "domain: d\ndescriptors:\n  - {key: path, value: /slow, concurrency: {max: 2}}\n").Concurrencies()[0].Compiled
	m.PermitsHeld("d", l, 1)
	m.PermitsHeld("d", l, 1)
	m.PermitsHeld("d", l, -1)
	m.PermitDecided("d", l, httplimit.Denied)
	if got := value("caudal_inflight", "rule", "path=/slow concurrency"); got != 1 {
		t.Errorf("caudal_inflight = %v, want 1", got)
	}
	if got := value("caudal_decisions_total", "outcome", "denied"); got != 1 {
		t.Errorf("caudal_decisions_total of denied = %v, want 1", got)
	}
	live := m.LivePermits()
	if len(live) != 1 || live[0].UnderWay != 1 || live[0].Total["denied"] != 1 || live[0].Total["allowed"] != 0 || live[0].Limit.Name != "path=/slow concurrency" {
		t.Errorf("LivePermits() = %+v, want one limit with a call under way and one denied", live)
	}
	m.SetRules(load(t, "domain: d\ndescriptors: []\n"), "def", time.Now())
	if live := m.LivePermits(); len(live) != 0 {
		t.Errorf("LivePermits() after a reload without the rule = %+v, want none", live)
	}
	if got := value("caudal_inflight"); got != 1 {
		t.Errorf("after a reload without the rule caudal_inflight = %v, want 1: the call runs on", got)
	}
	m.PermitsHeld("d", l, -1)
	m.SetRules(load(t, "domain: d\ndescriptors: []\n"), "ghi", time.Now())
	if got := value("caudal_inflight"); got != -1 {
		t.Errorf("after the next reload caudal_inflight = %v, want none", got)
	}
}
