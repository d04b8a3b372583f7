package rule

import (
	"fmt"
	"strings"
)

// maxPatternsCompared bounds the search for pairs among the patterns of one list.
const maxPatternsCompared = 300

// order looks for patterns that changed places and that a value can match both:
// the first in the file wins, so that value is counted elsewhere now.
func (d *differ) order(name string, a, b *index) {
	for _, g := range b.groups {
		old := a.byKey[g.key]
		if old == nil {
			continue
		}
		before := old.patternOrder()
		after := g.wildcards()
		for j, second := range after[:min(len(after), maxPatternsCompared)] {
			for _, first := range after[:j] {
				x, okX := before[first.value]
				y, okY := before[second.value]
				if okX && okY && x > y && mayOverlap(first.match, second.match) {
					d.add(Change{Kind: Changed, Domain: name, Rule: second.words(), Position: second.source.pos,
						Details: []string{fmt.Sprintf("%q comes before it now and takes what both match", clip(first.value))}})
				}
			}
		}
		d.below(name, old, g)
	}
}

func (d *differ) below(name string, old, now *group) {
	children := map[sibling]*node{}
	for _, n := range old.nodes {
		children[n.sibling()] = n
	}
	for _, n := range now.nodes {
		if was := children[n.sibling()]; was != nil {
			d.order(name, &was.below, &n.below)
		}
	}
}

func (g *group) wildcards() []*node {
	var list []*node
	for _, n := range g.nodes {
		if n.kind == wildcard {
			list = append(list, n)
		}
	}
	return list
}

func (g *group) patternOrder() map[string]int {
	order := map[string]int{}
	for i, n := range g.wildcards() {
		order[n.value] = i
	}
	return order
}

// mayOverlap reports whether a value might match both patterns; it errs on the
// side of yes.
func mayOverlap(a, b pattern) bool {
	begin := strings.HasPrefix(a.prefix, b.prefix) || strings.HasPrefix(b.prefix, a.prefix)
	end := strings.HasSuffix(a.suffix, b.suffix) || strings.HasSuffix(b.suffix, a.suffix)
	return begin && end
}
