package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

const publicAPI = `
domain: public-api
algorithm: token_bucket
descriptors:
  - key: remote_address
    rate_limit: { name: ceiling, unit: minute, requests_per_unit: 600, burst: 100 }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { name: login, unit: minute, requests_per_unit: 5, algorithm: sliding_log }
  - key: plan
    value: free
    descriptors:
      - key: api_key
        rate_limits:
          - { name: free-rate,  unit: minute, requests_per_unit: 100, burst: 20 }
          - { name: free-quota, unit: day, requests_per_unit: 10000, algorithm: fixed_window, timezone: Europe/Madrid }
  - key: path
    value: /legacy/*
    rate_limit: { name: legacy, unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 100, max_wait: 2s }
`

// TestEveryBranchApplies: by attributes all branches whose keys the request has
// are walked, and all limits on the way apply.
func TestEveryBranchApplies(t *testing.T) {
	d := parse(t, publicAPI)
	const ip = "203.0.113.7"
	for _, c := range []struct {
		req  request
		want string
	}{
		{request{"remote_address": ip, "path": "/"}, "ceiling"},
		{request{"remote_address": ip, "path": "/login"}, "ceiling | login"},
		{request{"remote_address": ip, "path": "/legacy/a"}, "ceiling | legacy"},
		{request{"remote_address": ip, "path": "/legacy"}, "ceiling"},
		{request{"remote_address": ip, "plan": "free", "api_key": "k"}, "ceiling | free-rate | free-quota"},
		{request{"remote_address": ip, "plan": "free"}, "ceiling | free-rate | free-quota"}, // by address
		{request{"remote_address": ip, "plan": "pro", "api_key": "k"}, "ceiling"},
		{request{"path": "/login"}, ""},
		{request{}, ""},
	} {
		if got := matched(d, c.req); got != c.want {
			t.Errorf("Match(%v) = %q, want %q", c.req, got, c.want)
		}
	}
}

func TestInnerNodesApplyToo(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: path
    value: /a*
    rate_limit: { unit: minute, requests_per_unit: 10 }
    descriptors:
      - key: method
        value: POST
        rate_limit: { unit: minute, requests_per_unit: 2 }
`)
	for _, c := range []struct{ method, want string }{
		{"GET", "path=/a*"},
		{"POST", "path=/a* | path=/a*.method=POST"},
	} {
		if got := matched(d, request{"path": "/ab", "method": c.method}); got != c.want {
			t.Errorf("%s /ab matches %q, want %q", c.method, got, c.want)
		}
	}
}

// TestOneSiblingIsChosen: exact beats CIDR (longest) beats wildcard (file order)
// beats key alone; no backtracking; a bare node exempts its branch.
func TestOneSiblingIsChosen(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: remote_address
    rate_limit: { name: any, unit: minute, requests_per_unit: 1 }
  - key: remote_address
    value: "203.*"
    rate_limit: { name: text, unit: minute, requests_per_unit: 1 }
  - key: remote_address
    value: 203.0.0.0/16
    rate_limit: { name: wide, unit: minute, requests_per_unit: 1 }
  - key: remote_address
    value: 203.0.113.0/24
    rate_limit: { name: narrow, unit: minute, requests_per_unit: 1 }
  - key: remote_address
    value: 203.0.113.9
    rate_limit: { name: one, unit: minute, requests_per_unit: 1 }
  - key: remote_address
    value: 192.0.2.1
  - key: remote_address
    value: 2001:db8:0:0::/48
    rate_limit: { name: six, unit: minute, requests_per_unit: 1 }
  - key: remote_address
    value: 2001:DB8::0:9
    rate_limit: { name: six-one, unit: minute, requests_per_unit: 1 }
  - key: remote_address
    value: 198.51.100.0/24
    descriptors:
      - key: path
        value: /x
        rate_limit: { name: deep, unit: minute, requests_per_unit: 1 }
`)
	for _, c := range []struct{ addr, want string }{
		{"198.18.0.1", "any"},
		{"203.1.0.1", "text"},
		{"203.0.7.1", "wide"},
		{"203.0.113.7", "narrow"},
		{"203.0.113.9", "one"},
		{"::ffff:203.0.113.9", "one"}, // IPv4-mapped
		{"192.0.2.1", ""},             // exempt
		{"192.0.2.2", "any"},
		{"2001:db8::7", "six"},
		{"2001:db8::9", "six-one"},
		{"2001:db8:1::9", "any"},
		{"198.51.100.7", ""}, // chosen, leads nowhere: no backtracking
	} {
		if got := matched(d, request{"remote_address": c.addr}); got != c.want {
			t.Errorf("%s matches %q, want %q", c.addr, got, c.want)
		}
	}
}

