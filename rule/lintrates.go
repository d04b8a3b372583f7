package rule

import (
	"fmt"
	"maps"
	"time"

	"github.com/caudal-dev/caudal"
)

// A bucket of more than burstDwarfs times what a period refills, or one token in
// slowRefill or longer, says something else than its rate.
const (
	burstDwarfs = 10
	slowRefill  = time.Hour
)

// bucket looks for a token bucket whose rate does not say what it does.
func (l *linter) bucket(limit *Limit) {
	c := limit.Compiled.Limit()
	if c.Algorithm != caudal.TokenBucket || c.Requests == 0 {
		return
	}
	each := c.Period() / time.Duration(c.Requests)
	switch {
	case c.Capacity() > burstDwarfs*uint64(c.Requests):
		l.add(limit, Warning{Code: "burst-dwarfs-rate",
			What: fmt.Sprintf("a burst of %d with %d per %s", c.Capacity(), c.Requests, c.Period()),
			Why:  "a client gets more at once than in ten periods, so the rate says nothing",
			Mend: "lower burst, or write the limit for a longer unit"})
	case each >= slowRefill && c.Capacity() > 1:
		l.add(limit, Warning{Code: "slow-refill",
			What: fmt.Sprintf("one token comes back every %s", each.Round(time.Second)),
			Why:  "a client that has used its burst gets one call at a time, and up to twice the limit in one period",
			Mend: "use fixed_window for a quota that starts anew, or sliding_log for an exact one"})
	}
}

// maxDecidersCompared bounds the search for limits that another one makes idle.
const maxDecidersCompared = 2000

// idle looks for limits that can never decide, because another one that always
// applies too denies first. It looks where that is certain: among the limits of
// one descriptor and of those above it, and at a limit for all values of one
// attribute.
func (l *linter) idle(limit *Limit) {
	if limit.Mode != caudal.Enforce || limit.Compiled.Requests() == 0 {
		return
	}
	for _, other := range l.deciders(limit) {
		if other == limit || other.Unlimited || other.Mode != caudal.Enforce || other.EnforcePercent < 100 {
			continue
		}
		if sameRegions(limit, other) && sameCost(limit.Cost, other.Cost) && other.CountWhen.covers(limit.CountWhen) && within(other.Compiled.Limit(), limit.Compiled.Limit()) {
			l.add(limit, Warning{Code: "never-decides",
				What: limit.Name + " can never deny",
				Why:  fmt.Sprintf("%s at %s applies to the same calls and denies first", other.Name, other.Position),
				Mend: "remove it, or make it the stricter one"})
			return
		}
	}
}

// deciders gives the limits that apply to every call that the limit applies to,
// with a counter that holds all calls of the limit's counter.
func (l *linter) deciders(limit *Limit) []*Limit {
	var found []*Limit
	keys := map[string]Missing{}
	for n := limit.node; n != nil; n = n.parent {
		if n == limit.node || l.byAttributes {
			found = append(found, n.limits...)
		}
		if n.kind == anyValue {
			keys[n.key] = n.missing
		}
	}
	if !l.byAttributes {
		return found
	}
	for _, g := range l.domain.root.groups {
		missing, counted := keys[g.key]
		if n := g.any; n != nil && len(g.nodes) == 1 && counted && (missing == n.missing || g.address) && !limit.node.under(n) {
			found = append(found, n.limits...)
		}
	}
	return found[:min(len(found), maxDecidersCompared)]
}

func (n *node) under(above *node) bool {
	for ; n != nil; n = n.parent {
		if n == above {
			return true
		}
	}
	return false
}

// sameRegions reports whether the numbers of two limits compare in every region.
func sameRegions(a, b *Limit) bool { return maps.Equal(percents(a), percents(b)) }

func sameCost(a, b *Cost) bool { return a == b || a != nil && b != nil && *a == *b }

// within reports whether every flow that the first limit lets through has room in
// the second. It errs on the side of no.
func within(first, second caudal.Limit) bool {
	if first.Requests == 0 {
		return true
	}
	if first.Algorithm == caudal.LeakyBucket || second.Algorithm == caudal.LeakyBucket {
		return false // a queue does more than deny
	}
	if second.Algorithm == caudal.TokenBucket {
		return first.Algorithm == caudal.TokenBucket && first.Capacity() <= second.Capacity() &&
			float64(first.Requests)*second.Period().Seconds() <= float64(second.Requests)*first.Period().Seconds()
	}
	span := second.Period()
	if second.Algorithm == caudal.SlidingWindow {
		span *= 2 // its estimate looks at two windows
	}
	return mostIn(first, span) <= float64(second.Requests)
}

// mostIn bounds what a limit lets through in any interval of the given length.
func mostIn(l caudal.Limit, span time.Duration) float64 {
	periods := float64(span) / float64(l.Period())
	whole := float64((span + l.Period() - 1) / l.Period())
	switch l.Algorithm {
	case caudal.TokenBucket:
		return float64(l.Capacity()) + float64(l.Requests)*periods
	case caudal.SlidingLog:
		return float64(l.Requests) * whole
	}
	return float64(l.Requests) * (whole + 1)
}

// spacing notes that a queue which is shared among regions is one queue in each.
func (l *linter) spacing(limit *Limit) {
	if limit.Scope != ScopeGlobal || limit.Compiled.Algorithm() != caudal.LeakyBucket || len(limit.source().shares) < 2 {
		return
	}
	l.add(limit, Warning{Level: LevelNote, Code: "queues-in-regions",
		What: fmt.Sprintf("a leaky_bucket shared among %d regions", len(limit.source().shares)),
		Why:  "calls are spaced within each region; two regions can let one leave in the same moment",
		Mend: "fine for what bears one call from each region at once; else keep the queue in one region"})
}
