package httplimit

import (
	"context"
	"net/http"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// PaysLater reports whether some limit reads the call's cost from the response:
// its largest cost has been charged, and Settle must be called.
func (o *Outcome) PaysLater() bool {
	for i, l := range o.match.Limits {
		if paysLater(l) && i < len(o.Decisions) && o.Decisions[i].Charged {
			return true
		}
	}
	return false
}

func paysLater(l *rule.Limit) bool { return l.Cost != nil && l.Cost.Source == rule.CostResponseHeader }

// Settle credits calls whose cost stands in a header of the response down to
// that cost; a response without it, and nil headers, cost the default. It works
// once, also after ctx has ended. A queue gives back nothing: the call has left.
func (o *Outcome) Settle(ctx context.Context, h http.Header) {
	o.refunds = o.refunds[:0]
	for i, l := range o.match.Limits {
		if !paysLater(l) || i >= len(o.Decisions) || !o.Decisions[i].Charged {
			continue
		}
		d := &o.Decisions[i]
		d.Charged = false // once, and Cancel has nothing left to take back
		lines := h.Values(l.Cost.Name)
		back := d.Receipt.Cost - min(l.Cost.Read(h.Get(l.Cost.Name), len(lines) == 1), d.Receipt.Cost)
		if back == 0 {
			continue
		}
		o.refunds = append(o.refunds, caudal.Refund{Receipt: d.Receipt, N: back, Left: true})
		if l.Compiled.Algorithm() != caudal.LeakyBucket {
			d.Remaining = min(d.Limit, d.Remaining+uint64(back))
		}
	}
	o.giveBack(ctx)
}
