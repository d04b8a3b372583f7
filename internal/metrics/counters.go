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
	cells []cell
}

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
	i := rand.Uint32() & uint32(len(c.cells)-1)
	c.cells[i].n[result].Add(1)
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
// and one for the limits under each of the extra names.
func newTable(domains []*rule.Domain, old *table, extra []string) *table {
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
		t.insert(l.Compiled, t.add(series{l.Domain, l.Name}, old))
	}
	for _, d := range domains {
		for _, name := range extra {
			t.add(series{d.Name(), name}, old)
		}
	}
	return t
}

// add gives the counters of a series, those of old if it has them.
func (t *table) add(s series, old *table) *counters {
	if c := t.named[s]; c != nil {
		return c
	}
	var c *counters
	if old != nil {
		c = old.named[s]
	}
	if c == nil {
		c = &counters{series: s, cells: make([]cell, stripes())}
	}
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
