package metrics

import (
	"hash/maphash"
	"math/rand/v2"

	"github.com/caudal-dev/caudal/httplimit"
)

// keySeed is secret, so that nobody can choose keys that are taken for one.
var keySeed = maphash.MakeSeed()

// activeEvery is how many calls one is looked at of to find the busiest keys, a
// power of two. Denials are all looked at.
const activeEvery = 64

// Detailed counts what became of a limit in a call, and notes whose call it was;
// see httplimit.DetailObserver.
func (m *Metrics) Detailed(d *httplimit.Detail) {
	limit := d.Call.Limit
	if d.Rule != nil && d.Rule.Compiled != nil {
		limit = d.Rule.Compiled // a client's own numbers count for the rule
	}
	c := m.table.Load().find(d.Domain, limit)
	if c == nil || int(d.Result) >= len(outcomes) {
		return
	}
	random := rand.Uint32()
	counted := c
	if c.values != nil {
		counted = c.values.find(c, d)
	}
	counted.addTo(random, d.Result)
	if w := c.watched; w != nil && d.Decision != nil {
		m.note(w, d, random/maxStripes)
	}
}

// note looks at the key of a call.
func (m *Metrics) note(w *watched, d *httplimit.Detail, random uint32) {
	key := d.Call.Key
	denied := d.Result == httplimit.Denied || d.Result == httplimit.ShadowDenied
	active := random%activeEvery == 0
	near := d.Result == httplimit.Allowed && isNear(d.Decision.Remaining, d.Decision.Limit)
	if !denied && !active && !near {
		return
	}
	hash := maphash.Bytes(keySeed, key)
	if d.Entries != nil && !w.byDescriptor.Load() {
		w.byDescriptor.Store(true)
	}
	if active {
		w.active.Add(hash, key, activeEvery)
	}
	if near {
		w.near.add(hash)
	}
	if denied {
		w.denied.Add(hash, key, 1)
		if d.Result == httplimit.Denied {
			m.suspects.look(w, d, hash)
		}
	}
}

// isNear reports whether less than a fifth of a limit is left.
func isNear(remaining, limit uint64) bool { return remaining < (limit+4)/5 }
