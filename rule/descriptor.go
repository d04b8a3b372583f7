package rule

import "strings"

// Entry is one key and value of a descriptor, as Envoy sends it.
type Entry struct{ Key, Value string }

// MatchDescriptor adds to m the limits that apply to a descriptor: an ordered
// list of entries, walked one per level from the root. Only the limits at the
// last entry's depth count; a path that ends earlier, or a descriptor that goes
// deeper than the rules, has none. m is not reset first, so that the descriptors
// of one request can share it; call Reset before the first and Replace after the
// last.
//
// Key is compared with key and value with value; otherwise the choice among
// siblings is the reference's. The entries are counted as they came: addresses
// are not grouped, except under a CIDR value, and a wildcard on path is one
// counter only with share_threshold: true.
func (d *Domain) MatchDescriptor(entries []Entry, m *Match) {
	ix := &d.root
	var n *node
	var path span
	for i := range entries {
		if n = ix.pick(&entries[i], m.scratch[:0]); n == nil {
			return
		}
		path = d.extendEntry(m, path, n, &entries[i])
		ix = &n.below
	}
	if n != nil {
		first := len(m.Calls)
		m.add(n, path, 1)
		if n.fair {
			m.shareEntry(first, entries)
		}
	}
}

func (d *Domain) extendEntry(m *Match, path span, n *node, e *Entry) span {
	if n.kind == cidrValue && !n.sharedByDescriptor {
		if a, ok := parseAddr(e.Value); ok {
			return m.extendAddr(path, keyValue, d.group(a))
		}
	}
	if n.keyAny && !n.sharedByDescriptor {
		path = m.extendText(path, keyKey, normalKey(e.Key))
	}
	return m.extend(path, n, n.sharedByDescriptor, e.Value)
}

// pick gives the sibling that an entry chooses: exact, then wildcard in file
// order, then key alone.
func (ix *index) pick(e *Entry, scratch []byte) *node {
	key := normalKey(e.Key)
	g := ix.byKey[key]
	var found *node
	if g != nil {
		if found = g.pickEntry(e.Value, scratch); found != nil && found.kind != anyValue && found.kind != wildcard {
			return found
		}
	}
	for _, n := range ix.anyKeys {
		if found != nil && found.kind == wildcard && found.order < n.order {
			break
		}
		if n.keys.match(key) && n.takes(e.Value) {
			return n
		}
	}
	return found
}

func (g *group) pickEntry(v string, scratch []byte) *node {
	if g.address {
		if a, ok := parseAddr(v); ok {
			return g.pickAddr(a, scratch)
		}
	}
	return g.pick(v)
}

// takes reports whether a descriptor whose key holds a star takes the value.
func (n *node) takes(v string) bool {
	switch n.kind {
	case anyValue:
		return true
	case wildcard:
		return n.match.match(v)
	}
	return n.value == v
}

// ParseDescriptor reads a descriptor written as "key=value,key2=value2", as
// command lines and tests have it. A value cannot hold a comma there.
func ParseDescriptor(text string) []Entry {
	var entries []Entry
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		entries = append(entries, Entry{strings.TrimSpace(key), value})
	}
	return entries
}
