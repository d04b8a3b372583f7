package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// maxName bounds the names that go into headers and metric labels.
const maxName = 200

// words gives the rule's path for people: "path=/login.remote_address".
func (n *node) words() string {
	s := printable(n.key)
	if n.kind != anyValue {
		s += "=" + printable(n.value)
	}
	if n.parent != nil {
		s = n.parent.words() + "." + s
	}
	return s
}

// printable escapes what must not reach a header or a terminal as it is.
func printable(s string) string {
	q := strconv.QuoteToASCII(s)
	q = q[1 : len(q)-1]
	return strings.ReplaceAll(strings.ReplaceAll(q, `\"`, `"`), `\\`, `\`)
}

// nameLimits gives each limit of a domain a name of its own. It depends only on
// what the limits are, not on their order, so that moving rules in a file moves
// no metric.
func nameLimits(limits []*Limit) {
	for _, form := range []func(*Limit) string{shortName, periodName, placedName, hashedName} {
		count := map[string]int{}
		for _, l := range limits {
			if l.Name == "" {
				count[form(l)]++
			} else {
				count[l.Name]++
			}
		}
		// Every limit whose name another has takes the next form: if only the
		// later one did, the order would matter.
		for _, l := range limits {
			if l.Name != "" {
				continue
			}
			if name := form(l); count[name] == 1 && len(name) <= maxName {
				l.Name = name
			}
		}
	}
	for _, l := range limits {
		if l.Name == "" { // two equal hashes: not in this universe
			l.Name = hashedName(l)
		}
	}
}

// shortName is the name as written, else the path.
func shortName(l *Limit) string {
	if l.Label != "" {
		return printable(l.Label)
	}
	return l.Path
}

// periodName tells limits of one descriptor apart.
func periodName(l *Limit) string {
	if l.Unlimited {
		return shortName(l) + ":unlimited"
	}
	limit := l.source().limit
	s := shortName(l) + ":"
	if limit.Multiplier > 1 {
		s += strconv.Itoa(int(limit.Multiplier))
	}
	return s + limit.Unit.String()
}

// placedName tells limits apart that share a name.
func placedName(l *Limit) string {
	s := periodName(l)
	if l.Label != "" {
		s += "@" + l.Path
	}
	if !l.Unlimited {
		limit := l.source().limit
		s += ":" + limit.Algorithm.String()
		if limit.Timezone != "" {
			s += ":" + limit.Timezone
		}
	}
	return s
}

// hashedName tells all others apart.
func hashedName(l *Limit) string {
	sum := sha256.Sum256([]byte(placedName(l) + l.scope()))
	s := placedName(l)
	return s[:min(len(s), maxName-17)] + "~" + hex.EncodeToString(sum[:8])
}
