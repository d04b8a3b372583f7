package rule

import (
	"net/netip"
	"strings"

	"github.com/caudal-dev/caudal"
)

// Lookup gives every limit that has a counter for a client, and calls found with
// each: the call's key is valid only until found returns. known is what is known of
// the client, such as its API key alone. What a rule demands beside that (path=/login)
// is assumed, so that a client's counters under all rules are found, whichever
// requests it made. Limits that nothing known leads to are left out.
//
// A limit may be found under several counters by real requests, such as one per
// path of a wildcard; those whose values nobody gave are not found.
func (d *Domain) Lookup(known Request, found func(*Limit, caudal.Call)) {
	var m Match
	for _, l := range d.limits {
		if l.Unlimited {
			continue
		}
		a := assumed{known: known, chain: l.node}
		if !a.concerned() {
			continue
		}
		d.Match(&a, &m)
		for i, got := range m.Limits {
			if got == l {
				found(l, m.Calls[i])
				break
			}
		}
	}
}

// assumed is a request that has what is known, and beside that what the
// descriptors on the way to a rule demand.
type assumed struct {
	known Request
	chain *node
}

// concerned reports whether the client has a counter of its own there, or one that
// it is known to share.
func (a *assumed) concerned() bool {
	for n := a.chain; n != nil; n = n.parent {
		if n.key == remoteAddress {
			if a.known.Address().IsValid() {
				return true
			}
			continue
		}
		if _, ok := a.known.Attribute(n.key); ok || n.missing == MissingIP && n.kind == anyValue && a.known.Address().IsValid() {
			return true
		}
	}
	return false
}

// Attribute implements Request.
func (a *assumed) Attribute(name string) (string, bool) {
	if v, ok := a.known.Attribute(name); ok {
		return v, true
	}
	for n := a.chain; n != nil; n = n.parent {
		switch {
		case n.key != name:
		case n.kind == exactValue:
			return n.value, true
		case n.kind == wildcard:
			return strings.ReplaceAll(n.value, "*", ""), true
		}
	}
	return "", false
}

// Address implements Request.
func (a *assumed) Address() netip.Addr {
	if known := a.known.Address(); known.IsValid() {
		return known
	}
	for n := a.chain; n != nil; n = n.parent {
		if n.key != remoteAddress {
			continue
		}
		if n.kind == cidrValue {
			return netip.MustParsePrefix(n.value).Addr()
		}
		if address, ok := parseAddr(n.value); ok {
			return address
		}
	}
	return netip.Addr{}
}
