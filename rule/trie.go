package rule

import "strings"

// trie finds which of many "x*" patterns matches a value first in file order,
// in time that depends on the value's length and hardly on their number.
//
// Patterns are inserted in file order, and one that an earlier pattern already
// covers is left out: it could never win. Of two that remain and match the same
// value, the longer one therefore comes first in the file, so the longest match
// is the answer.
type trie struct {
	label string // the text on the edge to this place
	node  *node  // the pattern that ends here, if any
	first string // the first bytes of the edges below
	below []*trie
}

// insert adds the pattern prefix + "*". It gives the earlier pattern that covers
// it, and nil when it was added.
func (t *trie) insert(prefix string, n *node) (covering *node) {
	if t.node != nil {
		return t.node
	}
	if prefix == "" {
		t.node = n
		return nil
	}
	i := strings.IndexByte(t.first, prefix[0])
	if i < 0 {
		t.first += prefix[:1]
		t.below = append(t.below, &trie{label: prefix, node: n})
		return nil
	}
	next := t.below[i]
	common := commonPrefix(prefix, next.label)
	if common < len(next.label) {
		next = next.split(common)
		t.below[i] = next
	}
	return next.insert(prefix[common:], n)
}

// split makes a place in the middle of the edge to t.
func (t *trie) split(at int) *trie {
	upper := &trie{label: t.label[:at], first: t.label[at : at+1], below: []*trie{t}}
	t.label = t.label[at:]
	return upper
}

// find gives the longest pattern that matches the value, or nil.
func (t *trie) find(v string) *node {
	found := t.node
	for v != "" {
		i := strings.IndexByte(t.first, v[0])
		if i < 0 {
			break
		}
		t = t.below[i]
		if !strings.HasPrefix(v, t.label) {
			break
		}
		v = v[len(t.label):]
		if t.node != nil {
			found = t.node
		}
	}
	return found
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
