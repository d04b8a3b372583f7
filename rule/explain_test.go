package rule_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal/rule"
)

const explained = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { name: ceiling, unit: minute, requests_per_unit: 600, burst: 100 }
  - key: remote_address
    value: 198.51.100.0/24
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { name: login, unit: minute, requests_per_unit: 5, algorithm: sliding_log }
  - key: path
    value: /log*
    rate_limit: { unit: minute, requests_per_unit: 50 }
  - key: path
    value: "*n"
    rate_limit: { unit: minute, requests_per_unit: 50 }
  - key: path
    value: /other
  - key: api_key
    cost: { header: X-Cost }
    shadow_mode: true
    rate_limit: { name: each-key, unit: minute, requests_per_unit: 50 }
`

func TestExplainAsText(t *testing.T) {
	d := parse(t, explained)
	got := d.Explain(request{"path": "/login", "remote_address": "203.0.113.7", "header:X-Cost": "3"}).String()
	want := `domain shop, matched by attributes

remote_address = 203.0.113.7
  -> remote_address at rules.yaml:3:5: any value
     not remote_address=198.51.100.0/24 at rules.yaml:5:5: the address is not in it
     with ceiling
path = /login
  -> path=/login at rules.yaml:7:5: exact value
     not path=/log* at rules.yaml:12:5: an exact value comes first
     not path=*n at rules.yaml:15:5: an exact value comes first
     not path=/other at rules.yaml:18:5: the value is another
    remote_address = 203.0.113.7
      -> path=/login.remote_address at rules.yaml:10:9: any value
         with login
api_key: absent
  -> api_key at rules.yaml:20:5: the request has none: missing: ip counts by address
     with each-key

3 limits apply, checked together:
  ceiling (rules.yaml:4:17)
    600 per minute, bursts of up to 100, refilled steadily, for each remote_address
    worst case: at most 700 in any minute: a burst of 100, and 600 more as they are refilled
    counter: address 203.0.113.7 [ID]
  login (rules.yaml:11:21)
    5 per minute, exact over any minute, for each remote_address where path is /login
    worst case: at most 5 in any minute: exactly the limit, wherever the interval lies
    counter: path=/login, address 203.0.113.7 [ID]
  each-key (rules.yaml:23:17)
    50 per minute, bursts of up to 50, refilled steadily, for each api_key
    worst case: at most 100 in any minute: a burst of 50, and 50 more as they are refilled
    counter: no api_key, address 203.0.113.7 [ID]
    not enforced: it counts and never denies
    cost: 3
`
	if got = maskIDs(got); got != want {
		t.Errorf("Explain says\n%s\nwant\n%s", got, want)
	}
}

// maskIDs takes the hashes out, which say nothing to a reader.
func maskIDs(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if at := strings.LastIndex(line, " ["); at > 0 && strings.HasSuffix(line, "]") {
			lines[i] = line[:at] + " [ID]"
		}
	}
	return strings.Join(lines, "\n")
}

func TestExplainDescriptor(t *testing.T) {
	d := parse(t, `domain: d
descriptors:
  - key: tenant
    rate_limit: { name: tenant, unit: minute, requests_per_unit: 5 }
    descriptors:
      - key: part
        rate_limit: { name: part, unit: minute, requests_per_unit: 5, replaces: [{ name: plain }] }
  - key: tenant
    value: free
  - key: plain
    rate_limit: { name: plain, unit: minute, requests_per_unit: 5 }
`)
	for _, c := range []struct {
		descriptors []string
		limits      string
		words       []string
	}{
		{[]string{"tenant=a,part=b"}, "part", []string{"its own limits do not count, as the descriptor goes on", "counter: tenant=a, part=b"}},
		{[]string{"tenant=free"}, "", []string{"the branch is exempt", "not tenant at rules.yaml:3:5: an exact value comes first", "no limit applies"}},
		{[]string{"tenant=a,part=b", "plain=x"}, "part", []string{"replaced, so not checked: plain"}},
		{[]string{"other=a"}, "", []string{"-> nothing: no sibling takes the value"}},
	} {
		var list [][]rule.Entry
		for _, s := range c.descriptors {
			list = append(list, entries(s))
		}
		e := d.ExplainDescriptor(list...)
		var names []string
		for _, l := range e.Limits {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, " "); got != c.limits {
			t.Errorf("limits of %v = %q, want %q", c.descriptors, got, c.limits)
		}
		for _, w := range c.words {
			if !strings.Contains(e.String(), w) {
				t.Errorf("the explanation of %v lacks %q:\n%s", c.descriptors, w, e)
			}
		}
		var back rule.Explanation
		text, err := json.Marshal(e)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || back.String() != e.String() {
			t.Errorf("%v: the JSON renders as\n%s\nwant\n%s (%v)", c.descriptors, &back, e, err)
		}
	}
}

// TestExplainAgreesWithMatch: a random tree and request; the explanation's limits
// are those that Match gives, and every limit on a chosen descriptor is among
// them.
func TestExplainAgreesWithMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, _, text := drawDomain(t)
		req := request{}
		for _, key := range modelKeys {
			values := modelValues
			if key == "remote_address" {
				values = modelAddrs
			}
			if rapid.IntRange(0, 4).Draw(t, "has") > 0 {
				req[key] = rapid.SampledFrom(values).Draw(t, key)
			}
		}
		e := d.Explain(req)
		var walked []string
		var visit func(steps []rule.Step)
		visit = func(steps []rule.Step) {
			for _, s := range steps {
				if s.Chosen != nil {
					walked = append(walked, s.Chosen.Limits...)
				}
				visit(s.Below)
			}
		}
		visit(e.Steps)
		var applied []string
		for _, l := range e.Limits {
			applied = append(applied, l.Name)
		}
		var m rule.Match
		d.Match(req, &m)
		want := words(&m)
		if got := strings.Join(applied, " | "); got != want || strings.Join(walked, " | ") != want {
			t.Fatalf("Explain(%v) applies %q on the way %v, Match says %q\n%s", req, got, walked, want, text)
		}
	})
}
