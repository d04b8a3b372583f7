package rule_test

import (
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// TestScalarsAreTheTextWritten: YAML would make numbers, dates and flags of
// these.
func TestScalarsAreTheTextWritten(t *testing.T) {
	for _, c := range []struct{ written, text string }{
		{"313", "313"}, {"010", "010"}, {"0x1F", "0x1F"}, {"1_000", "1_000"}, {"0o17", "0o17"}, {"-5", "-5"},
		{"yes", "yes"}, {"no", "no"}, {"on", "on"}, {"true", "true"}, {"False", "False"},
		{"2026-01-02", "2026-01-02"}, {"2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"}, {"12:30", "12:30"},
		{`"null"`, "null"}, {`"~"`, "~"}, {`"1e3"`, "1e3"}, {`'010'`, "010"}, {`" a "`, " a "}, {`"a\tb"`, "a\tb"},
		{"|-\n      two\n      lines", "two\nlines"}, {"!!str 010", "010"}, {"10.0.0.1", "10.0.0.1"}, {"1.2.3", "1.2.3"},
	} {
		d := parse(t, "domain: d\ndescriptors:\n  - key: tenant\n    value: "+c.written+"\n    rate_limit: {name: l, unit: minute, requests_per_unit: 5}\n")
		if got := matched(d, request{"tenant": c.text}); got != "l" {
			t.Errorf("value: %s does not match %q", c.written, c.text)
		}
	}
}

// TestEveryWordOfALimit reads each algorithm with all its words.
func TestEveryWordOfALimit(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{"unit: minute, requests_per_unit: 100", "100/minute"},
		{"unit: MINUTE, requests_per_unit: 0", "0/minute"},
		{"unit: second, unit_multiplier: 13, requests_per_unit: 10, burst: 20", "10/13 second burst 20"},
		{"unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 0", "50/second leaky_bucket queue 0"},
		{"unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 100, max_wait: 2s", "50/second leaky_bucket queue 100 max_wait 2s"},
		{"unit: day, requests_per_unit: 10, algorithm: fixed_window, timezone: Europe/Madrid", "10/day fixed_window timezone Europe/Madrid"},
		{"unit: week, requests_per_unit: 4294967295, algorithm: sliding_window", "4294967295/week sliding_window"},
		{"unit: hour, requests_per_unit: 5, algorithm: sliding_log", "5/hour sliding_log"},
	} {
		d := parse(t, "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {"+c.written+"}\n")
		if got := d.Limits()[0].Compiled.Limit().String(); got != c.want {
			t.Errorf("{%s} = %s, want %s", c.written, got, c.want)
		}
	}
}

func TestDefaultAlgorithm(t *testing.T) {
	const node = "descriptors:\n  - key: k\n    rate_limit: {unit: month, requests_per_unit: 5}\n"
	for _, c := range []struct {
		opts rule.Options
		text string
		want string
	}{
		{rule.Options{}, "domain: d\n" + node, "5/month"},
		{rule.Options{}, "domain: d\nalgorithm: sliding_log\n" + node, "5/month sliding_log"},
		{rule.Options{CompatEnvoy: true}, "domain: d\n" + node, "5/month fixed_window epoch"},
		{rule.Options{CompatEnvoy: true}, "domain: d\nalgorithm: token_bucket\n" + node, "5/month"},
	} {
		d := parseWith(t, c.opts, c.text)
		if got := d.Limits()[0].Compiled.Limit().String(); got != c.want {
			t.Errorf("%+v: %q = %s, want %s", c.opts, c.text, got, c.want)
		}
	}
}

