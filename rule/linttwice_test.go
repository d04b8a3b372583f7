package rule_test

import (
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

// TestChargedTwice: the same conditions in another order are told of, and nothing
// else.
func TestChargedTwice(t *testing.T) {
	const (
		limit    = "rate_limit: { unit: minute, requests_per_unit: 50 }"
		pathLast = "  - key: remote_address\n    descriptors: [{ key: path, value: /x, " + limit + " }]\n"
	)
	for _, c := range []struct {
		name, nodes string
		want        int
	}{
		{"another order", "  - key: path\n    value: /x\n    descriptors: [{ key: remote_address, " + limit + " }]\n" + pathLast, 1},
		{"another path", "  - key: path\n    value: /y\n    descriptors: [{ key: remote_address, " + limit + " }]\n" + pathLast, 0},
		{"another period", "  - key: path\n    value: /x\n    descriptors: [{ key: remote_address, " + strings.Replace(limit, "minute", "hour", 1) + " }]\n" + pathLast, 0},
		{"one on trial", "  - key: path\n    value: /x\n    descriptors: [{ key: remote_address, shadow_mode: true, " + limit + " }]\n" + pathLast, 0},
		{"another missing", "  - key: path\n    value: /x\n    descriptors: [{ key: remote_address, missing: shared, " + limit + " }]\n" + pathLast, 0},
		{"one list", "  - key: user\n    rate_limits:\n      - { name: a, unit: minute, requests_per_unit: 50 }\n      - { name: b, unit: minute, requests_per_unit: 60 }\n", 0},
		{"keys of Envoy", "  - key: a\n    descriptors: [{ key: b, " + limit + " }]\n  - key: b\n    descriptors: [{ key: a, " + limit + " }]\n", 0},
	} {
		got := found(t, rule.Options{}, c.nodes, "charged-twice")
		if len(got) != c.want {
			t.Errorf("%s: warnings %q, want %d", c.name, got, c.want)
		}
	}
}
