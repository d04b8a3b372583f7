package metrics

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

// outcomes are the values of the label outcome, by httplimit.Result.
var outcomes = [...]string{
	httplimit.Allowed:      httplimit.Allowed.String(),
	httplimit.Denied:       httplimit.Denied.String(),
	httplimit.ShadowDenied: httplimit.ShadowDenied.String(),
	httplimit.ErrorAllowed: httplimit.ErrorAllowed.String(),
	httplimit.ErrorDenied:  httplimit.ErrorDenied.String(),
}

// series names the counters of one rule.
type series struct{ domain, rule string }

// counters are the counts of one rule, one cell per stripe. They outlive reloads
// for as long as the rule does.
type counters struct {
	series
	limit   *rule.Limit // nil for limits that requests bring
	cells   []cell
	watched *watched // nil beyond maxWatched
	values  *values  // of rules that are counted by value
}

func newCounters(s series) *counters { return &counters{series: s, cells: make([]cell, stripes())} }

// cell fills a cache line, so that two stripes never share one.
type cell struct {
	n [len(outcomes)]atomic.Uint64
	_ [24]byte
}

// maxStripes bounds the memory of a rule: 16 cache lines are 1 KiB.
const maxStripes = 16

// stripes is how many cells a rule has: a power of two, at least one per core up
// to the bound.
func stripes() int {
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < maxStripes {
		n *= 2
	}
	return n
}

func (c *counters) add(result httplimit.Result) {
	// Go tells nobody on which core it runs. A random cell spreads as well, and
	// costs 2 ns.
	c.addTo(rand.Uint32(), result)
}

// addTo adds to a cell that a random number chooses, by its last bits.
func (c *counters) addTo(random uint32, result httplimit.Result) {
	c.cells[random&uint32(len(c.cells)-1)].n[result].Add(1)
}

// all is the sum over all values that the rule is counted by.
func (c *counters) all(result int) uint64 {
	total := c.sum(result)
	if c.values != nil {
		c.values.each(func(v *counters) { total += v.sum(result) })
	}
	return total
}

func (c *counters) sum(result int) (total uint64) {
	for i := range c.cells {
		total += c.cells[i].n[result].Load()
	}
	return total
}

// table is the counters of the rules in force. It does not change once made.
type table struct {
	hash   string
	loaded time.Time

	all   []*counters // in the order of the rules
	named map[series]*counters
	slots []slot // open addressing by the limit's own hash; at most half full
}

type slot struct {
	limit *caudal.Compiled
	*counters
}

// newTable makes the table of some domains' rules, with the counters that old has,
// and one for the limits under each of the extra names. Series by value share the
// room.
func newTable(domains []*rule.Domain, old *table, extra []string, space *room) *table {
	var limits []*rule.Limit
	for _, d := range domains {
		limits = append(limits, d.Limits()...)
	}
	t := &table{named: make(map[series]*counters, len(limits))}
	size := 8
	for size < 2*len(limits) {
		size *= 2
	}
	t.slots = make([]slot, size)
	for _, l := range limits {
		if l.Unlimited {
			continue // counts nothing
		}
		t.insert(l.Compiled, t.add(series{l.Domain, l.Name}, l, old))
	}
	for _, d := range domains {
		for _, name := range extra {
			t.add(series{d.Name(), name}, nil, old)
		}
	}
	t.prepare(space)
	return t
}

// prepare gives the rules what they need beside counts.
func (t *table) prepare(space *room) {
	used := 0
	for i, c := range t.all {
		if c.watched == nil && i < maxWatched {
			c.watched = newWatched(len(t.all))
		}
		switch {
		case c.limit == nil || !c.limit.ByValue():
			c.values = nil
		case c.values == nil:
			c.values = &values{room: space, by: map[string]*counters{}}
		default:
			used += c.values.taken()
		}
	}
	space.set(MaxValues - used)
}

// add gives the counters of a series, with what old has counted.
func (t *table) add(s series, limit *rule.Limit, old *table) *counters {
	if c := t.named[s]; c != nil {
		return c
	}
	c := newCounters(s)
	if old != nil && old.named[s] != nil {
		*c = *old.named[s] // the same cells; calls under way count into them
	}
	c.limit = limit
	t.named[s] = c
	t.all = append(t.all, c)
	return c
}

func (t *table) insert(limit *caudal.Compiled, c *counters) {
	i := t.start(limit)
	for t.slots[i].limit != nil {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = slot{limit, c}
}

func (t *table) start(limit *caudal.Compiled) int {
	return int(limit.ScopeHash().Lo) & (len(t.slots) - 1)
}

// find gives the counters of a limit; nil when its rule is gone. Decisions that
// began before a reload come with limits of the rules before, and are found by
// name.
func (t *table) find(domain string, limit *caudal.Compiled) *counters {
	for i := t.start(limit); ; i = (i + 1) & (len(t.slots) - 1) {
		switch s := &t.slots[i]; s.limit {
		case limit:
			return s.counters
		case nil:
			return t.named[series{domain, limit.Name()}]
		}
	}
}
