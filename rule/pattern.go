package rule

import "strings"

// pattern is a value with stars, split at them. Each star stands for any text,
// also none; there is no escape. The first piece must begin the value, the last
// must end it, and those between are found from left to right without overlap,
// so "ab*ba" matches "abba" and not "aba".
type pattern struct {
	prefix, suffix string
	middle         []string
}

func newPattern(s string) pattern {
	pieces := strings.Split(s, "*")
	last := len(pieces) - 1
	p := pattern{prefix: pieces[0], suffix: pieces[last]}
	for _, piece := range pieces[1:last] {
		if piece != "" {
			p.middle = append(p.middle, piece)
		}
	}
	return p
}

// match takes time linear in the value: taking the leftmost place for each piece
// can never rule out a match, so there is nothing to try again.
func (p *pattern) match(v string) bool {
	if len(v) < len(p.prefix)+len(p.suffix) || !strings.HasPrefix(v, p.prefix) || !strings.HasSuffix(v, p.suffix) {
		return false
	}
	v = v[len(p.prefix) : len(v)-len(p.suffix)]
	for _, piece := range p.middle {
		i := strings.Index(v, piece)
		if i < 0 {
			return false
		}
		v = v[i+len(piece):]
	}
	return true
}

// onlyPrefix reports whether the pattern is of the form "x*".
func (p *pattern) onlyPrefix() bool { return p.suffix == "" && len(p.middle) == 0 }

func isPattern(s string) bool { return strings.Contains(s, "*") }

// collapseStars writes a run of stars as one, which matches the same.
func collapseStars(s string) string {
	for strings.Contains(s, "**") {
		s = strings.ReplaceAll(s, "**", "*")
	}
	return s
}
