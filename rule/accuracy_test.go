package rule_test

import (
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// The accuracy of a file is that of its limits, unless they say their own. It
// shows in what the rules say of themselves, and in a diff, and keeps counters.
func TestAccuracy(t *testing.T) {
	load := func(text string) (*rule.Set, *rule.Domain) {
		t.Helper()
		set, _, err := rule.Parse("a.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		d, err := set.Default()
		if err != nil {
			t.Fatal(err)
		}
		return set, d
	}
	exact, _ := load("domain: d\ndescriptors:\n  - {key: path, rate_limit: {unit: second, requests_per_unit: 9}}\n")
	leased, d := load("domain: d\naccuracy: leased\ndescriptors:\n  - {key: path, rate_limit: {unit: second, requests_per_unit: 9}}\n" +
		"  - {key: host, rate_limit: {unit: second, requests_per_unit: 9, accuracy: exact}}\n")
	for _, l := range d.Limits() {
		want := caudal.Leased
		if strings.Contains(l.Path, "host") {
			want = caudal.Exact
		}
		if got := l.Compiled.Accuracy(); got != want {
			t.Errorf("%s is %s, want %s", l.Path, got, want)
		}
		if says := strings.Contains(l.Describe(), "lease"); says != (want == caudal.Leased) {
			t.Errorf("%s: Describe() = %q, want it to tell of leases only where there are any", l.Path, l.Describe())
		}
		own, err := l.WithRequests(50)
		if err != nil || own.Accuracy() != want {
			t.Errorf("%s: WithRequests(50) is %v, %v, want %s", l.Path, own, err, want)
		}
	}
	diff := rule.DiffText(rule.Diff(exact, leased))
	if !strings.Contains(diff, "accuracy exact -> leased") || strings.Contains(diff, "starts fresh") {
		t.Errorf("the diff of exact and leased = %q, want the change named and no counter fresh", diff)
	}
}
