package rule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

const priorities = `
domain: d
descriptors:
  - key: path
    value: /checkout/*
    priority: critical
    descriptors:
      - key: plan
        value: free
        priority: normal
      - key: remote_address
        rate_limit: { unit: minute, requests_per_unit: 60 }
  - key: plan
    value: free
    priority: low
  - key: plan
    value: pro
    priority: high
  - key: path
    value: /export
    priority: low
  - key: user
    missing: shared
    descriptors:
      - key: method
        value: DELETE
        priority: high
`

// TestPriority: in a branch the deepest descriptor that says one decides, and a
// branch below that says none does not count; of all branches the highest wins.
func TestPriority(t *testing.T) {
	d := parse(t, priorities)
	var m rule.Match
	for _, c := range []struct {
		req  request
		want rule.Priority
	}{
		{request{"path": "/"}, 0},
		{request{"path": "/checkout/1"}, rule.PriorityCritical},
		{request{"path": "/checkout/1", "remote_address": "203.0.113.7"}, rule.PriorityCritical},
		{request{"path": "/checkout/1", "remote_address": "203.0.113.7", "plan": "free"}, rule.PriorityNormal},
		{request{"path": "/", "plan": "free"}, rule.PriorityLow},
		{request{"path": "/export"}, rule.PriorityLow},
		{request{"path": "/export", "plan": "pro"}, rule.PriorityHigh},
		{request{"path": "/", "method": "DELETE"}, rule.PriorityHigh},
		{request{"path": "/export", "method": "DELETE", "user": "u"}, rule.PriorityHigh},
	} {
		d.Match(c.req, &m)
		if m.Priority != c.want {
			t.Errorf("Match(%v).Priority = %q, want %q", c.req, m.Priority, c.want)
		}
		if got := d.Explain(c.req).Priority; got != c.want.String() {
			t.Errorf("Explain(%v).Priority = %q, want %q", c.req, got, c.want)
		}
	}
	req := request{"path": "/checkout/1", "remote_address": "203.0.113.7"}
	if n := testing.AllocsPerRun(100, func() { d.Match(req, &m) }); n != 0 {
		t.Errorf("Match allocates %v times, want 0", n)
	}
	if m.Reset(); m.Priority != 0 {
		t.Errorf("Priority after Reset = %q, want none", m.Priority)
	}
	if !d.HasPriorities() {
		t.Error("HasPriorities() = false, want true")
	}
}

func TestPriorityIsPrintedAndExplained(t *testing.T) {
	set, _, err := rule.Parse("d.yaml", []byte(priorities))
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := rule.Parse("d.yaml", []byte(set.String()))
	if err != nil {
		t.Fatalf("what was printed does not load: %v\n%s", err, set)
	}
	if set.Hash() != again.Hash() {
		t.Errorf("printed and read again the rules differ:\n%s\n%s", set, again)
	}
	d, _ := again.Default()
	text := d.Explain(request{"path": "/checkout/1", "plan": "free"}).String()
	for _, want := range []string{"priority when there is not room for all: normal", "priority critical\n", "priority normal\n", "priority low\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("explained as\n%s, want %q in it", text, want)
		}
	}
}

func TestDiffOfPriorities(t *testing.T) {
	load := func(text string) *rule.Set {
		t.Helper()
		set, _, err := rule.Parse("d.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	was := load(priorities)
	is := load(strings.Replace(strings.Replace(priorities, "priority: high\n  - key: path", "priority: critical\n  - key: path", 1),
		"        priority: high\n", "        rate_limit: { unit: day, requests_per_unit: 9 }\n", 1))
	var got []string
	for _, c := range rule.Diff(was, is) {
		got = append(got, c.Kind.String()+" "+c.Rule+": "+c.Old+" -> "+c.New)
	}
	for _, want := range []string{"changed plan=pro: priority high -> priority critical", "removed user.method=DELETE: priority high -> "} {
		if !slices.Contains(got, want) {
			t.Errorf("Diff = %q, want %q among them", got, want)
		}
	}
	if n := len(rule.Diff(was, load(priorities))); n != 0 {
		t.Errorf("Diff of the same rules has %d changes, want 0", n)
	}
}

// TestMadeUpPriority: a header that anybody can send must not be the way past all
// others, unless something else holds too.
func TestMadeUpPriority(t *testing.T) {
	for _, c := range []struct {
		descriptor string
		verified   bool
		want       bool
	}{
		{"{ key: header:X-Important, priority: high }", false, true},
		{"{ key: header:X-Important, priority: low }", false, false},
		{"{ key: header:X-Important, priority: normal }", false, false},
		{"{ key: api_key, value: k1, priority: critical }", false, true},
		{"{ key: api_key, value: k1, priority: critical }", true, false},
		{"{ key: path, value: /pay, priority: critical }", false, false},
		{"{ key: plan, value: pro, priority: high }", false, false},
		{"{ key: plan, value: pro, descriptors: [{ key: query:fast, value: \"1\", priority: critical }] }", false, false},
		{"{ key: user_agent, value: ours/*, priority: high }", false, true},
	} {
		text := "domain: d\ndescriptors:\n  - " + c.descriptor + "\n"
		_, warnings, err := rule.Options{VerifiedKeys: c.verified}.Parse("d.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(warnings, func(w rule.Warning) bool { return w.Code == "priority-made-up" })
		if got != c.want {
			t.Errorf("%s (keys verified: %t) warned of: %t, want %t", c.descriptor, c.verified, got, c.want)
		}
	}
}
