package rule

import (
	"fmt"
	"strings"
)

// String renders the change for people, in one or more lines.
func (c Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-9s %s: %s", c.Kind, printable(c.Domain), c.Rule)
	if c.Position.File != "" {
		fmt.Fprintf(&b, " (%s)", c.Position)
	}
	b.WriteString("\n")
	if c.Old != "" {
		fmt.Fprintf(&b, "  - %s\n", c.Old)
	}
	if c.New != "" {
		fmt.Fprintf(&b, "  + %s\n", c.New)
	}
	if len(c.Details) > 0 {
		fmt.Fprintf(&b, "  %s\n", strings.Join(c.Details, "; "))
	}
	if c.Fresh {
		b.WriteString("  its counters start fresh\n")
	}
	if c.Drastic {
		b.WriteString("  warning: lowered more than tenfold\n")
	}
	return b.String()
}

// DiffText renders all changes for people.
func DiffText(changes []Change) string {
	if len(changes) == 0 {
		return "no change in meaning\n"
	}
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.String())
	}
	return b.String()
}
