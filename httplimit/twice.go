package httplimit

import (
	"slices"
	"strings"
)

// warnOfTwice looks for a limit that another limiter on the way has charged too,
// such as a rule that stands both in a gateway and in the middleware behind it: the
// answer names it already, with the same numbers. It warns once.
func (c *core) warnOfTwice(domain string, present []string, own string) {
	if c.twice.Load() {
		return
	}
	var others []string
	for _, line := range present {
		others = append(others, items(line)...)
	}
	for _, item := range items(own) {
		if slices.Contains(others, item) && c.twice.CompareAndSwap(false, true) {
			c.opts.Logger.Warn("a limit seems to be charged twice for one request: another limiter on the way names it too",
				"domain", domain, "limit", item, "mend", "keep the rule in one of the two, the gateway or the middleware, or give them other names")
			return
		}
	}
}

// items gives the items of a list of structured fields. Names hold no comma that is
// not in quotes.
func items(list string) []string {
	var all []string
	quoted, start := false, 0
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case '\\':
			i++ // within quotes: what follows stands for itself
		case '"':
			quoted = !quoted
		case ',':
			if !quoted {
				all = append(all, strings.TrimSpace(list[start:i]))
				start = i + 1
			}
		}
	}
	return append(all, strings.TrimSpace(list[start:]))
}
