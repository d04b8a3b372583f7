package rule

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// maxFairQueue is the longest queue that can be fair: who waits in it is remembered
// turn by turn.
const maxFairQueue = 1024

// fair reads whose share of the queue a call waits in.
func (r *reader) fair(l *rateLimit, n *yaml.Node, path string, fs fields) {
	f, ok := fs.get("fair")
	if !ok {
		return
	}
	s, ok := r.word(f)
	if !ok || l.limit.Algorithm != caudal.LeakyBucket {
		return
	}
	l.fair = normalKey(s)
	if isPattern(s) {
		r.fail(f.value, f.path, "name one attribute, such as api_key", "fair %q holds a *", clip(s))
	}
	if l.limit.Validate() == nil && l.limit.Capacity() > maxFairQueue+1 {
		r.fail(n, path, fmt.Sprintf("lower queue to %d, or bound it by max_wait", maxFairQueue),
			"a fair queue holds at most %d calls, not %d", maxFairQueue, l.limit.Capacity()-1)
	}
}

// share names for whom the calls of a request wait, from the first on, where their
// limits are fair. A request without the attribute waits with all others without.
func (w *walker) share(first int) {
	m := w.m
	for i := first; i < len(m.Calls); i++ {
		key := m.Limits[i].Fair
		if key == "" {
			continue
		}
		at := m.extendTag(span{}, keyMissing)
		if key == remoteAddress {
			if a := w.client(); a.IsValid() {
				at = m.extendAddr(span{}, keyValue, w.domain.group(a))
			}
		} else if v, ok := w.req.Attribute(key); ok && !(v == "" && isIdentity(key)) {
			at = m.extendText(span{}, keyValue, v)
		}
		m.Calls[i].Fair = m.keys[at.start:at.end:at.end]
	}
}

// shareEntry is share for a descriptor: the attribute may be another of its entries.
// Calls of one request on one counter have one place in the queue together, and so wait
// for one client: that of the first descriptor.
func (m *Match) shareEntry(first int, entries []Entry) {
	for i := first; i < len(m.Calls); i++ {
		key := m.Limits[i].Fair
		if key == "" {
			continue
		}
		if j := m.sharing(i); j < i {
			m.Calls[i].Fair = m.Calls[j].Fair
			continue
		}
		at := m.extendTag(span{}, keyMissing)
		for k := range entries {
			if normalKey(entries[k].Key) == key {
				at = m.extendText(span{}, keyValue, entries[k].Value)
			}
		}
		m.Calls[i].Fair = m.keys[at.start:at.end:at.end]
	}
}

// sharing gives the first call on the counter of call i.
func (m *Match) sharing(i int) int {
	c := &m.Calls[i]
	return slices.IndexFunc(m.Calls, func(o caudal.Call) bool { return o.Limit == c.Limit && bytes.Equal(o.Key, c.Key) })
}

// fairLints looks for shares that do not tell clients apart, or that a client can
// have many of.
func (l *linter) fairLints(limit *Limit) {
	if limit.Fair == "" {
		return
	}
	known := isAttribute(limit.Fair)
	for n := limit.node; n != nil; n = n.parent {
		if n.key == limit.Fair && !n.sharedByAttribute {
			l.add(limit, Warning{Code: "fair-alone",
				What: fmt.Sprintf("%s is fair by %s, and each %s has a queue of its own", limit.Path, printable(limit.Fair), printable(limit.Fair)),
				Why:  "whoever is alone in a queue gets half of it",
				Mend: "leave fair out, or let the clients share the queue"})
			return
		}
		known = known || !isAttribute(n.key)
	}
	switch {
	case !known:
		l.add(limit, Warning{Code: "fair-unknown",
			What: fmt.Sprintf("%s is fair by %s, which no request has", limit.Path, printable(limit.Fair)),
			Why:  "all clients share one half of the queue",
			Mend: "name an attribute such as api_key, user, plan or remote_address"})
	case isMadeUp(limit.Fair) && !(limit.Fair == "api_key" && l.opts.VerifiedKeys):
		l.add(limit, Warning{Level: LevelNote, Code: "fair-made-up",
			What: fmt.Sprintf("%s is fair by %s, which clients write as they like", limit.Path, printable(limit.Fair)),
			Why:  "a client that makes up a new one for each call has many shares",
			Mend: "use remote_address, user or jwt:CLAIM, or api_key with a keys file"})
	}
}