// TestC58WildcardOrder: the first wildcard in the file wins, pieces do not
// overlap, and sharing is as written.
func TestC58WildcardOrder(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: path
    value: /api/*
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: path
    value: /api/admin/*
    rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: host
    value: foo*
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: host
    value: ab*ba
    rate_limit: { unit: minute, requests_per_unit: 5 }
`)
	for _, c := range []struct {
		req  request
		want string
	}{
		{request{"path": "/api/admin/x"}, "path=/api/*"},
		{request{"host": "foo"}, "host=foo*"},
		{request{"host": "fo"}, ""},
		{request{"host": "abba"}, "host=ab*ba"},
		{request{"host": "ab-ba"}, "host=ab*ba"},
		{request{"host": "aba"}, ""},
	} {
		if got := matched(d, c.req); got != c.want {
			t.Errorf("Match(%v) = %q, want %q", c.req, got, c.want)
		}
	}
	if entryCounter(t, d, "path=/api/a") == entryCounter(t, d, "path=/api/b") {
		t.Error("by descriptor a wildcard without share_threshold gave /api/a and /api/b one counter, want two")
	}
	if counter(t, d, request{"path": "/api/a"}) != counter(t, d, request{"path": "/api/b"}) {
		t.Error("by attributes a wildcard on path gave /api/a and /api/b two counters, want one")
	}
	if counter(t, d, request{"host": "foo1"}) == counter(t, d, request{"host": "foo2"}) {
		t.Error("a wildcard on host gave foo1 and foo2 one counter, want two")
	}
}

func TestShareThreshold(t *testing.T) {
	for _, c := range []struct {
		key, value, share, a, b string
		same                    bool
	}{
		{"path", "/x/*", "", "/x/1", "/x/2", true},
		{"path", "/x/*", "share_threshold: false", "/x/1", "/x/2", false},
		{"path", "/x/*", "share_threshold: true", "/x/1", "/x/2", true},
		{"host", "*.a", "", "1.a", "2.a", false},
		{"host", "*.a", "share_threshold: true", "1.a", "2.a", true},
		{"remote_address", "10.0.0.0/8", "", "10.0.0.1", "10.0.0.2", false},
		{"remote_address", "10.0.0.0/8", "share_threshold: true", "10.0.0.1", "10.0.0.2", true},
		{"remote_address", "10.*", "share_threshold: true", "10.0.0.1", "10.0.0.2", true},
		{"remote_address", "2001:db8::/32", "", "2001:db8:1:2::1", "2001:db8:1:2::2", true},
		{"remote_address", "2001:db8::/32", "", "2001:db8:1:2::1", "2001:db8:1:3::1", false},
	} {
		text := "domain: d\ndescriptors:\n  - key: " + c.key + "\n    value: \"" + c.value + "\"\n"
		if c.share != "" {
			text += "    " + c.share + "\n"
		}
		d := parse(t, text+"    rate_limit: {unit: minute, requests_per_unit: 5}\n")
		a, b := counter(t, d, request{c.key: c.a}), counter(t, d, request{c.key: c.b})
		if (a == b) != c.same {
			t.Errorf("%s=%s %s: %s and %s have counters %s and %s, want the same: %v", c.key, c.value, c.share, c.a, c.b, a, b, c.same)
		}
	}
}

// TestAddressGrouping: /64 for IPv6 by default, whole IPv4 addresses; both can be
// set.
func TestAddressGrouping(t *testing.T) {
	const text = "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: minute, requests_per_unit: 5}\n"
	for _, c := range []struct {
		opts rule.Options
		a, b string
		same bool
	}{
		{rule.Options{}, "203.0.113.7", "203.0.113.8", false},
		{rule.Options{}, "203.0.113.7", "::ffff:203.0.113.7", true},
		{rule.Options{}, "2001:db8::1", "2001:db8::ffff:1", true},
		{rule.Options{}, "fe80::1%eth0", "fe80::1%eth1", true},
		{rule.Options{}, "2001:db8::1", "2001:db8:0:1::1", false},
		{rule.Options{IPv4Prefix: 24}, "203.0.113.7", "203.0.113.8", true},
		{rule.Options{IPv6Prefix: 128}, "2001:db8::1", "2001:db8::2", false},
		{rule.Options{IPv6Prefix: 48}, "2001:db8::1", "2001:db8:0:1::1", true},
	} {
		d := parseWith(t, c.opts, text)
		a, b := counter(t, d, request{"remote_address": c.a}), counter(t, d, request{"remote_address": c.b})
		if (a == b) != c.same {
			t.Errorf("%+v: %s and %s have counters %s and %s, want the same: %v", c.opts, c.a, c.b, a, b, c.same)
		}
	}
	if _, _, err := (rule.Options{IPv4Prefix: 33}).Parse("a.yaml", []byte(text)); err == nil {
		t.Error("Parse with IPv4Prefix 33 = no error, want one")
	}
}

// TestC65MissingIdentity: each policy for a request without the header, and the
// defaults.
func TestC65MissingIdentity(t *testing.T) {
	const a, b = "203.0.113.7", "203.0.113.8"
	domain := func(key, missing string) *rule.Domain {
		text := "domain: d\ndescriptors:\n  - key: " + key + "\n"
		if missing != "" {
			text += "    missing: " + missing + "\n"
		}
		return parse(t, text+"    rate_limit: {unit: minute, requests_per_unit: 3}\n")
	}
	for _, c := range []struct{ key, missing, want string }{
		{"header:X-User", "skip", ""},
		{"header:X-User", "ip", "header:X-User"},
		{"header:X-User", "shared", "header:X-User"},
		{"header:X-User", "reject", "rejected header:X-User"},
		{"header:X-User", "", ""},
		{"api_key", "", "api_key"},
		{"user", "", "user"},
		{"jwt:sub", "", "jwt:sub"},
		{"visitor", "", ""},
		{"plan", "", ""},
	} {
		if got := matched(domain(c.key, c.missing), request{"remote_address": a}); got != c.want {
			t.Errorf("%s absent, missing %q: %q, want %q", c.key, c.missing, got, c.want)
		}
	}
	byIP, shared := domain("api_key", "ip"), domain("api_key", "shared")
	if counter(t, byIP, request{"remote_address": a}) == counter(t, byIP, request{"remote_address": b}) {
		t.Error("missing: ip gave two addresses one counter")
	}
	if counter(t, shared, request{"remote_address": a}) != counter(t, shared, request{"remote_address": b}) {
		t.Error("missing: shared gave two addresses two counters")
	}
	if counter(t, byIP, request{"remote_address": a}) == counter(t, byIP, request{"remote_address": a, "api_key": a}) {
		t.Error("a key that reads like an address has the address's counter")
	}
	if first := counter(t, byIP, request{}); counter(t, byIP, request{}) != first {
		t.Error("missing: ip without an address is not one counter")
	}
	if counter(t, byIP, request{}) == counter(t, byIP, request{"remote_address": a}) {
		t.Error("missing: ip without an address shares an address's counter")
	}
}

// TestEmptyValues: nobody's name is no name; but where an absent attribute is
// skipped, an empty one counts, or sending it would be a way around the rule.
func TestEmptyValues(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: api_key
    rate_limit: { unit: minute, requests_per_unit: 3 }
  - key: query:expensive
    rate_limit: { unit: minute, requests_per_unit: 3 }
  - key: header:x-tenant
    missing: reject
`)
	got := matched(d, request{"api_key": "", "query:expensive": "", "header:X-Tenant": "", "remote_address": "192.0.2.1"})
	if want := "api_key | query:expensive | rejected header:X-Tenant"; got != want {
		t.Errorf("empty values match %q, want %q", got, want)
	}
	empty := counters(d, request{"api_key": "", "remote_address": "192.0.2.1", "header:X-Tenant": "t"})
	absent := counters(d, request{"remote_address": "192.0.2.1", "header:X-Tenant": "t"})
	if empty[0] != absent[0] {
		t.Errorf("an empty api_key is charged to %s, want the counter of an absent one %s", empty[0], absent[0])
	}
}

// TestC67Keys: values of any bytes and length have counters of their own.
func TestC67Keys(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: header:X-Client
    descriptors:
      - key: path
        rate_limit: { unit: minute, requests_per_unit: 3 }
`)
	long := strings.Repeat("x", 10_000)
	seen := map[string]request{}
	for _, client := range []string{"a", "A", "a\n", "a\x00", "a:b", "a|b", "{a}", "\xff\xfe", long, long + "y", "y" + long, "1.1.1.1", "1.1.1.11"} {
		for _, path := range []string{"1/x", "/x", long, "/x1/x"} {
			req := request{"header:X-Client": client, "path": path}
			id := counter(t, d, req)
			if twin, dup := seen[id]; dup {
				t.Errorf("%.40q and %.40q share a counter", req, twin)
			}
			seen[id] = req
			if len(id) > 1000 {
				t.Errorf("the counter of a value of %d bytes has an identity of %d", len(client), len(id))
			}
		}
	}
}

// TestC56NoComposedText: key is compared with key and value with value, and no
// two lists of parts read the same.
func TestC56NoComposedText(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: type_example
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: user
    rate_limit: { unit: day, requests_per_unit: 1 }
    descriptors:
      - key: role
        rate_limit: { unit: day, requests_per_unit: 1 }
`)
	if got := described(d, "type=example"); got != "" {
		t.Errorf("(type, example) matches %q, want nothing", got)
	}
	other := func(domain, key string) *rule.Domain {
		return parse(t, "domain: "+domain+"\ndescriptors:\n  - key: "+key+"\n    rate_limit: {unit: day, requests_per_unit: 1}\n")
	}
	ids := []string{
		entryCounter(t, d, "user=a_role_b"),
		entryCounter(t, d, "user=a,role=b"),
		entryCounter(t, other("x", "y_z"), "y_z=v"),
		entryCounter(t, other("x_y", "z"), "z=v"),
	}
	for i, id := range ids {
		for j := range i {
			if id == ids[j] {
				t.Errorf("counters %d and %d are the same: %s", j, i, id)
			}
		}
	}
}

// TestIdentityOfCounters: the numbers are not in it; algorithm, period, path and
// the name inside rate_limits are; order and file are not.
func TestIdentityOfCounters(t *testing.T) {
	scope := func(node string) string {
		return parse(t, "domain: d\ndescriptors:\n"+node).Limits()[0].Compiled.Scope()
	}
	base := scope("  - key: a\n    rate_limit: {unit: minute, requests_per_unit: 5}\n")
	for _, c := range []struct {
		what, node string
		same       bool
	}{
		{"other numbers", "  - key: a\n    rate_limit: {unit: minute, requests_per_unit: 50, burst: 7}\n", true},
		{"a name outside rate_limits", "  - key: a\n    rate_limit: {name: n, unit: minute, requests_per_unit: 5}\n", true},
		{"another place in the file", "  - key: a\n    rate_limit: {unit: minute, requests_per_unit: 5}\n  - key: 0\n", true},
		{"shadow mode", "  - key: a\n    shadow_mode: true\n    rate_limit: {unit: minute, requests_per_unit: 5}\n", true},
		{"another algorithm", "  - key: a\n    rate_limit: {unit: minute, requests_per_unit: 5, algorithm: sliding_log}\n", false},
		{"another unit", "  - key: a\n    rate_limit: {unit: hour, requests_per_unit: 5}\n", false},
		{"the same period in other words", "  - key: a\n    rate_limit: {unit: second, unit_multiplier: 60, requests_per_unit: 5}\n", false},
		{"another key", "  - key: b\n    rate_limit: {unit: minute, requests_per_unit: 5}\n", false},
		{"a value", "  - key: a\n    value: v\n    rate_limit: {unit: minute, requests_per_unit: 5}\n", false},
		{"a name in rate_limits", "  - key: a\n    rate_limits: [{name: n, unit: minute, requests_per_unit: 5}]\n", false},
	} {
		if got := scope(c.node); (got == base) != c.same {
			t.Errorf("%s: scope %q against %q, want the same: %v", c.what, got, base, c.same)
		}
	}
}

func TestModesAndUnlimited(t *testing.T) {
	d := parse(t, `
domain: d
descriptors:
  - key: a
    rate_limit: { unlimited: true }
  - key: b
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 3 }
  - key: c
    quota_mode: true
    rate_limit: { unit: minute, requests_per_unit: 3 }
`)
	var m rule.Match
	d.Match(request{"a": "1", "b": "1", "c": "1"}, &m)
	if !m.Unlimited || len(m.Calls) != 2 {
		t.Fatalf("Match gave unlimited %v and %d calls, want true and 2", m.Unlimited, len(m.Calls))
	}
	for i, want := range []caudal.Mode{caudal.Shadow, caudal.Quota} {
		if m.Calls[i].Mode != want || m.Limits[i].Mode != want || m.Calls[i].Cost != 1 {
			t.Errorf("call %d has mode %v and cost %d, want %v and 1", i, m.Calls[i].Mode, m.Calls[i].Cost, want)
		}
	}
	d.Match(request{"b": "1"}, &m)
	if m.Unlimited || len(m.Calls) != 1 {
		t.Errorf("a used Match gave unlimited %v and %d calls, want false and 1", m.Unlimited, len(m.Calls))
	}
}

func TestReplaces(t *testing.T) {
	d := parse(t, `
domain: example
descriptors:
  - key: key_1
    rate_limit: { name: specific, unit: second, requests_per_unit: 5 }
  - key: key_2
    rate_limit: { name: wide, unit: second, requests_per_unit: 10, replaces: [{ name: specific }] }
`)
	if got := matched(d, request{"key_1": "a", "key_2": "b"}); got != "wide" {
		t.Errorf("both keys match %q, want %q", got, "wide")
	}
	if got := matched(d, request{"key_1": "a"}); got != "specific" {
		t.Errorf("key_1 alone matches %q, want %q", got, "specific")
	}
	if got := described(d, "key_1=a", "key_2=b"); got != "wide" {
		t.Errorf("two descriptors match %q, want %q", got, "wide")
	}
}

// TestEnforcePercent: a client is always in or always out, and about as many are
// in as the rule says.
func TestEnforcePercent(t *testing.T) {
	for _, percent := range []int{0, 1, 25, 99, 100} {
		d := parse(t, fmt.Sprintf("domain: d\ndescriptors:\n  - {key: api_key, rate_limit: {unit: minute, requests_per_unit: 5, enforce_percent: %d}}\n", percent))
		enforced := 0
		var m rule.Match
		for i := range 10_000 {
			req := request{"api_key": fmt.Sprintf("client-%d", i)}
			d.Match(req, &m)
			first := m.Calls[0].Mode
			d.Match(req, &m)
			if m.Calls[0].Mode != first {
				t.Fatalf("enforce_percent %d: %v was in mode %v, then in %v", percent, req, first, m.Calls[0].Mode)
			}
			if first == caudal.Enforce {
				enforced++
			}
		}
		if off := enforced - percent*100; off < -200 || off > 200 || (percent%100 == 0 && off != 0) {
			t.Errorf("enforce_percent %d: %d of 10000 clients are enforced", percent, enforced)
		}
	}
}
