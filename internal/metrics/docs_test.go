package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/shed"
)

// TestDocsNameEveryMetric holds the table of docs/operating.md against what a
// scrape gives: neither may name what the other does not.
func TestDocsNameEveryMetric(t *testing.T) {
	page, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := NewStoreCalls()
	calls.Observe("take", time.Millisecond, "")
	m := New(Options{Calls: calls, Store: func() StoreStats { return StoreStats{} }, APIKeys: func() int { return 0 },
		State: func() StateStats { return StateStats{} }})
	for _, c := range Operators(control.New(control.Options{})) {
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	shedder, err := shed.New(shed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Register(Shedding{"*/": shedder}); err != nil {
		t.Fatal(err)
	}
	m.SetRules(load(t, twoRules+"    concurrency: { max: 2 }\n"+
		"  - key: path\n    rate_limit: { unit: second, requests_per_unit: 5, algorithm: leaky_bucket, queue: 9 }\n"), "abc", time.Now())
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "caudal_") {
			given[name] = true
			if !strings.Contains(string(page), "`"+name) {
				t.Errorf("docs/operating.md does not name %s", name)
			}
		}
	}
	for _, name := range regexp.MustCompile(`caudal_[a-z_]+`).FindAllString(string(page), -1) {
		if !given[name] {
			t.Errorf("docs/operating.md names %s, which no scrape gives", name)
		}
	}
}
