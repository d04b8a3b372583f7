package metrics

import (
	"strings"
	"sync"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

// MaxValues bounds how many series by value (detailed_metric, value_to_metric)
// there are, over all rules; calls with further values are counted as "other".
const MaxValues = 1000

// other stands for all values beyond the bound.
const other = "other"

// values are the series of one rule that is counted by value.
type values struct {
	room *room
	mu   sync.RWMutex
	by   map[string]*counters
}

// room is how many more series there may be.
type room struct {
	mu   sync.Mutex
	left int
}

func (r *room) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left <= 0 {
		return false
	}
	r.left--
	return true
}

func (r *room) set(left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = left
}

// taken is how much room the series take: that of all further values takes none.
func (v *values) taken() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n := 0
	for name := range v.by {
		if !strings.HasSuffix(name, ":"+other) {
			n++
		}
	}
	return n
}

// find gives the counters for the values of a call.
func (v *values) find(c *counters, d *httplimit.Detail) *counters {
	entries := d.Entries
	if entries == nil && d.Rule != nil {
		entries = entriesOf(d.Rule.KeyParts(d.Call.Key))
	}
	if d.Rule == nil || entries == nil {
		return c
	}
	name := c.rule + ":" + strings.Join(d.Rule.StatPath(entries), ".")
	v.mu.RLock()
	found := v.by[name]
	v.mu.RUnlock()
	if found != nil {
		return found
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if found = v.by[name]; found != nil {
		return found
	}
	if !v.room.take() {
		name = c.rule + ":" + other
	}
	if found = v.by[name]; found == nil {
		found = newCounters(series{c.domain, name})
		v.by[name] = found
	}
	return found
}

// each calls f with all series.
func (v *values) each(f func(*counters)) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, c := range v.by {
		f(c)
	}
}

// entriesOf makes the parts of a key a descriptor.
func entriesOf(parts []rule.KeyPart) []rule.Entry {
	entries := make([]rule.Entry, len(parts))
	for i, p := range parts {
		entries[i] = rule.Entry{Key: p.Name, Value: p.Value}
	}
	return entries
}
