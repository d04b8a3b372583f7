package rule_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

// fastRequest costs nothing to ask, so that only the match is measured.
type fastRequest struct {
	path, host, key, plan string
	addr                  netip.Addr
}

func (r *fastRequest) Attribute(name string) (string, bool) {
	switch name {
	case "path":
		return r.path, true
	case "host":
		return r.host, r.host != ""
	case "api_key":
		return r.key, r.key != ""
	case "plan":
		return r.plan, r.plan != ""
	}
	return "", false
}

func (r *fastRequest) Address() netip.Addr { return r.addr }

// TestMatchAllocatesNothing holds for all kinds of values once the Match has
// grown.
func TestMatchAllocatesNothing(t *testing.T) {
	d := parse(t, publicAPI+`
  - key: remote_address
    value: "203.*"
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: remote_address
    value: 192.0.2.0/24
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: host
    value: a*b*c
    rate_limit: { unit: minute, requests_per_unit: 5, replaces: [{ name: ceiling }] }
`)
	v4, v6 := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8:1:2:3::1")
	for name, req := range map[string]*fastRequest{
		"login":          {path: "/login", addr: v4},
		"legacy by IPv6": {path: "/legacy/x", addr: v6},
		"plan and key":   {path: "/", plan: "free", key: "k", addr: netip.MustParseAddr("192.0.2.1")},
		"no key":         {path: "/", plan: "free", addr: v6},
		"no address":     {path: "/", plan: "free"},
		"mapped":         {path: "/", addr: netip.MustParseAddr("::ffff:203.0.113.7")},
		"long key":       {path: "/", plan: "free", key: strings.Repeat("k", 8192), addr: v4},
		"replaced":       {path: "/", host: "abc", addr: v4},
	} {
		var m rule.Match
		d.Match(req, &m)
		if allocs := testing.AllocsPerRun(100, func() { d.Match(req, &m) }); allocs != 0 {
			t.Errorf("Match of %s allocates %v times, want 0", name, allocs)
		}
	}
	list := entries("plan=free,api_key=k")
	var m rule.Match
	if allocs := testing.AllocsPerRun(100, func() { m.Reset(); d.MatchDescriptor(list, &m) }); allocs != 0 {
		t.Errorf("MatchDescriptor allocates %v times, want 0", allocs)
	}
}

// siblings makes a rule with n siblings of one kind.
func siblings(n int, value string) string {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - key: host\n    value: "+value+"\n    rate_limit: {unit: minute, requests_per_unit: 5}\n", i)
	}
	return b.String()
}

// BenchmarkMatch shows what siblings cost: exact and prefix values hardly
// anything, other patterns a try each.
func BenchmarkMatch(b *testing.B) {
	for _, kind := range []struct{ name, value, host string }{
		{"exact", "tenant-%05d.example.com", "tenant-00007.example.com"},
		{"prefix", "\"tenant-%05d.*\"", "tenant-00007.example.com"},
		{"other", "\"*tenant-%05d.*\"", "nobody.example.com"},
	} {
		for _, n := range []int{10, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				d := parse(b, siblings(n, kind.value))
				req := &fastRequest{host: kind.host}
				var m rule.Match
				b.ReportAllocs()
				for b.Loop() {
					d.Match(req, &m)
				}
			})
		}
	}
	// Siblings of different keys without value, by descriptor. By attributes each key has to be asked for.
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("key-only by descriptor/%d", n), func(b *testing.B) {
			var text strings.Builder
			text.WriteString("domain: d\ndescriptors:\n")
			for i := range n {
				fmt.Fprintf(&text, "  - key: key-%05d\n    rate_limit: {unit: minute, requests_per_unit: 5}\n", i)
			}
			d := parse(b, text.String())
			list := []rule.Entry{{Key: "key-00007", Value: "v"}}
			var m rule.Match
			b.ReportAllocs()
			for b.Loop() {
				m.Reset()
				d.MatchDescriptor(list, &m)
			}
		})
	}
	b.Run("rules of the package comment", func(b *testing.B) {
		d := parse(b, publicAPI)
		req := &fastRequest{path: "/login", key: "k", plan: "free", addr: netip.MustParseAddr("203.0.113.7")}
		var m rule.Match
		b.ReportAllocs()
		for b.Loop() {
			d.Match(req, &m)
		}
	})
}

// TestLongValuesAgainstManyStars: many stars and a long value that almost matches end at
// once.
func TestLongValuesAgainstManyStars(t *testing.T) {
	d := parse(t, "domain: d\ndescriptors: [{key: host, value: \""+strings.Repeat("a*", 400)+"b\", rate_limit: {unit: minute, requests_per_unit: 5}}]")
	if got := matched(d, request{"host": strings.Repeat("a", 1<<20) + "c"}); got != "" {
		t.Errorf("it matches %q, want nothing", got)
	}
}
