package rule_test

import (
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

const loginRules = `
domain: d
descriptors:
  - key: path
    value: /login
    count_when: { status: [403, 5xx, 401] }
    descriptors:
      - key: remote_address
        rate_limit: { name: failures, unit: minute, requests_per_unit: 5, algorithm: sliding_log }
      - key: user
        count_when: { status: [404] }
        rate_limit: { name: own, unit: minute, requests_per_unit: 5 }
  - key: host
    rate_limit: { name: all, unit: minute, requests_per_unit: 5 }
`

// TestCountWhen: the nearest count_when holds, and a response that nobody saw
// counts.
func TestCountWhen(t *testing.T) {
	limits := map[string]*rule.Limit{}
	for _, l := range parse(t, loginRules).Limits() {
		limits[l.Name] = l
	}
	for _, c := range []struct {
		limit  string
		status int
		want   bool
	}{
		{"failures", 401, true}, {"failures", 403, true}, {"failures", 500, true}, {"failures", 599, true},
		{"failures", 200, false}, {"failures", 402, false}, {"failures", 499, false}, {"failures", 101, false},
		{"failures", 600, false}, {"failures", 999, false}, {"failures", -1, false}, {"failures", 0, true},
		{"own", 404, true}, {"own", 401, false}, {"own", 0, true},
		{"all", 200, true}, {"all", 999, true},
	} {
		if got := limits[c.limit].CountWhen.Counts(c.status); got != c.want {
			t.Errorf("%s counts status %d = %t, want %t", c.limit, c.status, got, c.want)
		}
	}
	const want = "for each remote_address where path is /login, counting only responses with status 401, 403, 5xx; worst case: "
	if got := limits["failures"].Describe(); !strings.Contains(got, want) {
		t.Errorf("Describe() = %q, want it to hold %q", got, want)
	}
}

// TestCountWhenExplained: by descriptor nobody sees a response, so all count.
func TestCountWhenExplained(t *testing.T) {
	d := parse(t, loginRules)
	e := d.Explain(request{"path": "/login", "remote_address": "203.0.113.7"})
	if len(e.Limits) != 2 || e.Limits[0].CountWhen != "401, 403, 5xx" || e.Limits[1].CountWhen != "404" || !strings.Contains(e.String(), "counts only when the response has status 401, 403, 5xx") {
		t.Errorf("Explain says %s", e)
	}
	if e := d.ExplainDescriptor(entries("path=/login,remote_address=203.0.113.7")); len(e.Limits) != 1 || e.Limits[0].CountWhen != "" {
		t.Errorf("ExplainDescriptor says %s", e)
	}
}

// TestCountWhenLints: a limit that counts less is no ceiling for one that counts
// all, does not decide before it, and a queue gives nothing back.
func TestCountWhenLints(t *testing.T) {
	const limit = "rate_limit: { unit: minute, requests_per_unit: "
	for _, c := range []struct{ name, nodes, want string }{
		{"queue", "  - { key: user, count_when: { status: [401] }, " + limit + "5, algorithm: leaky_bucket, queue: 3 } }\n", "count-when-queue"},
		{"no ceiling", "  - { key: api_key, " + limit + "5 } }\n  - { key: remote_address, count_when: { status: [401] }, " + limit + "50 } }\n", "no-address-ceiling"},
		{"a ceiling", "  - { key: api_key, count_when: { status: [401] }, " + limit + "5 } }\n  - { key: remote_address, count_when: { status: [4xx] }, " + limit + "50 } }\n", ""},
		{"does not pre-empt", "  - { key: user, count_when: { status: [401] }, " + limit + "5 }, descriptors: [{ key: path, value: /x, count_when: { status: [2xx] }, " + limit + "50 } }] }\n", ""},
		{"pre-empts", "  - { key: user, count_when: { status: [4xx] }, " + limit + "5 }, descriptors: [{ key: path, value: /x, count_when: { status: [401] }, " + limit + "50 } }] }\n", "never-decides"},
	} {
		_, warnings, err := rule.Parse("rules.yaml", []byte("domain: d\ndescriptors:\n"+c.nodes))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var codes []string
		for _, w := range warnings {
			codes = append(codes, w.Code)
		}
		if got := strings.Join(codes, " "); got != c.want {
			t.Errorf("%s: warnings %q, want %q", c.name, got, c.want)
		}
	}
}
