package rule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
)

// lint looks for rules that work, but probably not as their author wishes.
func lint(d *Domain, opts *Options) []Warning {
	l := &linter{domain: d, opts: opts, warned: map[string]bool{}, byAttributes: true}
	for _, key := range d.keys {
		l.byAttributes = l.byAttributes && isAttribute(key)
	}
	for _, limit := range d.limits {
		if !limit.Unlimited {
			l.clients(limit)
			l.sharedAddress(limit)
			l.unbounded(limit)
			l.algorithm(limit)
			l.bucket(limit)
			l.costs(limit)
			l.fairLints(limit)
			l.countLints(limit)
			l.idle(limit)
			l.spacing(limit)
		}
	}
	l.concurrencyLints()
	l.queues()
	l.twice()
	l.replaceEachOther()
	l.tree(&d.root)
	return l.warnings
}

type linter struct {
	domain   *Domain
	opts     *Options
	warnings []Warning
	warned   map[string]bool // keys that were warned of

	byAttributes bool // every key is an attribute, so that branches add up
}

func (l *linter) add(limit *Limit, w Warning) {
	w.Position, w.Path = limit.Position, limit.FilePath
	l.warnings = append(l.warnings, w)
}

func (l *linter) addNode(n *node, w Warning) {
	w.Position, w.Path = n.source.pos, n.source.path
	l.warnings = append(l.warnings, w)
}

// clients looks at who shares a counter, and who can get around one.
func (l *linter) clients(limit *Limit) {
	if limit.Mode == caudal.Enforce && limit.Compiled.Requests() > 0 && sharedByAll(limit) {
		l.add(limit, Warning{Code: "shared-counter-lockout",
			What: "one counter for all clients of " + limit.Path,
			Why:  "one attacker who uses it up locks out everyone else",
			Mend: "nest `- key: remote_address` below and move the rate_limit there"})
	}
	if key := l.madeUpKey(limit); key != "" && !l.hasCeiling(limit, key) {
		l.add(limit, Warning{Code: "no-address-ceiling",
			What: fmt.Sprintf("%s gets its counter from %s alone", limit.Path, key),
			Why:  "a client that makes up a new " + key + " for each call is never denied",
			Mend: "add a descriptor `- key: remote_address` with a rate_limit as a ceiling for each address"})
	}
}

