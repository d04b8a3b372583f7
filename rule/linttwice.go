package rule

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caudal-dev/caudal"
)

// twice looks for two limits that hold for the same requests and count them in the
// same way, such as one that stands under path and then address, and again under
// address and then path: every request is charged by both. That a gateway and the
// middleware behind it share a rule cannot be seen here; they notice it themselves.
func (l *linter) twice() {
	if !l.byAttributes {
		return
	}
	first := map[string]*Limit{}
	for _, limit := range l.domain.limits {
		if limit.Unlimited || len(limit.replaces) > 0 {
			continue
		}
		key := limit.holdsFor()
		other := first[key]
		switch {
		case other == nil:
			first[key] = limit
		case other.node != limit.node:
			l.add(limit, Warning{Code: "charged-twice",
				What: limit.Name + " holds for the same requests as " + other.Name + " at line " + strconv.Itoa(other.Position.Line),
				Why:  "each request is charged by both, and only the stricter one ever decides",
				Mend: "keep one of them"})
		}
	}
}

// holdsFor gives the conditions of a limit, in whatever order they are nested, and
// what else tells it from a copy.
func (l *Limit) holdsFor() string {
	var conditions []string
	for n := l.node; n != nil; n = n.parent {
		s := n.sibling()
		c := caudal.AppendPart(nil, s.key)
		c = caudal.AppendPart(append(c, byte(s.kind), byte(n.missing), flagByte(n.sharedByAttribute)), s.text)
		conditions = append(conditions, string(c))
	}
	slices.Sort(conditions)
	b := []byte{byte(l.Mode), byte(l.Compiled.Algorithm())}
	b = caudal.AppendPart(b, periodText(l.Compiled.Limit()))
	return string(caudal.AppendPart(b, strings.Join(conditions, "")))
}

func flagByte(on bool) byte {
	if on {
		return 1
	}
	return 0
}
