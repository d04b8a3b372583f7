package rule_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// request is a set of attributes; remote_address is the address.
type request map[string]string

func (r request) Attribute(name string) (string, bool) {
	v, ok := r[name]
	return v, ok
}

func (r request) Address() netip.Addr {
	a, _ := netip.ParseAddr(r["remote_address"])
	return a
}

func parse(t testing.TB, text string) *rule.Domain {
	t.Helper()
	return parseWith(t, rule.Options{}, text)
}

func parseWith(t testing.TB, opts rule.Options, text string) *rule.Domain {
	t.Helper()
	set, _, err := opts.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	d, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// matched gives the names of the limits that a request matches, in order, with
// "unlimited" and "rejected KEY" after them.
func matched(d *rule.Domain, req request) string {
	var m rule.Match
	d.Match(req, &m)
	return words(&m)
}

// described gives the same for a descriptor written as "k=v,k2=v2".
func described(d *rule.Domain, descriptors ...string) string {
	var m rule.Match
	m.Reset()
	for _, s := range descriptors {
		d.MatchDescriptor(entries(s), &m)
	}
	m.Replace()
	return words(&m)
}

func entries(s string) []rule.Entry {
	var list []rule.Entry
	for _, pair := range strings.Split(s, ",") {
		k, v, _ := strings.Cut(pair, "=")
		list = append(list, rule.Entry{Key: k, Value: v})
	}
	return list
}

func words(m *rule.Match) string {
	var out []string
	for _, l := range m.Limits {
		out = append(out, l.Name)
	}
	if m.Unlimited {
		out = append(out, "unlimited")
	}
	if m.Rejected != "" {
		out = append(out, "rejected "+m.Rejected)
	}
	return strings.Join(out, " | ")
}

// counters gives the whole identity of each counter that a request is charged
// to.
func counters(d *rule.Domain, req request) []string {
	var m rule.Match
	d.Match(req, &m)
	return identities(m.Calls)
}

func identities(calls []caudal.Call) []string {
	var ids []string
	for _, c := range calls {
		ids = append(ids, fmt.Sprintf("%q %q", c.Limit.Scope(), c.Key))
	}
	return ids
}

// counter gives the one counter of a request.
func counter(t testing.TB, d *rule.Domain, req request) string {
	t.Helper()
	ids := counters(d, req)
	if len(ids) != 1 {
		t.Fatalf("%v is charged to %d counters, want 1: %v", req, len(ids), ids)
	}
	return ids[0]
}

// entryCounter gives the one counter of a descriptor.
func entryCounter(t testing.TB, d *rule.Domain, descriptor string) string {
	t.Helper()
	var m rule.Match
	d.MatchDescriptor(entries(descriptor), &m)
	if len(m.Calls) != 1 {
		t.Fatalf("%s is charged to %d counters, want 1", descriptor, len(m.Calls))
	}
	return identities(m.Calls)[0]
}
