package rule

import "fmt"

// form warns of a value in a form that no request has, such as a path with a slash
// at its end.
func (l *linter) form(n *node) {
	if l.opts.MatchForm == nil || !l.opts.ForAttributes || n.kind != exactValue && n.kind != wildcard {
		return
	}
	for above := n.parent; above != nil; above = above.parent {
		if !isAttribute(above.key) {
			return // matched by descriptor, if at all
		}
	}
	if want := l.opts.MatchForm(n.key, n.value); want != n.value {
		l.addNode(n, Warning{Code: "never-matches",
			What: fmt.Sprintf("%s %q can never match", printable(n.key), clip(n.value)),
			Why:  "requests have it in one form only, whatever their spelling, and this is another; a descriptor may have it",
			Mend: "write " + clip(printable(want))})
	}
}

// unfound notes an attribute that requests have only with a setting that is not
// there.
func (l *linter) unfound(n *node) {
	if l.opts.Unfound == nil || !l.opts.ForAttributes || l.warned[n.key] {
		return
	}
	if mend := l.opts.Unfound(n.key); mend != "" {
		l.warned[n.key] = true
		l.addNode(n, Warning{Level: LevelNote, Code: "unfound-attribute",
			What: fmt.Sprintf("no request to the gateway has %s by the settings", printable(n.key)),
			Why:  "the rules below it never match there, but for what missing says; who asks for decisions may send it",
			Mend: mend})
	}
}
