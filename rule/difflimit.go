package rule

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/caudal-dev/caudal"
)

// drasticFactor is how far a limit may be lowered before it looks like a slip of
// the hand.
const drasticFactor = 10

// limit compares one limit with what it was.
func (d *differ) limit(name string, was, is *Limit) {
	c := &comparison{was: was, is: is}
	c.Change = Change{Domain: name, Rule: is.place(), Position: is.Position}
	c.numbers()
	c.regions()
	c.modes()
	c.counters()
	c.countsWhen()
	c.answers()
	if len(c.Details) == 0 {
		return
	}
	c.Old, c.New = was.summary(), is.summary()
	switch {
	case c.looser && !c.tighter:
		c.Kind = Loosened
	case c.tighter && !c.looser:
		c.Kind = Tightened
	default:
		c.Kind = Changed
	}
	d.add(c.Change)
}

type comparison struct {
	Change
	was, is         *Limit
	looser, tighter bool
}

// detail notes a difference that is not a matter of more or less.
func (c *comparison) detail(format string, args ...any) {
	c.Details = append(c.Details, fmt.Sprintf(format, args...))
}

// towards notes in which direction something went: below 0 less passes.
func (c *comparison) towards(direction int) {
	c.looser = c.looser || direction > 0
	c.tighter = c.tighter || direction < 0
}

func (c *comparison) numbers() {
	switch {
	case c.was.Unlimited && c.is.Unlimited:
		return
	case c.is.Unlimited:
		c.detail("no limit any more")
		c.towards(1)
		return
	case c.was.Unlimited:
		c.detail("limited now")
		c.towards(-1)
		c.Fresh = true
		return
	}
	a, b := c.was.Compiled.Limit(), c.is.Compiled.Limit()
	if a.Algorithm != b.Algorithm {
		c.detail("algorithm %s -> %s", a.Algorithm, b.Algorithm)
	}
	if !samePeriod(a, b) && a.Algorithm == b.Algorithm {
		c.detail("period %s -> %s", periodText(a), periodText(b))
	}
	if a.Requests != b.Requests {
		c.detail("requests_per_unit %d -> %d", a.Requests, b.Requests)
	}
	if a.Algorithm == caudal.TokenBucket && b.Algorithm == caudal.TokenBucket && a.Capacity() != b.Capacity() && (a.Burst > 0 || b.Burst > 0) {
		c.detail("burst %d -> %d", a.Capacity(), b.Capacity())
	}
	if a.Queue != b.Queue && a.Algorithm == b.Algorithm {
		c.detail("queue %d -> %d", a.Queue, b.Queue)
	}
	if a.MaxWait != b.MaxWait {
		c.detail("max_wait %s -> %s", a.MaxWait, b.MaxWait)
	}
	if a == b {
		return
	}
	c.Fresh = !samePeriod(a, b)
	rate := compareRates(a, b)
	atOnce := compareUints(a.Capacity(), b.Capacity())
	c.towards(rate)
	c.towards(atOnce)
	// Across, so that whole numbers stay whole.
	c.Drastic = rate < 0 && drastic(float64(a.Requests)*b.Period().Seconds(), float64(b.Requests)*a.Period().Seconds()) ||
		atOnce < 0 && rate <= 0 && drastic(float64(a.Capacity()), float64(b.Capacity()))
}

func drastic(was, is float64) bool { return was > drasticFactor*is }

func periodText(l caudal.Limit) string {
	s := l.Unit.String()
	if l.Multiplier > 1 {
		s = fmt.Sprintf("%d %ss", l.Multiplier, s)
	}
	if l.Timezone != "" {
		s += " of " + l.Timezone
	}
	return s
}

// perSecond gives the calls that pass in a second in the long run.
func perSecond(l caudal.Limit) float64 { return float64(l.Requests) / l.Period().Seconds() }

// compareRates says whether b lets more pass in the long run than a.
func compareRates(a, b caudal.Limit) int {
	if a.Period() == b.Period() {
		return compareUints(uint64(a.Requests), uint64(b.Requests))
	}
	switch x, y := perSecond(a), perSecond(b); {
	case y > x:
		return 1
	case y < x:
		return -1
	}
	return 0
}

func compareUints(a, b uint64) int {
	switch {
	case b > a:
		return 1
	case b < a:
		return -1
	}
	return 0
}

// modes compares who is held to the limit.
func (c *comparison) modes() {
	if a, b := c.was.Mode, c.is.Mode; a != b {
		c.detail("%s -> %s", modeWords(a), modeWords(b))
		c.towards(strictness(a) - strictness(b))
	}
	if a, b := c.was.EnforcePercent, c.is.EnforcePercent; a != b {
		c.detail("enforce_percent %d -> %d", a, b)
		c.towards(a - b)
	}
	if a, b := c.was.Fair, c.is.Fair; a != b {
		c.detail("fair %q -> %q", a, b)
	}
	if a, b := c.was.replaces, c.is.replaces; !slices.Equal(sorted(a), sorted(b)) {
		c.detail("replaces %q -> %q", a, b)
	}
	if a, b := c.was.Cost, c.is.Cost; !reflect.DeepEqual(a, b) {
		c.detail("cost %s -> %s", costWords(a), costWords(b))
	}
}

// strictness orders modes by how much they deny.
func strictness(m caudal.Mode) int {
	switch m {
	case caudal.Shadow:
		return 0
	case caudal.Quota:
		return 1
	}
	return 2
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

func costWords(c *Cost) string {
	if c == nil {
		return "1"
	}
	return fmt.Sprintf("%s %s (default %d, max %d)", c.Source, c.Name, c.Default, c.Max)
}

// counters compares who shares a counter, at each level of the rule.
func (c *comparison) counters() {
	a, b := c.was.node.path(), c.is.node.path()
	for i := range min(len(a), len(b)) {
		if a[i].sharedByAttribute != b[i].sharedByAttribute || a[i].sharedByDescriptor != b[i].sharedByDescriptor {
			c.detail("share_threshold of %s changed", b[i].words())
			c.Fresh = true
		}
		if a[i].missing != b[i].missing && b[i].kind == anyValue {
			c.detail("missing of %s: %s -> %s", b[i].words(), a[i].missing, b[i].missing)
		}
	}
}

// answers compares what clients and operators are told, and what happens without
// the store.
func (c *comparison) answers() {
	if !reflect.DeepEqual(c.was.OnDeny, c.is.OnDeny) {
		c.detail("on_deny changed")
	}
	if !reflect.DeepEqual(c.was.Metadata, c.is.Metadata) {
		c.detail("metadata changed")
	}
	if c.was.DetailedMetric != c.is.DetailedMetric {
		c.detail("detailed_metric %t -> %t", c.was.DetailedMetric, c.is.DetailedMetric)
	}
	if c.was.Label != c.is.Label {
		c.detail("name %q -> %q", c.was.Label, c.is.Label)
	}
	if c.was.Unlimited || c.is.Unlimited {
		return
	}
	if a, b := c.was.Compiled.OnStoreError(), c.is.Compiled.OnStoreError(); a != b {
		c.detail("on_store_error %s -> %s", a, b)
	}
	if a, b := c.was.Compiled.LocalFactor(), c.is.Compiled.LocalFactor(); a != b {
		c.detail("local_factor %v -> %v", a, b)
	}
	if a, b := c.was.Compiled.Accuracy(), c.is.Compiled.Accuracy(); a != b {
		c.detail("accuracy %s -> %s", a, b)
	}
}
