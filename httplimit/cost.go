package httplimit

import (
	"context"
	"net/http"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// PaysLater reports whether what some limit charged depends on the response: the
// cost stands in a header of it, or the limit counts only some statuses. Settle
// must be called then.
func (o *Outcome) PaysLater() bool { return o.waitsFor(waits) }

// waitsFor reports whether a charged limit waits for the response in the given way.
func (o *Outcome) waitsFor(way func(*rule.Limit) bool) bool {
	for i, l := range o.match.Limits {
		if i < len(o.Decisions) && o.Decisions[i].Charged && way(l) {
			return true
		}
	}
	return false
}

func waits(l *rule.Limit) bool { return countsSome(l) || costsLater(l) }

func countsSome(l *rule.Limit) bool { return l.CountWhen != nil }

func costsLater(l *rule.Limit) bool { return l.Cost != nil && l.Cost.Source == rule.CostResponseHeader }

// Settle gives back what the response says was charged too much: all of it where a
// limit does not count the status (count_when); else, where the cost stands in a
// header, all above it. A response without the header, and nil headers, cost the
// default. Status 0 means that nobody saw one: the call counts.
//
// Each charge is settled once, also after ctx has ended, and in the window that
// was charged. A queue gives back nothing: the call has left.
func (o *Outcome) Settle(ctx context.Context, status int, h http.Header) {
	o.settle(ctx, status, h, true)
}

// settle settles what can be told now; last says that no more will be known. What
// is left waiting is a cost whose header is not there yet.
func (o *Outcome) settle(ctx context.Context, status int, h http.Header, last bool) {
	o.refunds = o.refunds[:0]
	for i, l := range o.match.Limits {
		if i >= len(o.Decisions) || !o.Decisions[i].Charged || !waits(l) {
			continue
		}
		d := &o.Decisions[i]
		back := d.Receipt.Cost
		if l.CountWhen.Counts(status) {
			back = 0
			if costsLater(l) {
				lines := h.Values(l.Cost.Name)
				if len(lines) == 0 && !last {
					continue
				}
				back = d.Receipt.Cost - min(l.Cost.Read(h.Get(l.Cost.Name), len(lines) == 1), d.Receipt.Cost)
			}
		}
		d.Charged = false // once, and Cancel has nothing left to take back
		if limit := o.Calls[i].Limit; back > 0 && limit.Algorithm() != caudal.LeakyBucket {
			o.refunds = append(o.refunds, caudal.Refund{Receipt: d.Receipt, N: back, Left: true})
			credit(d, limit, back)
		}
	}
	if len(o.refunds) > 0 {
		o.Verdict = caudal.Judge(o.Calls, o.Decisions) // another limit may be nearest now
		o.giveBack(ctx)
	}
}

// credit changes what a decision tells of its limit by what is given back.
func credit(d *caudal.Decision, limit *caudal.Compiled, back uint32) {
	d.Remaining = min(d.Limit, d.Remaining+uint64(back))
	switch {
	case d.Remaining == d.Limit:
		d.ResetAfter = 0
	case limit.Algorithm() == caudal.TokenBucket && limit.Requests() > 0:
		d.ResetAfter = max(0, d.ResetAfter-time.Duration(timeFor(limit, uint64(back)))*time.Microsecond)
	}
}
