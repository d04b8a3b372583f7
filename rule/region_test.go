package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal/rule"
)

// regional gives the one limit of rules with this rate_limit, as loaded in a region.
func regional(t testing.TB, region, limit string) *rule.Limit {
	t.Helper()
	d := parseWith(t, rule.Options{Region: region, AllRegions: region == ""},
		"domain: d\ndescriptors:\n  - key: api_key\n    rate_limit: {"+limit+"}\n")
	return d.Limits()[0]
}

func TestShareOfEveryNumber(t *testing.T) {
	for _, tt := range []struct{ limit, region, want string }{
		{"unit: minute, requests_per_unit: 100, scope: global, share: {eu: 60, us: 40}", "eu", "60/minute"},
		{"unit: minute, requests_per_unit: 101, scope: global, share: {eu: 60, us: 40}", "eu", "60/minute"},
		{"unit: minute, requests_per_unit: 101, scope: global, share: {eu: 60, us: 40}", "us", "40/minute"},
		{"unit: minute, requests_per_unit: 100, burst: 9, scope: global, share: {eu: 60, us: 40}", "eu", "60/minute burst 5"},
		{"unit: minute, requests_per_unit: 4294967295, scope: global, share: {eu: 99, us: 1}", "eu", "4252017622/minute"},
		{"unit: minute, requests_per_unit: 100, scope: global, share: {eu: 100}", "eu", "100/minute"},
		{"unit: minute, requests_per_unit: 100, scope: global, share: {eu: 100, us: 0}", "us", "0/minute"},
		{"unit: minute, requests_per_unit: 0, scope: global, share: {eu: 60}", "eu", "0/minute"},
		{"unit: day, requests_per_unit: 7, algorithm: fixed_window, timezone: Europe/Madrid, scope: global, share: {eu: 60}", "eu", "4/day fixed_window timezone Europe/Madrid"},
		{"unit: minute, requests_per_unit: 5, algorithm: sliding_log, scope: global, share: {eu: 60}", "eu", "3/minute sliding_log"},
		// 101 places, one of which is that of the call that leaves: 60 of them.
		{"unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 100, scope: global, share: {eu: 60, us: 40}", "eu", "30/second leaky_bucket queue 59"},
		{"unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 100, max_wait: 1s, scope: global, share: {eu: 60, us: 40}", "us", "20/second leaky_bucket queue 19 max_wait 1s"},
		// Elsewhere the number is the whole one.
		{"unit: minute, requests_per_unit: 100, scope: region", "eu", "100/minute"},
		{"unit: minute, requests_per_unit: 100", "eu", "100/minute"},
		{"unit: minute, requests_per_unit: 100, scope: global, share: {eu: 60, us: 40}", "", "100/minute"},
	} {
		if got := regional(t, tt.region, tt.limit).Compiled.Limit().String(); got != tt.want {
			t.Errorf("{%s} in region %q = %s, want %s", tt.limit, tt.region, got, tt.want)
		}
	}
}

func TestSharesNeverExceedTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percents := drawShares(t)
		n := rapid.Uint32Range(100, 1<<32-1).Draw(t, "requests")
		text := rapid.SampledFrom([]string{
			"", ", burst: " + fmt.Sprint(rapid.Uint32Range(100, 1<<20).Draw(t, "burst")),
			", algorithm: sliding_log", ", algorithm: fixed_window", ", algorithm: sliding_window",
			", algorithm: leaky_bucket, queue: " + fmt.Sprint(rapid.Uint32Range(99, 1<<20).Draw(t, "queue")),
		}).Draw(t, "rest")
		set, _, err := rule.Options{AllRegions: true}.Parse("r.yaml", fmt.Appendf(nil,
			"domain: d\ndescriptors:\n  - key: api_key\n    rate_limit: {unit: minute, requests_per_unit: %d%s, scope: global, share: {eu: %d, us: %d, ap: %d}}\n",
			n, text, percents[0], percents[1], percents[2]))
		if err != nil {
			t.Fatal(err)
		}
		l := set.Limits()[0]
		whole := l.Compiled.Limit()
		var requests, capacity uint64
		for _, r := range l.Regions() {
			requests, capacity = requests+uint64(r.Limit.Requests), capacity+r.Limit.Capacity()
		}
		if requests > uint64(whole.Requests) || capacity > whole.Capacity() {
			t.Errorf("%s shared as %v: %d requests and %d at once, over the limit's %d and %d",
				whole, percents, requests, capacity, whole.Requests, whole.Capacity())
		}
		over, _, ok := l.WorstOverRegions()
		if worst := whole.WorstCase(); !ok || over.Calls > worst.Calls || over.Cost > worst.Cost {
			t.Errorf("%s shared as %v: worst case %v (%t), over the limit's own %v", whole, percents, over, ok, worst)
		}
	})
}

