package httplimit

import (
	"net/http"

	"github.com/caudal-dev/caudal"
)

// Answer tells a client what a handler has decided by itself, after it has read the
// request: with [caudal.Limiter.Allow], a key from the body and a cost of its own. It
// sets the headers, and when the decision denies, answers the request as a Middleware
// would. It reports whether the handler may go on; when not, the answer is written.
//
//	d, err := limiter.AllowN(r.Context(), order.Customer, cost)
//	if err == nil && !httplimit.Answer(w, r, limiter, d, httplimit.Options{}) {
//		return
//	}
//
// It must come before the handler writes anything. It holds nobody: the Delay of a
// leaky bucket is for the handler to wait; Limiter.Wait does both. Of the options
// OnError and ChargePreflight mean nothing here, and those that New refuses count as
// not given.
func Answer(w http.ResponseWriter, r *http.Request, limiter *caudal.Limiter, d caudal.Decision, o Options) bool {
	if o.validate() != nil {
		o.Families, o.Reset = 0, ResetEpoch
	}
	c := &core{opts: o.withDefaults()}
	c.twice.Store(true) // one that looks at every request warns; this one sees a single one
	out := c.outcome(nil)
	defer out.Release()
	out.one[0] = caudal.Call{Limit: limiter.Compiled()}
	if d.Charged || !d.Allowed {
		out.one[0].Cost = max(1, d.Receipt.Cost)
	}
	if c.dry() {
		out.one[0].Mode = caudal.Shadow
	}
	out.Calls, out.Decisions = out.one[:], append(out.Decisions[:0], d)
	out.Verdict = caudal.Judge(out.Calls, out.Decisions)
	out.wall = c.opts.Clock.Now().Wall
	c.count(out)
	switch {
	case out.Verdict.Unavailable:
		out.Action = Unavailable
	case !out.Verdict.Allowed:
		out.Action = Deny
	default:
		out.SetHeaders(w.Header())
		return true
	}
	out.Refuse(w, r)
	return false
}