// TestAliasesAndMergeKeys: YAML's own ways to say something once.
func TestAliasesAndMergeKeys(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: a
    rate_limit: &five { unit: minute, requests_per_unit: 5 }
  - key: b
    rate_limit: *five
  - key: c
    rate_limit: { <<: *five, requests_per_unit: 7 }
  - key: e
    rate_limit: { <<: [{ unit: hour, requests_per_unit: 1 }, *five] }
`)
	var got []string
	for _, l := range d.Limits() {
		got = append(got, l.Compiled.Limit().String())
	}
	if want := "5/minute 5/minute 7/minute 1/hour"; strings.Join(got, " ") != want {
		t.Errorf("aliases give %v, want %s", got, want)
	}
}

func TestNames(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: api_key
    rate_limits:
      - { unit: minute, requests_per_unit: 100 }
      - { unit: day, unit_multiplier: 2, requests_per_unit: 10000 }
      - { unit: day, requests_per_unit: 100, algorithm: sliding_log }
      - { unit: day, requests_per_unit: 100, algorithm: sliding_window }
  - { key: a, rate_limit: { name: same, unit: minute, requests_per_unit: 5 } }
  - { key: b, rate_limit: { name: same, unit: minute, requests_per_unit: 5 } }
  - { key: c, rate_limit: { name: own, unit: minute, requests_per_unit: 5 } }
  - { key: "line\nbreak", value: "é\"", rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: `+strings.Repeat("k", 300)+`, rate_limit: { unit: minute, requests_per_unit: 5 } }
`)
	want := []string{
		"path=/login.remote_address",
		"api_key:minute", "api_key:2day", "api_key:day:sliding_log", "api_key:day:sliding_window",
		"same:minute@a:token_bucket", "same:minute@b:token_bucket", "own",
		`line\nbreak=\u00e9"`,
	}
	seen := map[string]bool{}
	for i, l := range d.Limits() {
		if i < len(want) && l.Name != want[i] {
			t.Errorf("limit %d is called %q, want %q", i, l.Name, want[i])
		}
		if seen[l.Name] || len(l.Name) > 200 || l.Name != l.Compiled.Name() {
			t.Errorf("name %q is not unique, too long, or not the compiled one %q", l.Name, l.Compiled.Name())
		}
		seen[l.Name] = true
	}
}

func TestDescribe(t *testing.T) {
	d := parse(t, publicAPI+`
  - key: api_key
    value: internal
    rate_limit: { unlimited: true }
  - key: method
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 5 }
`)
	for _, c := range []struct{ name, want string }{
		{"login", "5 per minute, exact over any minute, for each remote_address where path is /login; worst case: at most 5 in any minute"},
		{"legacy", ", for all clients together where path matches /legacy/*; worst case: "},
		{"api_key=internal", "unlimited where api_key is internal"},
		{"method", "; in shadow mode: counts and never denies; worst case: "},
	} {
		for _, l := range d.Limits() {
			if l.Name == c.name && !strings.Contains(l.Describe(), c.want) {
				t.Errorf("%s is described as %q, want %q", c.name, l.Describe(), c.want)
			}
		}
	}
}

// TestPositions: a limit knows where it stands.
func TestPositions(t *testing.T) {
	l := parse(t, publicAPI).Limits()[1]
	if got := l.Position.String(); got != "rules.yaml:11:21" {
		t.Errorf("%s stands at %s, want rules.yaml:11:21", l.Name, got)
	}
	if want := "descriptors[1].descriptors[0].rate_limit"; l.FilePath != want || l.Domain != "public-api" || l.Mode != caudal.Enforce {
		t.Errorf("%s has path %s, domain %s, mode %v", l.Name, l.FilePath, l.Domain, l.Mode)
	}
}

// TestKeys: those who make requests learn which attributes are used, header
// names in one spelling.
func TestKeys(t *testing.T) {
	d := parse(t, "domain: d\ndescriptors:\n  - {key: user}\n  - {key: 'header:x-TENANT', descriptors: [{key: path}, {key: method}]}\n")
	if got := strings.Join(d.Keys(), " "); got != "header:X-Tenant method path user" {
		t.Errorf("Keys() = %s", got)
	}
}

func TestPrintRoundTrip(t *testing.T) {
	set, _, err := rule.Parse("a.yaml", []byte(publicAPI))
	if err != nil {
		t.Fatal(err)
	}
	text := set.String()
	again, _, err := rule.Parse("a.yaml", []byte(text))
	if err != nil {
		t.Fatalf("printed rules do not load: %v\n%s", err, text)
	}
	if again.String() != text {
		t.Errorf("printed twice:\n%s\nand\n%s", text, again.String())
	}
	a, b := set.Limits(), again.Limits()
	if len(a) != len(b) {
		t.Fatalf("%d limits became %d", len(a), len(b))
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Compiled.Scope() != b[i].Compiled.Scope() || a[i].Compiled.Limit() != b[i].Compiled.Limit() {
			t.Errorf("limit %s became %s", a[i].Describe(), b[i].Describe())
		}
	}
}

// TestHash: it differs when the rules do, and not for comments and layout.
func TestHash(t *testing.T) {
	hash := func(name, text string) string {
		set, _, err := rule.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return set.Hash()
	}
	base := hash("a.yaml", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n")
	if got := hash("b.yaml", "# comment\ndescriptors: [{rate_limit: {requests_per_unit: 5, unit: MINUTE}, key: k}]\ndomain: 'd'\n"); got != base {
		t.Errorf("the same rules in other words have the hash %s, want %s", got, base)
	}
	if got := hash("a.yaml", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: minute, requests_per_unit: 6}}\n"); got == base {
		t.Errorf("other rules have the same hash %s", got)
	}
}
