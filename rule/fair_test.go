package rule_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

const fairRules = `
domain: fair
descriptors:
  - key: path
    value: /legacy/*
    rate_limit: { unit: second, requests_per_unit: 50, algorithm: leaky_bucket, queue: 60, fair: FAIR }
    descriptors:
      - key: user
        rate_limit: { unit: second, requests_per_unit: 5, algorithm: leaky_bucket, queue: 6, fair: FAIR }
`

// sharer is a request with a user and an address.
type sharer struct{ user, address string }

func (r sharer) Attribute(name string) (string, bool) {
	switch name {
	case "path":
		return "/legacy/x", true
	case "user":
		return r.user, r.user != ""
	}
	return "", false
}

func (r sharer) Address() netip.Addr {
	a, _ := netip.ParseAddr(r.address)
	return a
}

func fairDomain(t *testing.T, by string) (*rule.Domain, []rule.Warning) {
	t.Helper()
	set, warnings, err := rule.Parse("fair.yaml", []byte(strings.ReplaceAll(fairRules, "FAIR", by)))
	if err != nil {
		t.Fatal(err)
	}
	return set.Domains()[0], warnings
}

// Calls with the same value wait in one share, others in shares of their own, and
// those without the attribute in one together that no value can name.
func TestFairNamesForWhomACallWaits(t *testing.T) {
	same := func(t *testing.T, d *rule.Domain, a, b rule.Request) bool {
		t.Helper()
		var m, n rule.Match
		d.Match(a, &m)
		d.Match(b, &n)
		if len(m.Calls) == 0 || len(m.Calls[0].Fair) == 0 || len(n.Calls) == 0 || len(n.Calls[0].Fair) == 0 {
			t.Fatalf("Match(%v), Match(%v): no call says for whom it waits", a, b)
		}
		return slices.Equal(m.Calls[0].Fair, n.Calls[0].Fair)
	}
	byUser, _ := fairDomain(t, "user")
	byAddress, _ := fairDomain(t, "remote_address")
	for _, c := range []struct {
		name string
		d    *rule.Domain
		a, b sharer
		want bool
	}{
		{"one user at two addresses", byUser, sharer{"ann", "192.0.2.1"}, sharer{"ann", "192.0.2.2"}, true},
		{"two users", byUser, sharer{"ann", ""}, sharer{"bob", ""}, false},
		{"nobody twice", byUser, sharer{"", "192.0.2.1"}, sharer{"", "192.0.2.2"}, true},
		{"nobody and a user", byUser, sharer{"", ""}, sharer{"m", ""}, false},
		{"one address", byAddress, sharer{"ann", "192.0.2.1"}, sharer{"bob", "192.0.2.1"}, true},
		{"two addresses", byAddress, sharer{"ann", "192.0.2.1"}, sharer{"ann", "192.0.2.2"}, false},
		{"one /64", byAddress, sharer{"", "2001:db8::1"}, sharer{"", "2001:db8::2"}, true},
		{"no address", byAddress, sharer{"ann", ""}, sharer{"bob", ""}, true},
	} {
		if got := same(t, c.d, c.a, c.b); got != c.want {
			t.Errorf("%s: %v and %v share %t, want %t", c.name, c.a, c.b, got, c.want)
		}
	}
}

// By descriptor the attribute may be another entry, before or after the limit's.
func TestFairByDescriptor(t *testing.T) {
	d, _ := fairDomain(t, "tenant")
	who := func(entries ...rule.Entry) string {
		var m rule.Match
		d.MatchDescriptor(entries, &m)
		if len(m.Calls) != 1 || len(m.Calls[0].Fair) == 0 {
			t.Fatalf("MatchDescriptor(%v) = %d calls, want one that says for whom it waits", entries, len(m.Calls))
		}
		return string(m.Calls[0].Fair)
	}
	path := rule.Entry{Key: "path", Value: "/legacy/x"}
	if first, again := who(path), who(path); first != again {
		t.Error("two descriptors without the attribute wait apart, want together")
	}
	byUser, _ := fairDomain(t, "user")
	var m, n rule.Match
	byUser.MatchDescriptor([]rule.Entry{path, {Key: "user", Value: "ann"}}, &m)
	byUser.MatchDescriptor([]rule.Entry{path, {Key: "user", Value: "bob"}}, &n)
	if len(m.Calls) != 1 || len(n.Calls) != 1 || slices.Equal(m.Calls[0].Fair, n.Calls[0].Fair) {
		t.Errorf("descriptors of two users: %v and %v, want shares of their own", m.Calls, n.Calls)
	}
}

// Two descriptors of one request that share a counter wait together, for the client of
// the first: a counter has one place for a request.
func TestFairDescriptorsOfOneCounterWaitTogether(t *testing.T) {
	set, _, err := rule.Parse("fair.yaml", []byte(`
domain: d
descriptors:
  - key: path
    value: /legacy
    descriptors:
      - key: tenant
        value: "*"
        share_threshold: true
        rate_limit: { unit: second, requests_per_unit: 5, algorithm: leaky_bucket, queue: 6, fair: tenant }
`))
	if err != nil {
		t.Fatal(err)
	}
	match := func(m *rule.Match, tenant string) {
		set.Domains()[0].MatchDescriptor([]rule.Entry{{Key: "path", Value: "/legacy"}, {Key: "tenant", Value: tenant}}, m)
	}
	var both, alone rule.Match
	match(&both, "a")
	match(&both, "b")
	match(&alone, "b")
	if len(both.Calls) != 2 || !slices.Equal(both.Calls[0].Key, both.Calls[1].Key) || !slices.Equal(both.Calls[0].Fair, both.Calls[1].Fair) {
		t.Errorf("descriptors of tenants a and b: %+v, want two calls on one counter that wait for one", both.Calls)
	}
	if len(alone.Calls) != 1 || slices.Equal(alone.Calls[0].Fair, both.Calls[0].Fair) {
		t.Error("a request of tenant b waits with tenant a, want a share of its own")
	}
}

func TestFairWarnings(t *testing.T) {
	for by, want := range map[string]string{
		"user": "fair-alone", "tenant": "fair-unknown", "header:X-Tenant": "fair-made-up", "remote_address": "",
	} {
		_, warnings := fairDomain(t, by)
		var got []string
		for _, w := range warnings {
			if len(w.Code) > 5 && w.Code[:5] == "fair-" {
				got = append(got, w.Code)
			}
		}
		if want == "" && len(got) > 0 || want != "" && !slices.Contains(got, want) {
			t.Errorf("fair: %s gets %v, want %q", by, got, want)
		}
	}
}
