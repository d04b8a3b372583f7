package rule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/rule"
)

const reports = `domain: api
descriptors:
  - key: path
    value: /report
    concurrency: {max: 20, lease: 30s}
    descriptors:
      - key: api_key
        concurrency: {max: 2}
        rate_limit: {unit: minute, requests_per_unit: 10}
  - key: path
    value: /export/*
    shadow_mode: true
    concurrency: {max: 5}
`

func TestMatchGivesConcurrencies(t *testing.T) {
	d := parse(t, reports)
	for _, tc := range []struct {
		name  string
		req   request
		want  []string
		calls int
	}{
		{"both levels", request{"path": "/report", "api_key": "k"}, []string{"path=/report concurrency", "path=/report.api_key concurrency"}, 1},
		{"inner by address", request{"path": "/report", "remote_address": "192.0.2.1"}, []string{"path=/report concurrency", "path=/report.api_key concurrency"}, 1},
		{"shadow", request{"path": "/export/a"}, []string{"path=/export/* concurrency"}, 0},
		{"none", request{"path": "/other"}, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var m rule.Match
			d.Match(tc.req, &m)
			var got []string
			for i, c := range m.Concurrencies {
				got = append(got, c.Name)
				if call := m.PermitCalls[i]; call.Limit != c.Compiled || call.Shadow != c.Shadow {
					t.Errorf("PermitCalls[%d] = %v, shadow %t, want those of %s", i, call.Limit, call.Shadow, c)
				}
			}
			if strings.Join(got, ",") != strings.Join(tc.want, ",") || len(m.Calls) != tc.calls {
				t.Errorf("Match(%v) gives %v and %d calls, want %v and %d", tc.req, got, len(m.Calls), tc.want, tc.calls)
			}
			m.Reset()
			if len(m.PermitCalls)+len(m.Concurrencies) != 0 {
				t.Errorf("after Reset %d permit calls are left, want 0", len(m.PermitCalls))
			}
		})
	}
}

func TestConcurrencyNumbersAndIdentity(t *testing.T) {
	c := parse(t, reports).Concurrencies()
	if len(c) != 3 {
		t.Fatalf("Concurrencies() gives %d, want 3", len(c))
	}
	if got := c[0].Compiled; got.Max() != 20 || got.Lease() != 30*time.Second {
		t.Errorf("the first has max %d and lease %s, want 20 and 30s", got.Max(), got.Lease())
	}
	if got := c[1].Compiled.Lease(); got != time.Minute {
		t.Errorf("a lease that is not written is %s, want 1m0s", got)
	}
	other := parse(t, strings.ReplaceAll(strings.ReplaceAll(reports, "max: 20", "max: 7"), "30s", "5s")).Concurrencies()
	if c[0].Compiled.Scope() != other[0].Compiled.Scope() {
		t.Error("other numbers change the counter's identity, want the same: calls under way count on")
	}
	seen := map[string]bool{}
	d := parse(t, reports)
	for _, l := range d.Limits() {
		seen[l.Compiled.Scope()] = true
	}
	for _, l := range d.Concurrencies() {
		if seen[l.Compiled.Scope()] {
			t.Errorf("%s has the identity of another limit", l)
		}
		seen[l.Compiled.Scope()] = true
	}
}

func TestConcurrencyIsPrintedExplainedAndCompared(t *testing.T) {
	set, warnings, err := rule.Parse("a.yaml", []byte(reports))
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := rule.Parse("a.yaml", []byte(set.String()))
	if err != nil || len(rule.Diff(set, again)) > 0 {
		t.Fatalf("printed rules: %v, differences %v, want none\n%s", err, rule.Diff(set, again), set)
	}
	text := set.Domains()[0].Explain(request{"path": "/report", "api_key": "k"}).String()
	for _, want := range []string{"a permit is taken when the call leaves", "path=/report concurrency (a.yaml:5:18)", "20 at once, lease 30s", "api_key=k ["} {
		if !strings.Contains(text, want) {
			t.Errorf("Explain says\n%s\nwant %q in it", text, want)
		}
	}
	if text := set.Domains()[0].Explain(request{"path": "/export/a"}).String(); strings.Contains(text, "no limit applies") || !strings.Contains(text, "never denies") {
		t.Errorf("Explain of a shadow says\n%s\nwant that it never denies", text)
	}
	for _, tc := range []struct {
		from, to string
		kind     rule.ChangeKind
		details  string
		drastic  bool
	}{
		{"max: 20", "max: 30", rule.Loosened, "max 20 -> 30", false},
		{"max: 20", "max: 1", rule.Tightened, "max 20 -> 1", true},
		{"lease: 30s", "lease: 1m", rule.Changed, "lease 30s -> 1m0s", false},
		{"shadow_mode: true", "shadow_mode: false", rule.Tightened, "shadow_mode true -> false", false},
		{"concurrency: {max: 2}", "value_to_metric: false", rule.Removed, "", false},
	} {
		other, _, err := rule.Parse("a.yaml", []byte(strings.Replace(reports, tc.from, tc.to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		changes := rule.Diff(set, other)
		if len(changes) == 0 || changes[0].Kind != tc.kind || strings.Join(changes[0].Details, ";") != tc.details || changes[0].Drastic != tc.drastic {
			t.Errorf("Diff(%s to %s) = %+v, want %s %q", tc.from, tc.to, changes, tc.kind, tc.details)
		}
	}
	codes := map[string]int{}
	for _, w := range warnings {
		codes[w.Code]++
	}
	if codes["shared-permits"] != 0 {
		t.Errorf("a shared concurrency with one per client below is warned of: %v", warnings)
	}
	_, warnings, _ = rule.Parse("b.yaml", []byte("domain: b\ndescriptors:\n  - key: path\n    value: /a\n    concurrency: {max: 3}\n  - key: path\n    value: /b\n    concurrency: {max: 0}\n"))
	for _, w := range warnings {
		codes[w.Code]++
	}
	if codes["shared-permits"] != 1 || codes["concurrency-zero"] != 1 {
		t.Errorf("warnings %v, want one shared-permits and one concurrency-zero", codes)
	}
}
