package rule

import (
	"fmt"
	"strings"

	"github.com/caudal-dev/caudal"
)

// Describe says in one plain sentence what the limit does and what it lets
// through at worst, such as
//
//	5 per minute, exact, for each remote_address where path is /login; worst case: at most 5 in any minute
func (l *Limit) Describe() string {
	var b strings.Builder
	switch {
	case l.Unlimited:
		b.WriteString("unlimited")
	default:
		b.WriteString(l.Compiled.Limit().Words())
	}
	b.WriteString(l.whom() + l.counted() + l.regionWords())
	if l.Fair != "" {
		b.WriteString("; no " + printable(l.Fair) + " may fill the queue")
	}
	if l.Shadow() {
		b.WriteString("; in shadow mode: counts and never denies")
	}
	if l.EnforcePercent < 100 {
		fmt.Fprintf(&b, "; enforced for %d %% of them", l.EnforcePercent)
	}
	if !l.Unlimited && l.Compiled.Accuracy() == caudal.Leased {
		b.WriteString("; on Redis in batches that instances lease")
	}
	if !l.Unlimited {
		b.WriteString("; worst case: " + l.Compiled.Limit().WorstCase().String())
		if w, _, ok := l.WorstOverRegions(); ok {
			b.WriteString("; over all regions " + w.String())
		}
	}
	return b.String()
}

// whom says whose calls share a counter, and under which conditions.
func (l *Limit) whom() string { return l.node.whom(l.Unlimited) }

func (n *node) whom(unlimited bool) string {
	var each, where []string
	for _, n := range n.path() {
		condition := printable(n.key) + " is " + printable(n.value)
		switch {
		case n.kind == exactValue:
			where = append(where, condition)
		case n.kind == anyValue:
			each = append(each, printable(n.key))
		case n.sharedByAttribute:
			where = append(where, printable(n.key)+" matches "+printable(n.value))
		default:
			each = append(each, printable(n.key)+" matching "+printable(n.value))
		}
	}
	s := ""
	if len(each) > 0 && !unlimited {
		s = ", for each " + strings.Join(each, " and ")
	} else if len(each) > 0 {
		s = ", for any " + strings.Join(each, " and ")
	} else if !unlimited {
		s = ", for all clients together"
	}
	if len(where) > 0 {
		s += " where " + strings.Join(where, " and ")
	}
	return s
}
