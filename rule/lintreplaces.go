package rule

import (
	"fmt"

	"github.com/caudal-dev/caudal"
)

// maxReplacing bounds how many limits that replace others are compared.
const maxReplacing = 1000

// replaceEachOther looks for limits that replace one another, in a ring of two or
// more: which are gone is decided by names alone, so of a request that meets all of
// them none is left.
func (l *linter) replaceEachOther() {
	names := map[string][]string{} // what limits of a name replace
	var replacing []*Limit
	for _, limit := range l.domain.limits {
		if len(limit.replaces) == 0 || limit.Label == "" || limit.Unlimited || limit.Mode != caudal.Enforce || len(replacing) >= maxReplacing {
			continue // nobody replaces what is unlimited
		}
		names[limit.Label] = append(names[limit.Label], limit.replaces...)
		replacing = append(replacing, limit)
	}
	told := map[string]bool{}
	for _, limit := range replacing {
		ring := ringOf(limit.Label, names)
		if ring == nil || told[limit.Label] {
			continue
		}
		for _, name := range ring {
			told[name] = true
		}
		l.add(limit, Warning{Code: "replace-each-other",
			What: fmt.Sprintf("%s and %s replace each other", ring[0], ring[len(ring)-1]),
			Why:  "of a request that meets them all none is left, so that it has no limit",
			Mend: "let one of them replace nothing"})
	}
}

// ringOf gives the names by which one comes to replace itself, beginning with it; nil
// when it does not.
func ringOf(name string, replaced map[string][]string) []string {
	from := map[string]string{}
	for next := []string{name}; len(next) > 0; {
		at := next[0]
		next = next[1:]
		for _, to := range replaced[at] {
			if to == name {
				ring := []string{}
				for ; at != name; at = from[at] {
					ring = append(ring, at)
				}
				return append([]string{name}, ring...)
			}
			if _, seen := from[to]; !seen {
				from[to] = at
				next = append(next, to)
			}
		}
	}
	return nil
}
