package rule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

// TestWarnings: each rule file with the codes of all its warnings.
func TestWarnings(t *testing.T) {
	const five = "rate_limit: {unit: minute, requests_per_unit: 50}"
	const ceiling = "  - {key: remote_address, " + five + "}\n"
	for _, c := range []struct{ name, nodes, want string }{
		{"an address ceiling alone", ceiling, ""},
		{"one counter for all", "  - {key: path, value: /x, " + five + "}\n", "shared-counter-lockout"},
		{"one counter for all of a plan", "  - {key: plan, " + five + "}\n", "shared-counter-lockout"},
		{"nested by address", "  - {key: path, value: /x, descriptors: [{key: remote_address, " + five + "}]}\n", ""},
		{"sharing that is written", "  - {key: path, value: /x*, share_threshold: true, " + five + "}\n", ""},
		{"shared in shadow mode", "  - {key: path, value: /x, shadow_mode: true, " + five + "}\n", ""},
		{"a ban for all", "  - {key: path, value: /x, rate_limit: {unit: minute, requests_per_unit: 0}}\n", ""},
		{"a queue for all", "  - {key: path, value: /x*, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n", ""},
		{"keys of others", "  - {key: source_cluster, value: a, " + five + "}\n", ""},
		{"made-up keys", "  - {key: api_key, " + five + "}\n", "no-address-ceiling"},
		{"made-up keys of one path", "  - {key: path, value: /x, descriptors: [{key: 'header:X-User', " + five + "}]}\n", "no-address-ceiling"},
		{"made-up keys under a ceiling", ceiling + "  - {key: api_key, " + five + "}\n", ""},
		{"a ceiling elsewhere", "  - {key: api_key, " + five + "}\n  - {key: path, value: /x, descriptors: [{key: remote_address, " + five + "}]}\n", "no-address-ceiling"},
		{"one named key", "  - {key: api_key, value: abc, " + five + "}\n", ""},
		{"verified names", "  - {key: 'jwt:sub', " + five + "}\n", ""},
		{"an empty value", "  - {key: remote_address, value: '', " + five + "}\n", "empty-value"},
		{"not an address", "  - {key: remote_address, value: 203.0.113.007, " + five + "}\n", "not-an-address"},
		{"no rules", "", "no-rules"},
		{"fixed window of a minute", "  - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 50, algorithm: fixed_window}}\n", "fixed-window-edge"},
		{"fixed window of an hour", "  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 50, algorithm: fixed_window}}\n", ""},
		{"small sliding window", "  - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 9, algorithm: sliding_window}}\n", "sliding-window-coarse"},
		{"large log", "  - {key: remote_address, rate_limit: {unit: day, requests_per_unit: 100000, algorithm: sliding_log}}\n", "sliding-log-memory"},
		{"small bucket on login", "  - {key: path, value: /login, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 5}}]}\n", "token-bucket-login"},
		{"covered wildcard", "  - {key: path, value: /api/*}\n  - {key: path, value: /api/admin/*}\n  - {key: path, value: /ap*}\n", "never-matches"},
		{"two queues", "  - {key: path, value: /a*, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n" +
			"  - {key: host, value: h, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n", "queues-meet"},
		{"two queues of one key", "  - {key: path, value: /a*, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n" +
			"  - {key: path, value: /b*, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n", ""},
		{"a number beside unlimited", "  - {key: a, rate_limit: {unlimited: true, requests_per_unit: 5}}\n", "unlimited-number"},
		{"many patterns", manyPatterns(), "many-patterns"},
		{"an unknown attribute", "  - {key: remote_adress, " + five + "}\n  - {key: 'header:X'}\n", "unknown-attribute"},
	} {
		opts := rule.Options{ForAttributes: c.want == "unknown-attribute"}
		_, warnings, err := opts.Parse("rules.yaml", []byte("domain: d\ndescriptors:\n"+c.nodes))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var codes []string
		for _, w := range warnings {
			if w.Position.Line == 0 || w.What == "" || w.Why == "" || w.Mend == "" {
				t.Errorf("%s: the warning %+v lacks something", c.name, w)
			}
			codes = append(codes, w.Code)
		}
		slices.Sort(codes)
		if got := strings.Join(codes, " "); got != c.want {
			t.Errorf("%s: warnings %q, want %q", c.name, got, c.want)
		}
	}
}

func manyPatterns() string {
	var b strings.Builder
	for i := range 101 {
		b.WriteString("  - {key: host, value: \"*" + strings.Repeat("x", i+1) + "\"}\n")
	}
	return b.String()
}

// TestTwoLineRulesWarnOfLockout: this is the smallest useful file: it loads, and both of
// its dangers are told.
func TestTwoLineRulesWarnOfLockout(t *testing.T) {
	_, warnings, err := rule.Parse("rules.yaml", []byte(`domain: public-api
descriptors:
  - key: api_key
    rate_limit: { unit: minute, requests_per_unit: 100 }
  - key: path
    value: /login
    rate_limit: { unit: minute, requests_per_unit: 5 }
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.String())
	}
	want := "rules.yaml:7:17: descriptors[1].rate_limit: warning: one counter for all clients of path=/login: " +
		"one attacker who uses it up locks out everyone else; nest `- key: remote_address` below and move the rate_limit there [shared-counter-lockout]"
	if !slices.Contains(got, want) {
		t.Errorf("warnings\n%s\nlack\n%s", strings.Join(got, "\n"), want)
	}
	if !strings.Contains(strings.Join(got, "\n"), "[no-address-ceiling]") {
		t.Errorf("warnings lack no-address-ceiling:\n%s", strings.Join(got, "\n"))
	}
}

func TestVerifiedKeysNeedNoCeiling(t *testing.T) {
	text := "domain: d\ndescriptors:\n  - {key: api_key, rate_limit: {unit: minute, requests_per_unit: 50}}\n"
	_, warnings, err := rule.Options{VerifiedKeys: true}.Parse("rules.yaml", []byte(text))
	if err != nil || len(warnings) != 0 {
		t.Errorf("with VerifiedKeys: %v, %v, want no warning", warnings, err)
	}
}
