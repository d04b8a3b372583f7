package rule

import (
	"cmp"
	"maps"
	"slices"
)

// regions compares where the limit holds and what each region may use of it. It
// speaks of the shares as written, so that a difference shows in every region.
func (c *comparison) regions() {
	if c.was.Unlimited || c.is.Unlimited {
		return
	}
	if a, b := c.was.Scope, c.is.Scope; a != b {
		c.detail("scope %s -> %s", cmp.Or(a.String(), "none"), cmp.Or(b.String(), "none"))
		switch {
		case b == ScopeGlobal:
			c.towards(-1)
		case a == ScopeGlobal:
			c.towards(1)
		}
		return
	}
	was, is := percents(c.was), percents(c.is)
	names := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if a, b := was[name], is[name]; a != b {
			c.detail("share of %s %d %% -> %d %%", printable(name), a, b)
			c.towards(compareUints(uint64(a), uint64(b)))
		}
	}
}

func percents(l *Limit) map[string]uint32 {
	m := map[string]uint32{}
	for _, s := range l.source().shares {
		m[s.region] = s.percent
	}
	return m
}
