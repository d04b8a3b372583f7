package rule_test

import (
	"fmt"
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
		{"keys of others", "  - {key: source_cluster, value: a, " + five + "}\n", "note compat-envoy"},
		{"keys of others, with a word of ours", "  - {key: source_cluster, value: a, rate_limit: {unit: minute, requests_per_unit: 50, burst: 9}}\n", ""},
		{"keys of others with a calendar", "  - {key: path, value: a*}\n  - {key: generic_key, value: a, rate_limit: {unit: week, requests_per_unit: 500}}\n", "note compat-envoy"},
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
		{"small bucket on login", "  - {key: path, value: /login, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 5}}]}\n", "note shared-address-login token-bucket-login"},
		{"covered wildcard", "  - {key: path, value: /api/*}\n  - {key: path, value: /api/admin/*}\n  - {key: path, value: /ap*}\n", "never-matches"},
		{"replaced by turns", "  - {key: plan, value: a, descriptors: [{key: remote_address, rate_limit: {name: A, unit: second, requests_per_unit: 5, algorithm: sliding_log, replaces: [{name: B}]}}]}\n  - {key: plan, value: b, descriptors: [{key: remote_address, rate_limit: {name: B, unit: second, requests_per_unit: 5, algorithm: sliding_log, replaces: [{name: A}]}}]}\n", "replace-each-other"},
		{"replaced in a ring", "  - {key: plan, value: a, descriptors: [{key: remote_address, rate_limit: {name: A, unit: second, requests_per_unit: 5, algorithm: sliding_log, replaces: [{name: B}]}}]}\n  - {key: plan, value: b, descriptors: [{key: remote_address, rate_limit: {name: B, unit: second, requests_per_unit: 5, algorithm: sliding_log, replaces: [{name: C}]}}]}\n  - {key: plan, value: c, descriptors: [{key: remote_address, rate_limit: {name: C, unit: second, requests_per_unit: 5, algorithm: sliding_log, replaces: [{name: A}]}}]}\n", "replace-each-other"},
		{"replaced in a line", "  - {key: plan, value: a, descriptors: [{key: remote_address, rate_limit: {name: A, unit: second, requests_per_unit: 5, algorithm: sliding_log, replaces: [{name: B}]}}]}\n  - {key: plan, value: b, descriptors: [{key: remote_address, rate_limit: {name: B, unit: second, requests_per_unit: 5, algorithm: sliding_log, replaces: [{name: C}]}}]}\n", ""},
		{"covered by stars elsewhere", "  - {key: path, value: '*/a*'}\n  - {key: path, value: '*/x/ab*c'}\n", "never-matches"},
		{"stars that only overlap", "  - {key: path, value: '*/ab*'}\n  - {key: path, value: '*/a*b'}\n  - {key: path, value: '*/a*'}\n", ""},
		{"two queues", "  - {key: path, value: /a*, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n" +
			"  - {key: host, value: h, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n", "queues-meet"},
		{"two queues of one key", "  - {key: path, value: /a*, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n" +
			"  - {key: path, value: /b*, rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 9}}\n", ""},
		{"a number beside unlimited", "  - {key: a, rate_limit: {unlimited: true, requests_per_unit: 5}}\n", "unlimited-number"},
		{"many patterns", manyPatterns(), "many-patterns"},
		{"an unknown attribute", "  - {key: remote_adress, " + five + "}\n  - {key: 'header:X'}\n", "note compat-envoy unknown-attribute"},
		{"exact on login by address", "  - {key: path, value: /login, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding_log}}]}\n", "note shared-address-login"},
		{"on login by address and visitor", "  - {key: path, value: /login, descriptors: [{key: remote_address, descriptors: [{key: visitor, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding_log}}]}]}\n", ""},
		{"a burst beyond the rate", "  - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 5, burst: 51}}\n", "burst-dwarfs-rate"},
		{"a burst of ten times the rate", "  - {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 5, burst: 50}}\n", ""},
		{"slow refill", "  - {key: remote_address, rate_limit: {unit: day, requests_per_unit: 24}}\n", "slow-refill"},
		{"refill of one token", "  - {key: remote_address, rate_limit: {unit: day, requests_per_unit: 24, burst: 1}}\n", ""},
		{"a counter for each path", "  - {key: path, descriptors: [{key: remote_address, " + five + "}]}\n", "unbounded-values"},
		{"a counter for each path under a ceiling", ceiling + "  - {key: path, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 20}}]}\n", "note unbounded-values"},
		{"a counter for each header under a ceiling", ceiling + "  - {key: 'header:X-A', rate_limit: {unit: minute, requests_per_unit: 20}}\n", "note unbounded-values"},
		{"one method", "  - {key: method, value: POST, descriptors: [{key: remote_address, " + five + "}]}\n", "note one-method"},
		{"methods apart", "  - {key: method, value: POST, descriptors: [{key: remote_address, " + five + "}]}\n" +
			"  - {key: method, value: GET, descriptors: [{key: remote_address, " + five + "}]}\n", "note methods-apart"},
		{"a cost above the limit", "  - {key: remote_address, cost: {response_header: X-C, max: 51}, " + five + "}\n", "cost-above-limit"},
		{"a cost that fits", "  - {key: remote_address, cost: {response_header: X-C, max: 50}, " + five + "}\n", ""},
		{"never decides below a ceiling", ceiling + "  - {key: path, value: /x, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 60}}]}\n", "never-decides"},
		{"decides below a ceiling", ceiling + "  - {key: path, value: /x, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 40}}]}\n", ""},
		{"a quota above what the rate lets through", "  - {key: remote_address, rate_limits: [{unit: minute, requests_per_unit: 1}, {unit: day, requests_per_unit: 2000, algorithm: fixed_window}]}\n", "never-decides"},
		{"a quota below that", "  - {key: remote_address, rate_limits: [{unit: minute, requests_per_unit: 1}, {unit: day, requests_per_unit: 1000, algorithm: fixed_window}]}\n", ""},
		{"below a ban", "  - {key: plan, value: none, rate_limit: {unit: minute, requests_per_unit: 0}, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 40}}]}\n", "never-decides"},
		{"below a ban in shadow mode", "  - {key: plan, value: none, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 0}, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 40}}]}\n", ""},
		{"a ceiling that exempts some", ceiling + "  - {key: remote_address, value: 192.0.2.0/24}\n  - {key: path, value: /x, descriptors: [{key: remote_address, rate_limit: {unit: minute, requests_per_unit: 60}}]}\n", ""},
	} {
		opts := rule.Options{ForAttributes: strings.Contains(c.want, "unknown-attribute")}
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
			if w.Code == "compat-envoy" && !strings.Contains(c.want, w.Code) {
				continue // most files here could be the reference's
			}
			if code := w.Code; w.Level == rule.LevelNote {
				codes = append(codes, "note "+code)
			} else {
				codes = append(codes, code)
			}
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
		fmt.Fprintf(&b, "  - {key: host, value: \"*.%03d\"}\n", i)
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
	warnings = slices.DeleteFunc(warnings, func(w rule.Warning) bool { return w.Level == rule.LevelNote })
	if err != nil || len(warnings) != 0 {
		t.Errorf("with VerifiedKeys: %v, %v, want no warning", warnings, err)
	}
}
