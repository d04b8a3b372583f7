package rule_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

// TestDiff: what becomes of one rule, and how the change is told.
func TestDiff(t *testing.T) {
	const before = "  - {key: user, rate_limit: {unit: minute, requests_per_unit: 100}}\n"
	for _, c := range []struct{ name, from, to, want string }{
		{"nothing", before, before, ""},
		{"layout", before, "  # a comment\n  - rate_limit: {requests_per_unit: 100, unit: MINUTE, burst: 100}\n    key: user\n", ""},
		{"raised", before, strings.Replace(before, "100", "200", 1), "loosened requests_per_unit 100 -> 200"},
		{"lowered", before, strings.Replace(before, "100", "10", 1), "tightened requests_per_unit 100 -> 10"},
		{"C84 lowered more than tenfold", before, strings.Replace(before, "100", "9", 1), "tightened requests_per_unit 100 -> 9 drastic"},
		{"C84 to nothing", before, strings.Replace(before, "100", "0", 1), "tightened requests_per_unit 100 -> 0 drastic"},
		{"more at once and less in the long run", before, strings.Replace(before, "100", "50, burst: 500", 1), "changed requests_per_unit 100 -> 50; burst 100 -> 500"},
		{"another algorithm", before, strings.Replace(before, "100", "100, algorithm: sliding_log", 1), "changed algorithm token_bucket -> sliding_log fresh"},
		{"another period", before, strings.Replace(before, "minute", "hour", 1), "tightened period minute -> hour fresh drastic"},
		{"twice the period", before, strings.Replace(before, "100", "100, unit_multiplier: 2", 1), "tightened period minute -> 2 minutes fresh"},
		{"no limit any more", before, "  - {key: user, rate_limit: {unlimited: true}}\n", "loosened no limit any more"},
		{"shadow", before, strings.Replace(before, "key: user", "key: user, shadow_mode: true", 1), "loosened enforced -> shadow"},
		{"less enforced", before, strings.Replace(before, "100", "100, enforce_percent: 10", 1), "loosened enforce_percent 100 -> 10"},
		{"missing", before, strings.Replace(before, "key: user", "key: user, missing: skip", 1), "changed missing of user: ip -> skip"},
		{"a name", before, strings.Replace(before, "100", "100, name: n", 1), `changed name "" -> "n"`},
		{"without its store", before, strings.Replace(before, "100", "100, on_store_error: deny", 1), "changed on_store_error local -> deny"},
		{"a cost", before, strings.Replace(before, "key: user", "key: user, cost: {header: X-C}", 1), "changed cost 1 -> header X-C (default 1, max 4294967295)"},
		{"failed calls only", before, strings.Replace(before, "key: user", "key: user, count_when: {status: [401, 403]}", 1), "loosened count_when every call -> status 401, 403"},
		{"more of them", strings.Replace(before, "key: user", "key: user, count_when: {status: [401]}", 1), strings.Replace(before, "key: user", "key: user, count_when: {status: [4xx]}", 1), "tightened count_when status 401 -> status 4xx"},
		{"others", strings.Replace(before, "key: user", "key: user, count_when: {status: [401]}", 1), strings.Replace(before, "key: user", "key: user, count_when: {status: [5xx]}", 1), "changed count_when status 401 -> status 5xx"},
		{"an answer", before, strings.Replace(before, "key: user", "key: user, on_deny: {status: 420}", 1), "changed on_deny changed"},
		{"gone", before, "", "removed "},
		{"new", "", before, "added "},
		{"exempt", before, before + "  - {key: user, value: root}\n", "added exempt"},
		{"named limits", "  - {key: user, rate_limits: [{name: a, unit: minute, requests_per_unit: 5}]}\n",
			"  - {key: user, rate_limits: [{name: b, unit: minute, requests_per_unit: 5}]}\n", "removed \nadded "},
		{"patterns that change places", "  - {key: path, value: /a*}\n  - {key: path, value: \"*b\"}\n  - {key: path, value: /c*}\n",
			"  - {key: path, value: /c*}\n  - {key: path, value: \"*b\"}\n  - {key: path, value: /a*}\n",
			"changed \"*b\" comes before it now and takes what both match\nchanged \"/c*\" comes before it now and takes what both match"},
		{"patterns that cannot meet", "  - {key: path, value: /a*}\n  - {key: path, value: /c*}\n", "  - {key: path, value: /c*}\n  - {key: path, value: /a*}\n", ""},
		{"shared", "  - {key: host, value: a*, rate_limit: {unit: minute, requests_per_unit: 5}}\n",
			"  - {key: host, value: a*, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 5}}\n", "changed share_threshold of host=a* changed fresh"},
	} {
		from, to := diffSet(t, c.from), diffSet(t, c.to)
		changes := rule.Diff(from, to)
		var got []string
		for _, change := range changes {
			s := change.Kind.String() + " " + strings.Join(change.Details, "; ")
			if change.New == "exempt" {
				s += "exempt"
			}
			if change.Fresh {
				s += " fresh"
			}
			if change.Drastic {
				s += " drastic"
			}
			got = append(got, s)
		}
		slices.Sort(got)
		want := strings.Split(c.want, "\n")
		slices.Sort(want)
		if g := strings.Join(got, "\n"); g != strings.Join(want, "\n") {
			t.Errorf("%s: Diff says %q, want %q", c.name, g, c.want)
		}
		if back := rule.Diff(to, from); len(back) != len(changes) && !strings.Contains(c.name, "places") {
			t.Errorf("%s: %d changes forward and %d back", c.name, len(changes), len(back))
		}
		text, err := json.Marshal(changes)
		var again []rule.Change
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil || rule.DiffText(again) != rule.DiffText(changes) {
			t.Errorf("%s: the JSON renders as %q, want %q (%v)", c.name, rule.DiffText(again), rule.DiffText(changes), err)
		}
	}
}

func diffSet(t *testing.T, nodes string) *rule.Set {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte("domain: d\ndescriptors:\n"+nodes))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestDiffText(t *testing.T) {
	from := diffSet(t, "  - {key: user, rate_limit: {unit: minute, requests_per_unit: 100}}\n")
	to := diffSet(t, "  - {key: user, rate_limit: {unit: hour, requests_per_unit: 100}}\n")
	want := `tightened d: user (rules.yaml:3:29)
  - 100 per minute, bursts of up to 100, refilled steadily
  + 100 per hour, bursts of up to 100, refilled steadily
  period minute -> hour
  its counters start fresh
  warning: lowered more than tenfold
`
	if got := rule.DiffText(rule.Diff(from, to)); got != want {
		t.Errorf("DiffText = %q, want %q", got, want)
	}
	if got := rule.DiffText(rule.Diff(to, to)); got != "no change in meaning\n" {
		t.Errorf("DiffText of nothing = %q", got)
	}
	for _, c := range rule.Diff(nil, to) {
		if c.Kind != rule.Added {
			t.Errorf("from nothing: %v, want added", c)
		}
	}
}
