package rule

import (
	"fmt"

	"github.com/caudal-dev/caudal"
)

// sharedAddress notes a login that is limited by address alone: an office or a
// mobile network is one address. It is right against guessing and often meant,
// so it is a note.
func (l *linter) sharedAddress(limit *Limit) {
	if limit.Mode != caudal.Enforce || !onLoginPath(limit.node) {
		return
	}
	for n := limit.node; n != nil; n = n.parent {
		switch {
		case n.key == remoteAddress && n.kind == exactValue, isIdentity(n.key) && n.key != remoteAddress:
			return
		case n.key == remoteAddress && n.kind == anyValue:
			l.add(limit, Warning{Level: LevelNote, Code: "shared-address-login",
				What: limit.Path + " counts logins by address alone",
				Why:  "people who share an address (an office, a mobile network) share one counter and can lock each other out",
				Mend: "leave room for the largest of them, exempt known networks (value: 198.51.100.0/24), or count also by body:FIELD, or by visitor where that setting is on"})
			return
		}
	}
}

// methods notes limits that tell methods apart, where one handler that takes both
// makes that a way around.
func (l *linter) methods(n *node) {
	if n.key != "method" || n.kind != exactValue {
		return
	}
	ix := &l.domain.root
	if n.parent != nil {
		ix = &n.parent.below
	}
	g := ix.byKey["method"]
	if g == nil || g.nodes[0] != n {
		return // once for all siblings
	}
	switch {
	case len(g.nodes) == 1:
		l.addNode(n, Warning{Level: LevelNote, Code: "one-method",
			What: fmt.Sprintf("only method %s is limited here", printable(n.value)),
			Why:  "if the handler takes another method too (GET and POST to one handler), that is a way around the limit",
			Mend: "leave method out, or make sure that the API refuses other methods"})
	case g.any == nil && g.exact["GET"] != nil && g.exact["POST"] != nil:
		l.addNode(n, Warning{Level: LevelNote, Code: "methods-apart",
			What: "GET and POST are counted apart",
			Why:  "if one handler takes both, a client has the two limits together",
			Mend: "put a limit without method above, unless reading and writing are meant to differ"})
	}
}

// unbounded looks for counters that a client can make without end. made is the
// key that the client makes up, found by madeUpKey, when a ceiling by address
// bounds what that gains; the counters are still many.
func (l *linter) unbounded(limit *Limit) {
	for n := limit.node; n != nil; n = n.parent {
		if n.kind == exactValue || n.sharedByAttribute || n.keyAny {
			continue
		}
		switch {
		case n.key == "path" || n.key == "host":
			level := LevelWarning
			if l.hasCeiling(limit, n.key) {
				level = LevelNote
			}
			l.add(limit, Warning{Level: level, Code: "unbounded-values",
				What: fmt.Sprintf("%s has a counter for each %s", limit.Path, n.key),
				Why:  "a client that varies it has a fresh counter each time, and they fill the store",
				Mend: "list the values, or share one counter (value: \"*\" with share_threshold: true)"})
			return
		case n.key != "api_key" && isMadeUp(n.key) && l.hasCeiling(limit, n.key):
			l.add(limit, Warning{Level: LevelNote, Code: "unbounded-values",
				What: fmt.Sprintf("%s has a counter for each %s", limit.Path, printable(n.key)),
				Why:  "clients choose the value, so there is no bound to how many counters they make; the store drops the oldest when it is full",
				Mend: "list the values that are known, or take the value from a verified claim"})
			return
		}
	}
}

// costs looks for calls that can never pass because they are charged more than
// the limit ever admits.
func (l *linter) costs(limit *Limit) {
	c := limit.Cost
	if c == nil || limit.Compiled.Requests() == 0 {
		return
	}
	first := c.Default
	if c.Source == CostResponseHeader {
		first = c.Max
	}
	if uint64(first) > limit.Compiled.Capacity() {
		l.add(limit, Warning{Code: "cost-above-limit",
			What: fmt.Sprintf("a call is charged %d at first, and %s admits %d at once", first, limit.Name, limit.Compiled.Capacity()),
			Why:  "no such call can ever pass",
			Mend: "lower the cost's default or max, or raise the limit"})
	}
}
