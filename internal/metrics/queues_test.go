package metrics

import (
	"testing"
	"time"

	"github.com/caudal-dev/caudal/rule"
)

// TestWhoWaitsIsShown: calls that begin and cease to wait, in the scrape and in Live.
func TestWhoWaitsIsShown(t *testing.T) {
	set, _, err := rule.Parse("q.yaml", []byte(`domain: d
descriptors:
  - {key: path, value: /q, rate_limit: {name: calm, unit: second, requests_per_unit: 1, algorithm: leaky_bucket, queue: 9}}
`))
	if err != nil {
		t.Fatal(err)
	}
	m := New(Options{})
	m.SetRules(set.Domains()[0], "", time.Now())
	limit := set.Domains()[0].Limits()[0].Compiled
	for _, step := range []struct {
		change int
		line   string
		want   int64
	}{
		{0, `caudal_queue_depth{domain="d",rule="calm"} 0`, 0},
		{1, `caudal_queue_depth{domain="d",rule="calm"} 1`, 1},
		{1, `caudal_queue_depth{domain="d",rule="calm"} 2`, 2},
		{-1, `caudal_queue_depth{domain="d",rule="calm"} 1`, 1},
	} {
		if step.change != 0 {
			m.Waiting("d", limit, step.change)
		}
		wantLine(t, scrape(t, m, "caudal_queue_depth"), step.line)
		if live := m.Live(); len(live) != 1 || live[0].Waiting != step.want {
			t.Errorf("after %+d Live tells %+v, want %d waiting", step.change, live, step.want)
		}
	}
}