// drawShares gives percents from 1 up of three regions, at most 100 together.
func drawShares(t *rapid.T) [3]uint32 {
	a := rapid.Uint32Range(1, 98).Draw(t, "eu")
	b := rapid.Uint32Range(1, 99-a).Draw(t, "us")
	return [3]uint32{a, b, rapid.Uint32Range(1, 100-a-b).Draw(t, "ap")}
}

func TestOwnNumbersAreSharedToo(t *testing.T) {
	l := regional(t, "us", "unit: minute, requests_per_unit: 100, burst: 50, scope: global, share: {eu: 60, us: 40}")
	for n, want := range map[uint32]string{
		100: "40/minute burst 20",
		200: "80/minute burst 40",
		3:   "0/minute", // a burst of 2, of which 40 % is none
		2:   "0/minute",
	} {
		c, err := l.WithRequests(n)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Limit().String(); got != want {
			t.Errorf("WithRequests(%d) in us = %s, want %s", n, got, want)
		}
		if c.Scope() != l.Compiled.Scope() {
			t.Errorf("WithRequests(%d) has another counter", n)
		}
	}
}

// A share is a number, and numbers are not in a counter's identity: a changed share
// keeps what was consumed.
func TestSharesAreNotInTheIdentity(t *testing.T) {
	const numbers = "unit: minute, requests_per_unit: 100"
	want := regional(t, "", numbers).Compiled.Scope()
	for _, tt := range []struct{ region, limit string }{
		{"eu", numbers + ", scope: global, share: {eu: 60, us: 40}"},
		{"us", numbers + ", scope: global, share: {eu: 60, us: 40}"},
		{"eu", numbers + ", scope: region"},
	} {
		if got := regional(t, tt.region, tt.limit).Compiled.Scope(); got != want {
			t.Errorf("the counter of {%s} in %s is another: %q, want %q", tt.limit, tt.region, got, want)
		}
	}
}

func TestRegionMustBeKnown(t *testing.T) {
	const text = "domain: d\ndescriptors:\n  - key: api_key\n    rate_limit: {unit: minute, requests_per_unit: 100, scope: global, share: {eu: 60, us: 40}}\n"
	for region, want := range map[string]string{
		"":   "name it with --region: eu, us",
		"ap": "add it to share",
	} {
		_, _, err := rule.Options{Region: region}.Parse("r.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "r.yaml:4:71") {
			t.Errorf("Parse in region %q: %v, want %q with its place", region, err, want)
		}
	}
	if _, _, err := (rule.Options{Region: "ap", AllRegions: true}).Parse("r.yaml", []byte(text)); err == nil {
		t.Error("Parse in region ap with AllRegions gave no error: the share of ap is not known")
	}
}

func TestRegionsInWords(t *testing.T) {
	for _, tt := range []struct{ region, limit, want string }{
		{"", "unit: minute, requests_per_unit: 100, algorithm: sliding_log, scope: global, share: {us: 40, eu: 59}",
			"100 per minute, exact over any minute, for each api_key; over all regions: 59 % in eu, 40 % in us; " +
				"worst case: at most 100 in any minute: exactly the limit, wherever the interval lies; " +
				"over all regions at most 99 in any minute: 59 in eu, 40 in us"},
		{"us", "unit: minute, requests_per_unit: 100, algorithm: sliding_log, scope: global, share: {us: 40, eu: 59}",
			"40 per minute, exact over any minute, for each api_key; the 40 % of region us of 100 per minute, exact over any minute; " +
				"worst case: at most 40 in any minute: exactly the limit, wherever the interval lies; " +
				"over all regions at most 99 in any minute: 59 in eu, 40 in us"},
		{"", "unit: minute, requests_per_unit: 5, algorithm: sliding_log, scope: region",
			"5 per minute, exact over any minute, for each api_key; in each region by itself; " +
				"worst case: at most 5 in any minute: exactly the limit, wherever the interval lies"},
	} {
		if got := regional(t, tt.region, tt.limit).Describe(); got != tt.want {
			t.Errorf("Describe of {%s} in region %q =\n%s\nwant\n%s", tt.limit, tt.region, got, tt.want)
		}
	}
}

