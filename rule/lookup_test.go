package rule_test

import (
	"slices"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// TestLookupAssumesWhatRulesDemand is one client under rules that look at more than
// is known of it.
func TestLookupAssumesWhatRulesDemand(t *testing.T) {
	set, _, err := rule.Options{}.Parse("rules.yaml", []byte(`
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { name: everyone, unit: minute, requests_per_unit: 600 }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { name: login, unit: minute, requests_per_unit: 5 }
  - key: path
    value: /legacy/*
    rate_limit: { name: legacy, unit: second, requests_per_unit: 50 }
  - key: plan
    value: free
    descriptors:
      - key: api_key
        rate_limit: { name: free, unit: minute, requests_per_unit: 100 }
  - key: user
    rate_limit: { name: user, unit: minute, requests_per_unit: 7 }
`))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		known request
		want  []string
	}{
		{request{"remote_address": "203.0.113.9"}, []string{"everyone", "login", "free", "user"}}, // without a key it counts by address
		{request{"api_key": "k-1"}, []string{"free"}},
		{request{"api_key": "k-1", "plan": "gold"}, nil},
		{request{"user": "eve"}, []string{"user"}},
		{request{"path": "/legacy/a"}, []string{"legacy"}},
		{request{"colour": "red"}, nil},
	} {
		var got []string
		keys := map[string]bool{}
		domain.Lookup(test.known, func(l *rule.Limit, c caudal.Call) {
			got = append(got, l.Name)
			keys[string(c.Key)] = true
		})
		if !slices.Equal(got, test.want) {
			t.Errorf("Lookup(%v) = %v, want %v", test.known, got, test.want)
		}
	}
}
