package rule_test

import "testing"

// TestDescriptorVectors are the reference's own rules in small: exact, then
// wildcard in file order, then key alone; exact depth; no backtracking.
func TestDescriptorVectors(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - { key: k, value: v, rate_limit: { name: k10, unit: second, requests_per_unit: 10 } }
  - { key: k, rate_limit: { name: k5, unit: second, requests_per_unit: 5 } }
  - { key: e, value: v }
  - { key: e, rate_limit: { name: e20, unit: minute, requests_per_unit: 20 } }
  - key: n
    value: v
    descriptors:
      - { key: s, value: "1", rate_limit: { name: n9, unit: second, requests_per_unit: 9 } }
  - key: n
    descriptors:
      - { key: s, rate_limit: { name: n3, unit: second, requests_per_unit: 3 } }
  - { key: w, value: foo*, rate_limit: { name: w20, unit: minute, requests_per_unit: 20 } }
  - { key: m, value: bar*b, rate_limit: { name: m, unit: minute, requests_per_unit: 20 } }
  - { key: x, value: foo*bar*baz, rate_limit: { name: x, unit: minute, requests_per_unit: 20 } }
  - { key: p, value: /api/*/act, rate_limit: { name: p, unit: minute, requests_per_unit: 20 } }
  - { key: s*, rate_limit: { name: star, unit: minute, requests_per_unit: 20 } }
  - { key: f, value: test1, rate_limit: { name: f50, unit: minute, requests_per_unit: 50 } }
  - { key: f, value: test*, share_threshold: true, rate_limit: { name: f100, unit: minute, requests_per_unit: 100 } }
`)
	for _, c := range []struct{ descriptor, want string }{
		{"k=v", "k10"}, {"k=z", "k5"}, {"k=", "k5"},
		{"e=v", ""}, {"e=z", "e20"},
		{"n=v,s=1", "n9"}, {"n=v,s=2", ""}, {"n=z,s=2", "n3"}, {"n=v", ""}, {"n=v,s=1,t=2", ""}, {"s=1,n=v", ""},
		{"w=foo", "w20"}, {"w=foo1", "w20"}, {"w=xfoo", ""}, {"w=fo", ""}, {"wild_w=foo", ""},
		{"m=bar1b", "m"}, {"m=barb", "m"}, {"m=barba", ""}, {"m=bar", ""},
		{"x=foobarbaz", "x"}, {"x=foo1bar2baz", "x"}, {"x=foobazbar", ""},
		{"p=/api/7/act", "p"}, {"p=/api/7/other", ""},
		{"star=1", "star"}, {"other=1", ""},
		{"f=test1", "f50"}, {"f=test2", "f100"},
	} {
		if got := described(d, c.descriptor); got != c.want {
			t.Errorf("[%s] matches %q, want %q", c.descriptor, got, c.want)
		}
	}
	if entryCounter(t, d, "f=test2") != entryCounter(t, d, "f=test3") {
		t.Error("share_threshold gave test2 and test3 two counters, want one")
	}
	if entryCounter(t, d, "sa=1") == entryCounter(t, d, "sb=1") {
		t.Error("a wildcard key gave sa and sb one counter, want two")
	}
}

// TestC57DepthMustMatch: a deeper request matches no limit by descriptor; by
// attributes there is no depth rule.
func TestC57DepthMustMatch(t *testing.T) {
	d := parse(t, "domain: d\ndescriptors:\n  - {key: key, value: value, rate_limit: {name: l, unit: second, requests_per_unit: 300}}\n")
	if got := described(d, "key=value,subkey=x"); got != "" {
		t.Errorf("[key=value,subkey=x] matches %q, want nothing", got)
	}
	if got := matched(d, request{"key": "value", "subkey": "x"}); got != "l" {
		t.Errorf("by attributes it matches %q, want l", got)
	}
}

// TestDescriptorAddress: an IPv4 client has one counter whether it comes as an
// attribute or as a descriptor's value.
func TestDescriptorAddress(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - { key: remote_address, rate_limit: { name: any, unit: minute, requests_per_unit: 5 } }
  - { key: remote_address, value: 50.0.0.5, rate_limit: { name: banned, unit: minute, requests_per_unit: 0 } }
  - { key: remote_address, value: "2001:db8::/32", rate_limit: { name: net, unit: minute, requests_per_unit: 5 } }
`)
	if got := described(d, "remote_address=50.0.0.5"); got != "banned" {
		t.Errorf("50.0.0.5 matches %q, want banned", got)
	}
	if a, b := entryCounter(t, d, "remote_address=192.0.2.1"), counter(t, d, request{"remote_address": "192.0.2.1"}); a != b {
		t.Errorf("by descriptor %s, by attributes %s, want one counter", a, b)
	}
	if entryCounter(t, d, "remote_address=2001:db8::1") != entryCounter(t, d, "remote_address=2001:db8::2") {
		t.Error("under a CIDR value two addresses of one /64 have two counters, want one")
	}
	if got := described(d, "remote_address=junk"); got != "any" {
		t.Errorf("junk matches %q, want any", got)
	}
}
