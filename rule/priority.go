package rule

import (
	"fmt"
	"strings"
)

// Priority says how important a request is when there is not room for all: those
// of the lowest are shed first. The zero value is none, which counts as
// PriorityNormal.
type Priority uint8

const (
	// PriorityLow is shed first: crawlers, exports, what can be done tonight.
	PriorityLow Priority = iota + 1
	// PriorityNormal is what a request has of which no rule says anything.
	PriorityNormal
	// PriorityHigh is for what people wait for.
	PriorityHigh
	// PriorityCritical is for what must work when little else does.
	PriorityCritical
)

var priorityNames = [...]string{"", "low", "normal", "high", "critical"}

// Priorities gives the words that rule files use, the most important first.
func Priorities() []string { return []string{"critical", "high", "normal", "low"} }

// String gives the word that rule files use, and "" for none.
func (p Priority) String() string {
	if int(p) < len(priorityNames) {
		return priorityNames[p]
	}
	return fmt.Sprintf("priority(%d)", uint8(p))
}

// OrNormal gives the priority, and PriorityNormal for none.
func (p Priority) OrNormal() Priority {
	if p == 0 {
		return PriorityNormal
	}
	return p
}

// ParsePriority reads one of the words that rule files use.
func ParsePriority(s string) (Priority, bool) {
	for i, name := range priorityNames {
		if i > 0 && s == name {
			return Priority(i), true
		}
	}
	return 0, false
}

// priority reads one.
func (r *reader) priority(f field) Priority {
	s, ok := r.word(f)
	if !ok {
		return 0
	}
	p, known := ParsePriority(s)
	if !known {
		hint := "use one of " + strings.Join(Priorities(), ", ")
		if near := nearest(s, Priorities()); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.fail(f.value, f.path, hint, "priority %q is not known", clip(s))
	}
	return p
}

// priorityLints looks for priorities that a client can give itself.
func (l *linter) priorityLints(n *node) {
	if n.priority <= PriorityNormal {
		return
	}
	made := ""
	for at := n; at != nil; at = at.parent {
		switch {
		case at.key == "api_key" && l.opts.VerifiedKeys:
			return
		case isMadeUp(at.key):
			made = at.key
		case isIdentity(at.key) && at.kind != anyValue, at.key == "plan":
			return // also told by something that holds
		}
	}
	if made != "" {
		l.addNode(n, Warning{Code: "priority-made-up",
			What: fmt.Sprintf("%s gives priority %s, and a client writes %s as it likes", n.words(), n.priority, printable(made)),
			Why:  "under overload a client that sends it goes before all others",
			Mend: "give it by plan, user or jwt:CLAIM, by path, or by api_key with a keys file"})
	}
}
