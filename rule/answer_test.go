package rule_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

func limitNamed(t *testing.T, set *rule.Set, name string) *rule.Limit {
	t.Helper()
	for _, l := range set.Limits() {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("there is no limit %s", name)
	return nil
}

// TestWhatLimitsCarry: what a file, a descriptor and a limit say reaches the
// limit, the nearest word winning, and comes back from print.
func TestWhatLimitsCarry(t *testing.T) {
	first, _, err := rule.Load("testdata/good/answers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := rule.Parse("again.yaml", []byte(first.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, first)
	}
	for _, set := range []*rule.Set{first, again} {
		endpoint, model, user := limitNamed(t, set, "endpoint"), limitNamed(t, set, "model"), limitNamed(t, set, "user")
		for _, c := range []struct {
			limit  *rule.Limit
			failed caudal.Failure
			factor float64
			status int
			cost   *rule.Cost
		}{
			{endpoint, caudal.FailOpen, 2, 503, nil},
			{model, caudal.FailLocal, 1.5, 402, model.Cost},
			{user, caudal.FailClosed, 2, 402, model.Cost},
		} {
			l := c.limit
			if got := l.Compiled.OnStoreError(); got != c.failed || l.Compiled.LocalFactor() != c.factor {
				t.Errorf("%s without its store: %v with factor %v, want %v with %v", l, got, l.Compiled.LocalFactor(), c.failed, c.factor)
			}
			if l.OnDeny == nil || l.OnDeny.Status != c.status || l.Cost != c.cost {
				t.Errorf("%s: OnDeny %+v and cost %+v, want status %d and %+v", l, l.OnDeny, l.Cost, c.status, c.cost)
			}
		}
		if c := model.Cost; c.Source != rule.CostHeader || c.Name != "x-tokens" || c.Default != 10 || c.Max != 1000 {
			t.Errorf("cost = %+v", c)
		}
		want := map[string]any{"owner": "team-a", "unknown_here": map[string]any{"nested": []any{1.0, 0.25, true, nil, "010", "010", "2024-01-01"}}}
		if !reflect.DeepEqual(model.Metadata, want) {
			t.Errorf("metadata = %v, want %v", model.Metadata, want)
		}
		v := &rule.Variables{Rule: `a "b"`, RetryAfter: 7}
		body := model.OnDeny.Body.Expand(v, model.OnDeny.ContentType)
		if !json.Valid([]byte(body)) || body != `{"wait": 7, "rule": "a \"b\""}` {
			t.Errorf("Expand = %s", body)
		}
	}
}

// TestCostOfCalls: a cost is bounded, and what is no number in a request costs the
// most, so that nobody pays less for what a lenient server behind takes for much.
func TestCostOfCalls(t *testing.T) {
	d := parse(t, `domain: d
descriptors:
  - key: path
    cost: { header: x-cost, default: 3, max: 50 }
    rate_limit: { unit: minute, requests_per_unit: 100 }
    descriptors:
      - key: host
        rate_limit: { unit: minute, requests_per_unit: 100 }
  - key: plan
    cost: { query: n }
    rate_limit: { unit: minute, requests_per_unit: 100 }
  - key: user
    missing: skip
    cost: { response_header: X-Spent, default: 0, max: 9 }
    rate_limit: { unit: minute, requests_per_unit: 100 }
`)
	for _, c := range []struct {
		req  request
		want []uint32
	}{
		{request{"path": "/", "host": "h", "header:X-Cost": "7"}, []uint32{7, 7}},
		{request{"path": "/"}, []uint32{3}},
		{request{"path": "/", "header:X-Cost": ""}, []uint32{3}},
		{request{"path": "/", "header:X-Cost": "0"}, []uint32{3}},
		{request{"path": "/", "header:X-Cost": "-7"}, []uint32{50}}, // what reads it behind may take it for a number
		{request{"path": "/", "header:X-Cost": "1e1"}, []uint32{50}},
		{request{"path": "/", "header:X-Cost": "100x"}, []uint32{50}},
		{request{"path": "/", "header:X-Cost": " 40"}, []uint32{50}},
		{request{"path": "/", "header:X-Cost": "50"}, []uint32{50}},
		{request{"path": "/", "header:X-Cost": "51"}, []uint32{50}},
		{request{"path": "/", "header:X-Cost": "99999999999999999999999999999999"}, []uint32{50}},
		{request{"path": "/", "header:X-Cost": "\x00\x0240\x011"}, []uint32{40}}, // 40, and 1 that the client added
		{request{"path": "/", "header:X-Cost": "\x00\x011\x0240"}, []uint32{40}},
		{request{"path": "/", "header:X-Cost": "\x00\x011\x01x"}, []uint32{50}},
		{request{"path": "/", "header:X-Cost": "\x00\xff\xff"}, []uint32{3}},
		{request{"path": "/", "header:X-Cost": "\x00\x7f1"}, []uint32{3}},
		{request{"plan": "free", "query:n": "4294967296"}, []uint32{4294967295}},
		{request{"plan": "free", "query:n": "0"}, []uint32{1}},
		{request{"plan": "free", "query:n": "100x"}, []uint32{1}}, // no max is written
		{request{"user": "u", "header:X-Spent": "1"}, []uint32{9}},
	} {
		var m rule.Match
		d.Match(c.req, &m)
		var got []uint32
		for _, call := range m.Calls {
			got = append(got, call.Cost)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("costs of %v = %v, want %v", c.req, got, c.want)
		}
	}
	spent := d.Limits()[3].Cost
	for text, want := range map[string]uint32{"0": 0, "4": 4, "10": 9, "x": 0} {
		if got := spent.Read(text, true); got != want {
			t.Errorf("Read(%q) of a response = %d, want %d", text, got, want)
		}
	}
}
