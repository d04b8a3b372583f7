package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal"
)

// Scope says where a limit holds when several regions serve the same clients, each
// with a store of its own. The zero value says nothing: the limit holds in the
// store that an instance uses, whoever else uses it.
type Scope uint8

const (
	// ScopeRegion holds the limit in each region by itself. What it lets through in
	// total is as many times the limit as there are regions.
	ScopeRegion Scope = iota + 1
	// ScopeGlobal holds the limit over all regions: each has a fixed share of it, so
	// that none needs to ask another.
	ScopeGlobal
)

var scopeNames = [...]string{"", "region", "global"}

func scopeWords() []string { return scopeNames[1:] }

// String gives the word that rule files use, and "" for none.
func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return ""
}

// Region is one region's part of a limit with ScopeGlobal.
type Region struct {
	// Name is what Options.Region calls the region.
	Name string
	// Percent is its share of the limit, from 0 to 100.
	Percent uint32
	// Limit is what holds in the region: every number rounded down, so that all
	// regions together never let more pass than the limit. A share of 0 denies
	// everything.
	Limit caudal.Limit
}

// share is one line of share as written.
type share struct {
	region  string
	percent uint32
}

// shareOf gives one region's part of a limit. Both what passes in the long run and
// what passes at once are rounded down; a part in which one of them is nothing is
// nothing, as a limit cannot say "some per minute, and none at once".
//
// A leaky bucket lets one call leave and Queue wait. The share is one of all these
// places, so that they do not become more by being in several regions.
func shareOf(l caudal.Limit, percent uint32) caudal.Limit {
	if percent >= 100 {
		return l
	}
	part := func(n uint64) uint32 { return uint32(min(n*uint64(percent)/100, 1<<32-1)) }
	whole := l
	l.Requests = part(uint64(whole.Requests))
	switch whole.Algorithm {
	case caudal.TokenBucket:
		if whole.Burst > 0 {
			if l.Burst = part(uint64(whole.Burst)); l.Burst == 0 {
				l.Requests = 0
			}
		}
	case caudal.LeakyBucket:
		l.Queue = 0
		if places := part(whole.Capacity()); places > 0 {
			l.Queue = places - 1
		} else {
			l.Requests = 0
		}
	}
	return l
}

// inForce gives what holds in the region that the rules were loaded for.
func (l *Limit) inForce(whole caudal.Limit) caudal.Limit {
	if l.Scope != ScopeGlobal || l.Region == "" {
		return whole
	}
	for _, s := range l.source().shares {
		if s.region == l.Region {
			return shareOf(whole, s.percent)
		}
	}
	whole.Requests = 0 // the compiler has refused it
	return whole
}

// Regions gives each region's part of a limit with ScopeGlobal, sorted by name, and
// nothing of other limits.
func (l *Limit) Regions() []Region {
	if l.Scope != ScopeGlobal {
		return nil
	}
	src := l.source()
	list := make([]Region, len(src.shares))
	for i, s := range src.shares {
		list[i] = Region{s.region, s.percent, shareOf(src.limit, s.percent)}
	}
	return list
}

// WorstOverRegions gives the most that the limit lets through in all regions
// together, and their names. Of a limit without ScopeGlobal each region lets the
// whole pass; which regions there are is known from the shares of other limits of
// the set. It is false when no region is known, or the limit is unlimited: then
// Compiled.Limit().WorstCase() is the bound of each store.
func (l *Limit) WorstOverRegions() (caudal.WorstCase, []string, bool) {
	if l.Unlimited || len(l.regions) == 0 {
		return caudal.WorstCase{}, nil, false
	}
	each := l.Regions()
	if l.Scope != ScopeGlobal {
		for _, name := range l.regions {
			each = append(each, Region{name, 100, l.source().limit})
		}
	}
	var names, parts []string
	total := l.source().limit.WorstCase()
	total.Calls, total.Cost = 0, 0
	for _, r := range each {
		w := r.Limit.WorstCase()
		total.Calls, total.Cost = total.Calls+w.Calls, total.Cost+w.Cost
		names, parts = append(names, r.Name), append(parts, fmt.Sprintf("%d in %s", w.Calls, printable(r.Name)))
	}
	total.Reason = strings.Join(parts, ", ")
	if total.Calls == 0 {
		total.Reason = "the limit is 0 in every region, so everything is denied"
	}
	return total, names, true
}

// regionWords says where the limit holds, with a semicolon before it.
func (l *Limit) regionWords() string {
	switch {
	case l.Scope == ScopeRegion:
		return "; in each region by itself"
	case l.Scope != ScopeGlobal:
		return ""
	}
	var parts []string
	for _, s := range l.source().shares {
		if s.region == l.Region {
			return fmt.Sprintf("; the %d %% of region %s of %s", s.percent, printable(s.region), l.source().limit.Words())
		}
		parts = append(parts, fmt.Sprintf("%d %% in %s", s.percent, printable(s.region)))
	}
	return "; over all regions: " + strings.Join(parts, ", ")
}

// allRegions gives the names of every region that the files mention, sorted.
func allRegions(files []*ruleFile) []string {
	var names []string
	var walk func(list []*descriptor)
	walk = func(list []*descriptor) {
		for _, d := range list {
			for _, l := range d.limits {
				for _, s := range l.shares {
					names = append(names, s.region)
				}
			}
			walk(d.children)
		}
	}
	for _, f := range files {
		walk(f.descriptors)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// region checks that a limit over all regions can be held in this one.
func (c *compiler) region(l *Limit, src *rateLimit) {
	if src.scope != ScopeGlobal || c.opts.Region == "" && c.opts.AllRegions {
		return
	}
	var names []string
	for _, s := range src.shares {
		if s.region == c.opts.Region {
			return
		}
		names = append(names, printable(s.region))
	}
	what, hint := fmt.Sprintf("region %q has no share of this limit", clip(c.opts.Region)),
		fmt.Sprintf("add it to share (0 denies everything there), or name one of %s with --region", strings.Join(names, ", "))
	if c.opts.Region == "" {
		what, hint = "the limit is shared among regions, and which one this is was not said",
			"name it with --region: "+strings.Join(names, ", ")
	}
	c.errs.add(&Error{Position: src.sharePos, Path: src.path + ".share", What: what, Hint: hint})
}
