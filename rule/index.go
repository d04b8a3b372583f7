package rule

import (
	"net/netip"
	"slices"
)

// node is a descriptor made ready to match.
type node struct {
	key    string
	value  string // as written; "" matches any value
	kind   valueKind
	order  int     // among all descriptors of the domain, in file order
	match  pattern // of a wildcard value
	keys   pattern // of a wildcard key
	keyAny bool    // the key holds a star

	sharedByAttribute  bool // one counter for all values, matching by attributes
	sharedByDescriptor bool // the same, matching by descriptor
	missing            Missing
	cost               *Cost // own or inherited, as are count and deny
	count              *CountWhen
	deny               *Denial
	priority           Priority // its own; 0 when it says none

	limits      []*Limit
	fair        bool         // one of them shares its queue
	concurrency *Concurrency // nil for none
	below       index
	parent      *node
	source      *descriptor
	coveredBy   *node // an earlier wildcard that always matches instead
}

// valueKind is how a descriptor's value is compared.
type valueKind uint8

const (
	anyValue   valueKind = iota // no value: a key-only descriptor
	exactValue                  // the same text, or the same address
	cidrValue                   // addresses within a prefix
	wildcard                    // a value that holds stars
)

// index finds the descriptor that a value chooses among siblings.
type index struct {
	groups  []*group          // one per key, in file order
	byKey   map[string]*group // the same
	anyKeys []*node           // keys that hold a star, in file order
}

// group is the siblings that share a key.
type group struct {
	key      string
	address  bool    // remote_address: compared as addresses
	identity bool    // an empty value counts as absent
	nodes    []*node // all of them, in file order
	any      *node
	exact    map[string]*node
	addrs    map[netip.Addr]*node
	cidrs    cidrTable
	prefixes *trie   // wildcards of the form x*
	patterns []*node // other wildcards, in file order
}

// add puts a node among its siblings.
func (ix *index) add(n *node) {
	if n.keyAny {
		ix.anyKeys = append(ix.anyKeys, n)
		return
	}
	g := ix.byKey[n.key]
	if g == nil {
		g = &group{key: n.key, address: n.key == remoteAddress, identity: isIdentity(n.key)}
		if ix.byKey == nil {
			ix.byKey = map[string]*group{}
		}
		ix.byKey[n.key] = g
		ix.groups = append(ix.groups, g)
	}
	g.add(n)
}

func (g *group) add(n *node) {
	g.nodes = append(g.nodes, n)
	switch n.kind {
	case anyValue:
		g.any = n
	case exactValue:
		if a, ok := parseAddr(n.value); ok && g.address {
			if g.addrs == nil {
				g.addrs = map[netip.Addr]*node{}
			}
			g.addrs[a] = n
			return
		}
		if g.exact == nil {
			g.exact = map[string]*node{}
		}
		g.exact[n.value] = n
	case cidrValue:
		g.cidrs.add(netip.MustParsePrefix(n.value), n)
	case wildcard:
		g.addWildcard(n)
	}
}

func (g *group) addWildcard(n *node) {
	if g.prefixes == nil {
		g.prefixes = &trie{}
	}
	n.coveredBy = g.coverOf(n)
	if !n.match.onlyPrefix() {
		g.patterns = append(g.patterns, n)
		return
	}
	g.prefixes.insert(n.match.prefix, n)
}

// coverOf gives the wildcard among those so far that matches all that n would, if
// there is one. A pattern covers another when it matches its text: a star of the other
// can only be taken in by a star.
func (g *group) coverOf(n *node) *node {
	if first := g.prefixes.find(n.match.prefix); first != nil {
		return first
	}
	for _, earlier := range g.patterns[:min(len(g.patterns), manyPatterns)] {
		if earlier.match.match(n.value) {
			return earlier
		}
	}
	return nil
}

// pick gives the descriptor that a text chooses, or nil.
func (g *group) pick(v string) *node {
	if n := g.exact[v]; n != nil {
		return n
	}
	if n := g.wildcard(v); n != nil {
		return n
	}
	return g.any
}

// wildcard gives the first wildcard in file order that matches.
func (g *group) wildcard(v string) *node {
	if g.prefixes == nil {
		return nil
	}
	found := g.prefixes.find(v)
	for _, n := range g.patterns {
		if found != nil && found.order < n.order {
			break
		}
		if n.match.match(v) {
			return n
		}
	}
	return found
}

// pickAddr gives the descriptor that an address chooses, or nil. The scratch
// space takes the address's text where wildcards ask for it.
func (g *group) pickAddr(a netip.Addr, scratch []byte) *node {
	if n := g.addrs[a]; n != nil {
		return n
	}
	if n := g.cidrs.find(a); n != nil {
		return n
	}
	if g.prefixes != nil {
		text := string(a.AppendTo(scratch)) // stays on the stack for most addresses
		if n := g.wildcard(text); n != nil {
			return n
		}
	}
	return g.any
}

// cidrTable finds the longest prefix that holds an address: one look-up for each
// length in use, longest first.
type cidrTable struct {
	nets         map[netip.Prefix]*node
	bits4, bits6 []int // lengths in use, longest first
}

func (t *cidrTable) add(p netip.Prefix, n *node) {
	if t.nets == nil {
		t.nets = map[netip.Prefix]*node{}
	}
	t.nets[p] = n
	bits := &t.bits6
	if p.Addr().Is4() {
		bits = &t.bits4
	}
	i, found := slices.BinarySearchFunc(*bits, p.Bits(), func(have, want int) int { return want - have })
	if !found {
		*bits = slices.Insert(*bits, i, p.Bits())
	}
}

func (t *cidrTable) find(a netip.Addr) *node {
	bits := t.bits6
	if a.Is4() {
		bits = t.bits4
	}
	for _, b := range bits {
		p, err := a.Prefix(b)
		if err != nil {
			return nil
		}
		if n := t.nets[p]; n != nil {
			return n
		}
	}
	return nil
}
