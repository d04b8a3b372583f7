package rule

import (
	"fmt"
	"strings"
)

// String renders the explanation for people.
func (e *Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain %s, matched by %s\n\n", printable(e.Domain), e.By)
	for i := range e.Steps {
		e.Steps[i].write(&b, "")
	}
	b.WriteString("\n")
	if e.Rejected != "" {
		fmt.Fprintf(&b, "refused: the request has no %s\n\n", printable(e.Rejected))
	}
	if e.Unlimited {
		b.WriteString("unlimited: true matched; its branch counts nothing\n\n")
	}
	if len(e.Replaced) > 0 {
		fmt.Fprintf(&b, "replaced, so not checked: %s\n\n", strings.Join(e.Replaced, ", "))
	}
	if e.Priority != "" {
		fmt.Fprintf(&b, "priority when there is not room for all: %s\n\n", e.Priority)
	}
	if len(e.Limits) == 0 {
		if len(e.Concurrency) == 0 {
			b.WriteString("no limit applies\n")
		}
		e.writeConcurrency(&b)
		return b.String()
	}
	fmt.Fprintf(&b, "%s:\n", plural(len(e.Limits), "limit applies", "limits apply, checked together"))
	for i := range e.Limits {
		e.Limits[i].write(&b)
	}
	e.writeConcurrency(&b)
	return b.String()
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (s *Step) write(b *strings.Builder, indent string) {
	if s.Absent {
		fmt.Fprintf(b, "%s%s: absent\n", indent, printable(s.Key))
	} else {
		fmt.Fprintf(b, "%s%s = %s\n", indent, printable(s.Key), printable(clip(s.Value)))
	}
	if s.Chosen == nil {
		fmt.Fprintf(b, "%s  -> nothing: %s\n", indent, s.Note)
	} else {
		fmt.Fprintf(b, "%s  -> %s at %s: %s\n", indent, s.Chosen.Rule, s.Chosen.Position, s.Note)
	}
	for _, l := range s.Lost {
		fmt.Fprintf(b, "%s     not %s at %s: %s\n", indent, l.Rule, l.Position, l.Why)
	}
	if s.LostMore > 0 {
		fmt.Fprintf(b, "%s     and %d more\n", indent, s.LostMore)
	}
	if c := s.Chosen; c != nil && c.Exempt {
		fmt.Fprintf(b, "%s     it has no limit and no children: the branch is exempt\n", indent)
	} else if c != nil && len(c.Limits) > 0 {
		fmt.Fprintf(b, "%s     with %s\n", indent, strings.Join(c.Limits, ", "))
	}
	if c := s.Chosen; c != nil && c.Priority != "" {
		fmt.Fprintf(b, "%s     priority %s\n", indent, c.Priority)
	}
	for i := range s.Below {
		s.Below[i].write(b, indent+"    ")
	}
}

func (a *Applied) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s (%s)\n", a.Name, a.Position)
	fmt.Fprintf(b, "    %s\n", a.Words)
	fmt.Fprintf(b, "    worst case: %s\n", a.WorstCase)
	if a.WorstOverRegions != "" {
		fmt.Fprintf(b, "    over all regions: %s\n", a.WorstOverRegions)
	}
	fmt.Fprintf(b, "    counter: %s [%s]\n", strings.Join(a.Counter, ", "), a.CounterID)
	switch a.Mode {
	case "shadow":
		b.WriteString("    not enforced: it counts and never denies\n")
	case "quota":
		b.WriteString("    a quota: it denies only when all quotas of the request do\n")
	}
	if a.Accuracy != "" {
		b.WriteString("    leased: on Redis, instances take what is left in batches and spend them without asking\n")
	}
	if a.Fair != "" {
		fmt.Fprintf(b, "    the queue is shared by %s: none may fill it\n", printable(a.Fair))
	}
	if a.Cost != 1 {
		fmt.Fprintf(b, "    cost: %d\n", a.Cost)
	}
	if a.CountWhen != "" {
		fmt.Fprintf(b, "    counts only when the response has status %s; what is charged before is given back otherwise\n", a.CountWhen)
	}
}