// sharedByAll reports whether clients that have nothing to do with each other
// use one counter of the limit. Keys that are not attributes say nothing either
// way. A leaky bucket is left out, as protecting the thing behind it from all
// clients together is what it is for, and so is a share_threshold: true that
// somebody wrote.
func sharedByAll(limit *Limit) bool {
	if limit.Compiled.Algorithm() == caudal.LeakyBucket {
		return false
	}
	for n := limit.node; n != nil; n = n.parent {
		switch n.key {
		case "path", "method", "host", "plan", "user_agent":
			if n.source.share == yes {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// madeUpKey gives the key that alone tells clients apart and that they can
// invent, and "" when there is none.
func (l *linter) madeUpKey(limit *Limit) string {
	found := ""
	for n := limit.node; n != nil; n = n.parent {
		if n.kind == exactValue || n.sharedByAttribute || n.keyAny {
			continue
		}
		switch {
		case n.key == "api_key" && l.opts.VerifiedKeys:
			return ""
		case isMadeUp(n.key):
			found = n.key
		case isIdentity(n.key):
			return "" // also told apart by something that holds
		}
	}
	return found
}

// hasCeiling reports whether another enforced limit counts each address of the
// same requests, whatever they write in the key: its conditions are among this
// one's.
func (l *linter) hasCeiling(limit *Limit, key string) bool {
	own := map[sibling]bool{}
	for n := limit.node; n != nil; n = n.parent {
		own[n.sibling()] = true
	}
	for _, other := range l.domain.limits {
		if other.Unlimited || other.Mode != caudal.Enforce || !other.CountWhen.covers(limit.CountWhen) {
			continue
		}
		byAddress, covers := false, true
		for n := other.node; n != nil; n = n.parent {
			if n.key == remoteAddress && n.kind == anyValue {
				byAddress = true
				continue
			}
			covers = covers && own[n.sibling()] && (n.key != key || n.kind == exactValue)
		}
		if byAddress && covers {
			return true
		}
	}
	return false
}

// sliding logs beyond this many entries get a warning; an entry takes
// logEntryBytes at most.
const (
	largeLog      = 1000
	logEntryBytes = 16
)

// algorithm looks for an algorithm that does not suit its numbers.
func (l *linter) algorithm(limit *Limit) {
	c := limit.Compiled.Limit()
	switch {
	case c.Algorithm == caudal.FixedWindow && c.Period() < time.Hour && c.Requests > 1 && !l.opts.CompatEnvoy:
		l.add(limit, Warning{Code: "fixed-window-edge",
			What: fmt.Sprintf("fixed_window of %d per %s", c.Requests, c.Period()),
			Why:  fmt.Sprintf("%d can pass within a moment around the edge of two windows", 2*uint64(c.Requests)),
			Mend: "use sliding_window, or sliding_log for a limit under 10"})
	case c.Algorithm == caudal.SlidingWindow && c.Requests > 0 && c.Requests < 10:
		l.add(limit, Warning{Code: "sliding-window-coarse",
			What: fmt.Sprintf("sliding_window with a limit of %d", c.Requests),
			Why:  "its estimate is coarse for so few calls",
			Mend: "use sliding_log, which is exact"})
	case c.Algorithm == caudal.SlidingLog && c.Requests > largeLog:
		l.add(limit, Warning{Code: "sliding-log-memory",
			What: fmt.Sprintf("sliding_log with a limit of %d", c.Requests),
			Why:  fmt.Sprintf("it keeps one entry per admitted call, up to %d kB for each key", uint64(c.Requests)*logEntryBytes/1000),
			Mend: "use sliding_window, which keeps two numbers"})
	case c.Algorithm == caudal.TokenBucket && c.Requests > 0 && c.Requests < 10 && c.Period() >= time.Minute && onLoginPath(limit.node):
		l.add(limit, Warning{Code: "token-bucket-login",
			What: fmt.Sprintf("token_bucket of %d on a login path", c.Requests),
			Why:  "guesses go up to " + strings.TrimPrefix(c.WorstCase().String(), "at most "),
			Mend: "use sliding_log, which never lets more than its limit through"})
	}
}

// onLoginPath reports whether a rule is about a path where people guess secrets.
func onLoginPath(n *node) bool {
	for ; n != nil; n = n.parent {
		if n.key != "path" {
			continue
		}
		path := strings.ToLower(n.value)
		for _, word := range []string{"login", "signin", "sign-in", "password", "/auth", "token", "otp"} {
			if strings.Contains(path, word) {
				return true
			}
		}
	}
	return false
}

// maxQueuesCompared keeps the search for pairs short; rule sets have a handful.
const maxQueuesCompared = 500

// queues looks for two leaky buckets that one request can meet: it then waits
// for the longer turn, and the other bucket no longer spaces its calls.
func (l *linter) queues() {
	var seen []*Limit
	for _, limit := range l.domain.limits {
		if limit.Unlimited || limit.Compiled.Algorithm() != caudal.LeakyBucket || len(seen) >= maxQueuesCompared {
			continue
		}
		i := slices.IndexFunc(seen, func(other *Limit) bool { return canMeet(limit.node, other.node) })
		if i >= 0 {
			l.add(limit, Warning{Code: "queues-meet",
				What: fmt.Sprintf("one request can wait in two queues, %s and %s", seen[i].Name, limit.Name),
				Why:  "only the queue with the longer turn spaces the departures",
				Mend: "keep the leaky_bucket on one of them"})
		}
		seen = append(seen, limit)
	}
}

// canMeet reports whether a request can walk to both nodes: not when they part at
// siblings of one key, of which only one is chosen.
func canMeet(a, b *node) bool {
	pathA, pathB := a.path(), b.path()
	for i := range min(len(pathA), len(pathB)) {
		if pathA[i] != pathB[i] {
			return pathA[i].key != pathB[i].key
		}
	}
	return true
}

// path gives the nodes from the root to n.
func (n *node) path() []*node {
	var p []*node
	for ; n != nil; n = n.parent {
		p = append(p, n)
	}
	slices.Reverse(p)
	return p
}

// manyPatterns is how many wildcards beside "x*" siblings may have before their
// cost is worth a word: each is tried in turn.
const manyPatterns = 100

// tree looks at how descriptors lie beside one another.
func (l *linter) tree(ix *index) {
	for _, g := range ix.groups {
		if len(g.patterns) > manyPatterns {
			l.addNode(g.patterns[manyPatterns], Warning{Code: "many-patterns",
				What: fmt.Sprintf("%d sibling values with * elsewhere than at the end", len(g.patterns)),
				Why:  "each is tried in turn for every request",
				Mend: "write them as prefixes (x*) or exact values"})
		}
		for _, n := range g.nodes {
			l.node(n)
		}
	}
	for _, n := range ix.anyKeys {
		l.node(n)
	}
}

func (l *linter) node(n *node) {
	l.methods(n)
	l.priorityLints(n)
	l.form(n)
	l.unfound(n)
	if n.coveredBy != nil {
		l.addNode(n, Warning{Code: "never-matches",
			What: fmt.Sprintf("value %q can never match", clip(n.value)),
			Why:  fmt.Sprintf("%q at line %d comes first and takes all that it would", clip(n.coveredBy.value), n.coveredBy.source.pos.Line),
			Mend: "put it before that one"})
	}
	if l.opts.ForAttributes && !l.warned[n.key] && !isAttribute(n.key) {
		l.warned[n.key] = true
		l.addNode(n, Warning{Code: "unknown-attribute",
			What: fmt.Sprintf("key %q is not an attribute of requests", clip(n.key)),
			Why:  "the rules below it never match, except by descriptor",
			Mend: attributeHint(n.key)})
	}
	l.tree(&n.below)
}

// otherNames are what people call attributes that have another name here, without
// underscores.
var otherNames = map[string]string{
	"ip": remoteAddress, "ipaddress": remoteAddress, "clientip": remoteAddress, "remoteip": remoteAddress, "address": remoteAddress,
	"addr": remoteAddress, "clientaddress": remoteAddress, "remoteaddr": remoteAddress, "key": "api_key", "url": "path", "uri": "path",
	"verb": "method", "useragent": "user_agent", "hostname": "host",
}

// AttributeHint says what to write instead of a key that no request has as an
// attribute, and "" for one that requests can have.
func AttributeHint(key string) string {
	if isAttribute(key) {
		return ""
	}
	return attributeHint(key)
}

func attributeHint(key string) string {
	if _, family := attributeFamilies[key]; family {
		return "write " + key + ":NAME"
	}
	if name := otherNames[plainWord(key)]; name != "" {
		return "write " + name
	}
	var names []string
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	if near := nearest(key, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "use one of " + strings.Join(names, ", ") + ", header:NAME, cookie:NAME, query:NAME, body:FIELD, jwt:CLAIM, client_cert:SAN"
}
