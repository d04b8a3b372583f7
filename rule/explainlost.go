package rule

import (
	"fmt"
	"net/netip"
	"slices"
)

// chosenWords says how a descriptor was chosen.
func chosenWords(n *node) string {
	if n == nil {
		return "no sibling takes the value"
	}
	switch n.kind {
	case exactValue:
		return "exact value"
	case cidrValue:
		return "longest network that holds the address"
	case wildcard:
		return "first pattern in the file that matches"
	}
	return "any value"
}

// lost notes the siblings that were not chosen, those that match too first.
func (s *Step) lost(g *group, chosen *node, v string) {
	var others []Lost
	addr, _ := parseAddr(v)
	for _, n := range g.nodes {
		if n == chosen {
			continue
		}
		matches := n.matches(v, addr)
		if !matches && len(others) >= MaxLost {
			s.LostMore++
			continue
		}
		l := Lost{Rule: n.words(), Position: n.source.pos}
		if matches {
			l.Why = lostTo(n, chosen)
			s.Lost = append(s.Lost, l)
			continue
		}
		l.Why = differs(n)
		others = append(others, l)
	}
	s.Lost = append(s.Lost, others...)
	if more := len(s.Lost) - MaxLost; more > 0 {
		s.Lost, s.LostMore = slices.Clip(s.Lost[:MaxLost]), s.LostMore+more
	}
}

// matches reports whether a descriptor would take the value if it were alone.
func (n *node) matches(v string, addr netip.Addr) bool {
	switch n.kind {
	case exactValue:
		a, ok := parseAddr(n.value)
		return n.value == v || n.key == remoteAddress && ok && a == addr
	case cidrValue:
		p, err := netip.ParsePrefix(n.value)
		return err == nil && addr.IsValid() && p.Contains(addr)
	case wildcard:
		return n.match.match(v)
	}
	return true
}

func differs(n *node) string {
	switch n.kind {
	case exactValue:
		return "the value is another"
	case cidrValue:
		return "the address is not in it"
	}
	return "the value does not match"
}

// lostTo says why a descriptor that matches too was not chosen.
func lostTo(n, chosen *node) string {
	if chosen == nil {
		return "it does not take the value"
	}
	switch {
	case chosen.kind == exactValue:
		return "an exact value comes first"
	case chosen.kind == cidrValue && n.kind == cidrValue:
		return "a longer network comes first"
	case chosen.kind == cidrValue:
		return "a network comes first"
	case n.kind == wildcard:
		return fmt.Sprintf("the pattern at line %d comes first in the file", chosen.source.pos.Line)
	}
	return "a pattern comes before a key without value"
}
