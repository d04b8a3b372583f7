package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal"
)

// ChangeKind says what a Change does to clients.
type ChangeKind uint8

const (
	// Added is a limit, an exemption or a domain that is new.
	Added ChangeKind = iota
	// Removed is one that is gone.
	Removed
	// Loosened lets more through.
	Loosened
	// Tightened lets less through.
	Tightened
	// Changed is neither: more in one way and less in another, or a matter of
	// answers and names.
	Changed
)

var changeNames = [...]string{"added", "removed", "loosened", "tightened", "changed"}

// String gives the word that reports use.
func (k ChangeKind) String() string {
	if int(k) < len(changeNames) {
		return changeNames[k]
	}
	return "unknown"
}

// MarshalText gives the same word.
func (k ChangeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads it.
func (k *ChangeKind) UnmarshalText(text []byte) error {
	i := slices.Index(changeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("rule: %q is no kind of change", text)
	}
	*k = ChangeKind(i)
	return nil
}

// Change is one difference in meaning between two sets of rules.
type Change struct {
	Kind   ChangeKind `json:"kind"`
	Domain string     `json:"domain"`
	// Rule is the rule's path, with the limit's name where it has one.
	Rule string `json:"rule"`
	// Old and New say in words what was and what is; empty where there is none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Details name what changed, such as "burst 20 -> 40".
	Details []string `json:"details,omitempty"`
	// Fresh says that the counters start anew, so that every client has its whole
	// limit again.
	Fresh bool `json:"fresh,omitempty"`
	// Drastic says that the limit was lowered more than tenfold, which more often
	// than not is a mistake.
	Drastic bool `json:"drastic,omitempty"`
	// Position is where the rule stands: in the new rules, or in the old when it
	// is gone.
	Position Position `json:"position"`
}

// Diff says what changed in meaning from one set of rules to another: sorted by
// domain and rule, and empty when the two do the same. Comments, layout, the
// order of rules and names of files mean nothing. Either set may be nil.
func Diff(from, to *Set) []Change {
	d := &differ{}
	for _, name := range domainNames(from, to) {
		a, inOld := domainOf(from, name)
		b, inNew := domainOf(to, name)
		switch {
		case !inOld:
			d.add(Change{Kind: Added, Domain: name, Rule: "(domain)", New: plural(len(b.limits), "limit", "limits")})
		case !inNew:
			d.add(Change{Kind: Removed, Domain: name, Rule: "(domain)", Old: plural(len(a.limits), "limit", "limits")})
		}
		d.domain(name, a, b)
	}
	slices.SortStableFunc(d.changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Old+a.New, b.Old+b.New), a.Position.compare(b.Position))
	})
	return d.changes
}

func domainNames(sets ...*Set) []string {
	var names []string
	for _, s := range sets {
		if s == nil {
			continue
		}
		for _, d := range s.domains {
			names = append(names, d.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func domainOf(s *Set, name string) (*Domain, bool) {
	if s != nil {
		if d, ok := s.Domain(name); ok {
			return d, true
		}
	}
	return &Domain{}, false
}

type differ struct{ changes []Change }

func (d *differ) add(c Change) { d.changes = append(d.changes, c) }

// domain pairs the limits of one domain by where they stand in the tree, and by
// name in a list.
func (d *differ) domain(name string, a, b *Domain) {
	old, now := limitsByPlace(a), limitsByPlace(b)
	for place, was := range old {
		is, kept := now[place]
		if !kept {
			d.add(Change{Kind: Removed, Domain: name, Rule: was.place(), Old: was.summary(), Position: was.Position})
			continue
		}
		d.limit(name, was, is)
	}
	for place, is := range now {
		if _, had := old[place]; !had {
			d.add(Change{Kind: Added, Domain: name, Rule: is.place(), New: is.summary(), Position: is.Position})
		}
	}
	d.concurrencies(name, a, b)
	d.exemptions(name, a, b)
	d.priorities(name, a, b)
	d.order(name, &a.root, &b.root)
}

// limitsByPlace gives each limit under its rule's identity. Limits of one list
// that have no name are told apart by algorithm and period.
func limitsByPlace(d *Domain) map[string]*Limit {
	m := make(map[string]*Limit, len(d.limits))
	for _, l := range d.limits {
		key := l.scope()
		if l.Label == "" && len(l.node.limits) > 1 {
			key = l.Compiled.Scope()
		}
		m[key] = l
	}
	return m
}

// place names a limit by where it stands.
func (l *Limit) place() string {
	if l.Label != "" {
		return l.Path + " (" + printable(l.Label) + ")"
	}
	return l.Path
}

// summary says in short what a limit does.
func (l *Limit) summary() string {
	s := "unlimited"
	if !l.Unlimited {
		s = l.Compiled.Limit().Words()
	}
	switch {
	case l.Mode == caudal.Shadow:
		s += ", in shadow mode"
	case l.Mode == caudal.Quota:
		s += ", as a quota"
	}
	if l.EnforcePercent < 100 {
		s += fmt.Sprintf(", enforced for %d %%", l.EnforcePercent)
	}
	return s
}

// exemptions are descriptors that only keep their values away from siblings.
func (d *differ) exemptions(name string, a, b *Domain) {
	old, now := map[string]*node{}, map[string]*node{}
	a.root.exempt(old)
	b.root.exempt(now)
	for place, n := range old {
		if _, kept := now[place]; !kept {
			d.add(Change{Kind: Removed, Domain: name, Rule: n.words(), Old: "exempt", Position: n.source.pos})
		}
	}
	for place, n := range now {
		if _, had := old[place]; !had {
			d.add(Change{Kind: Added, Domain: name, Rule: n.words(), New: "exempt", Position: n.source.pos})
		}
	}
}

// priorities are compared by descriptor: many stand where there is no limit.
func (d *differ) priorities(name string, a, b *Domain) {
	old, now := map[string]*node{}, map[string]*node{}
	a.root.prioritized(old)
	b.root.prioritized(now)
	for place, n := range old {
		if _, kept := now[place]; !kept {
			d.add(Change{Kind: Removed, Domain: name, Rule: n.words(), Old: "priority " + n.priority.String(), Position: n.source.pos})
		}
	}
	for place, n := range now {
		was, had := old[place]
		switch {
		case !had:
			d.add(Change{Kind: Added, Domain: name, Rule: n.words(), New: "priority " + n.priority.String(), Position: n.source.pos})
		case was.priority != n.priority:
			d.add(Change{Kind: Changed, Domain: name, Rule: n.words(), Old: "priority " + was.priority.String(), New: "priority " + n.priority.String(),
				Details: []string{fmt.Sprintf("priority %s -> %s", was.priority, n.priority)}, Position: n.source.pos})
		}
	}
}

func (ix *index) prioritized(found map[string]*node) {
	ix.each(func(n *node) {
		if n.priority != 0 {
			found[string(n.appendPath(nil))] = n
		}
		n.below.prioritized(found)
	})
}

func (ix *index) each(visit func(*node)) {
	for _, g := range ix.groups {
		for _, n := range g.nodes {
			visit(n)
		}
	}
	for _, n := range ix.anyKeys {
		visit(n)
	}
}

func (ix *index) exempt(found map[string]*node) {
	ix.each(func(n *node) {
		if len(n.limits) == 0 && n.concurrency == nil && n.below.empty() {
			found[string(n.appendPath(nil))] = n
		}
		n.below.exempt(found)
	})
}
