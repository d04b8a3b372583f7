package rule_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// TestF05ShadowDoesNotLeak: shadow mode on a key without value is not that of its
// sibling with one.
func TestF05ShadowDoesNotLeak(t *testing.T) {
	d := parseWith(t, rule.Options{CompatEnvoy: true}, `domain: d
descriptors:
  - key: tier
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 20 }
  - key: tier
    value: gold
    rate_limit: { unit: minute, requests_per_unit: 30 }
    metadata: { name: x, service: { any_key: [a, { b: 1 }] } }
`)
	for _, c := range []struct {
		value    string
		requests uint64
		mode     caudal.Mode
	}{{"other", 20, caudal.Shadow}, {"gold", 30, caudal.Enforce}} {
		var m rule.Match
		d.MatchDescriptor([]rule.Entry{{Key: "tier", Value: c.value}}, &m)
		if len(m.Calls) != 1 || m.Calls[0].Mode != c.mode || m.Calls[0].Limit.Requests() != c.requests {
			t.Errorf("tier=%s: %+v, want one call of mode %v under %d", c.value, m.Calls, c.mode, c.requests)
		}
	}
}

// TestF07SeveralDomainsOfOneDirectory: each decides for itself.
func TestF07SeveralDomainsOfOneDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, nodes := range map[string]string{
		"messages": "  - {key: kind, value: ad, descriptors: [{key: to, rate_limit: {name: ads, unit: day, requests_per_unit: 5}}]}\n" +
			"  - {key: to, rate_limit: {name: all, unit: day, requests_per_unit: 100}}\n",
		"edge": "  - {key: remote_address, rate_limit: {name: each, unit: second, requests_per_unit: 10}}\n" +
			"  - {key: remote_address, value: 192.0.2.5, rate_limit: {name: banned, unit: second, requests_per_unit: 0}}\n",
		"inner": "  - {key: ldap, rate_limit: {unlimited: true}}\n  - {key: cloud, rate_limit: {unit: minute, requests_per_unit: 100}}\n",
	} {
		write(t, filepath.Join(dir, name+".yaml"), "domain: "+name+"\ndescriptors:\n"+nodes)
	}
	set, _, err := rule.Options{CompatEnvoy: true}.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ domain, descriptors, want string }{
		{"messages", "kind=ad,to=1;to=1", "ads | all"},
		{"messages", "kind=bill,to=1;to=1", "all"},
		{"edge", "remote_address=192.0.2.5", "banned"},
		{"edge", "remote_address=192.0.2.6", "each"},
		{"inner", "ldap=x", "unlimited"},
		{"inner", "cloud=x", "cloud"},
	} {
		d, ok := set.Domain(c.domain)
		if !ok {
			t.Fatalf("no domain %s", c.domain)
		}
		if got := described(d, strings.Split(c.descriptors, ";")...); got != c.want {
			t.Errorf("%s: %s match %q, want %q", c.domain, c.descriptors, got, c.want)
		}
	}
}

// TestMissingNumberUnderCompatEnvoy: the reference reads no number as 0. Here
// that is refused, and under CompatEnvoy taken with a warning.
func TestMissingNumberUnderCompatEnvoy(t *testing.T) {
	const text = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: week}}]\n"
	if _, _, err := rule.Parse("r.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "requests_per_unit is missing") {
		t.Errorf("Parse = %v, want an error", err)
	}
	set, warnings, err := rule.Options{CompatEnvoy: true}.Parse("r.yaml", []byte(text))
	if err != nil || len(warnings) != 1 || warnings[0].Code != "no-number" {
		t.Fatalf("Parse = %v, %v, want one warning", warnings, err)
	}
	c := set.Limits()[0].Compiled
	if c.Requests() != 0 || c.Algorithm() != caudal.FixedWindow || !c.Limit().Epoch {
		t.Errorf("the limit is %+v, want 0 by fixed_window of epoch weeks", c.Limit())
	}
}