// A limit that says nothing of regions holds in each store: where the set knows
// regions, the worst case counts them.
func TestWorstCaseCountsTheRegionsOfTheSet(t *testing.T) {
	d := parseWith(t, rule.Options{Region: "eu"}, `domain: d
descriptors:
  - key: api_key
    rate_limit: {unit: minute, requests_per_unit: 100, scope: global, share: {eu: 50, us: 30, ap: 20}}
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 10, algorithm: sliding_log}
`)
	w, regions, ok := d.Limits()[1].WorstOverRegions()
	if !ok || w.Calls != 30 || fmt.Sprint(regions) != "[ap eu us]" {
		t.Errorf("WorstOverRegions() = %v, %v, %t, want 30 calls over ap, eu, us", w, regions, ok)
	}
}

func TestPrintKeepsRegions(t *testing.T) {
	const text = "domain: d\ndescriptors:\n  - key: api_key\n    rate_limits:\n" +
		"      - {name: a, unit: minute, requests_per_unit: 100, scope: global, share: {us: 40, eu: 0, \"no\": 5}}\n" +
		"      - {name: b, unit: hour, requests_per_unit: 100, scope: region}\n"
	o := rule.Options{AllRegions: true}
	set, _, err := o.Parse("r.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := o.Parse("r.yaml", []byte(set.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, set)
	}
	if changes := rule.Diff(set, again); len(changes) > 0 || !strings.Contains(set.String(), "eu") {
		t.Errorf("printed and read again: %s\n%s", rule.DiffText(changes), set)
	}
}

func TestDiffOfRegions(t *testing.T) {
	const numbers = "unit: minute, requests_per_unit: 100"
	for _, tt := range []struct {
		was, is string
		kind    rule.ChangeKind
		want    string
	}{
		{"", ", scope: global, share: {eu: 60}", rule.Tightened, "scope none -> global"},
		{", scope: global, share: {eu: 60}", ", scope: region", rule.Loosened, "scope global -> region"},
		{"", ", scope: region", rule.Changed, "scope none -> region"},
		{", scope: global, share: {eu: 60}", ", scope: global, share: {eu: 50}", rule.Tightened, "share of eu 60 % -> 50 %"},
		{", scope: global, share: {eu: 60, us: 10}", ", scope: global, share: {eu: 50, us: 20}", rule.Changed, "share of eu 60 % -> 50 %"},
		{", scope: global, share: {eu: 60}", ", scope: global, share: {eu: 60, us: 40}", rule.Loosened, "share of us 0 % -> 40 %"},
	} {
		set := func(rest string) *rule.Set {
			s, _, err := rule.Options{AllRegions: true}.Parse("r.yaml", []byte("domain: d\ndescriptors:\n  - key: api_key\n    rate_limit: {"+numbers+rest+"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		changes := rule.Diff(set(tt.was), set(tt.is))
		if len(changes) != 1 || changes[0].Kind != tt.kind || changes[0].Fresh || !strings.Contains(rule.DiffText(changes), tt.want) {
			t.Errorf("Diff(%q, %q) = %s, want %s: %s", tt.was, tt.is, rule.DiffText(changes), tt.kind, tt.want)
		}
	}
}

func TestQueueInRegionsIsNoted(t *testing.T) {
	_, warnings, err := rule.Options{AllRegions: true}.Parse("r.yaml", []byte(
		"domain: d\ndescriptors:\n  - key: path\n    value: /q\n    rate_limit: {unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 100, scope: global, share: {eu: 60, us: 40}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || warnings[0].Code != "queues-in-regions" || warnings[0].Level != rule.LevelNote {
		t.Errorf("Parse noted %v, want queues-in-regions", warnings)
	}
}

// Whole numbers that compare can have shares that do not: no limit may be called
// idle by them.
func TestSharedLimitIsNotCalledIdle(t *testing.T) {
	_, warnings, err := rule.Options{AllRegions: true}.Parse("r.yaml", []byte(`domain: d
descriptors:
  - key: remote_address
    rate_limits:
      - {name: a, unit: minute, requests_per_unit: 100}
      - {name: b, unit: minute, requests_per_unit: 150, scope: global, share: {eu: 50, us: 50}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Errorf("a is not idle beside b, whose share is 75: %v", w)
	}
}
