package httplimit

import (
	"net/http"
	"strconv"

	"github.com/caudal-dev/caudal/rule"
)

// onDeny gives what the rule that denies wants answered, and nil for the usual:
// that of the limit which the client is told about.
func (o *Outcome) onDeny() *rule.Denial {
	if i, denied := o.permitDenied(); denied && i < len(o.match.Concurrencies) {
		return o.match.Concurrencies[i].OnDeny
	}
	if o.Action != Deny || o.Verdict.Nearest < 0 || o.Verdict.Nearest >= len(o.match.Limits) {
		return nil
	}
	return o.match.Limits[o.Verdict.Nearest].OnDeny
}

// writeDenial answers as a rule's on_deny says.
func (o *Outcome) writeDenial(w http.ResponseWriter, r *http.Request, d *rule.Denial) {
	v := o.variables(d)
	h := w.Header()
	for _, header := range d.Headers {
		set(h, header.Name, header.Value.Expand(v, ""))
	}
	if d.Body.Empty() {
		p := o.Problem()
		p.Status = d.Status
		p.Write(w, r)
		return
	}
	body := d.Body.Expand(v, d.ContentType)
	if _, given := h["Cache-Control"]; !given {
		set(h, "Cache-Control", "no-store")
	}
	set(h, "Content-Type", d.ContentType)
	set(h, "Content-Length", strconv.Itoa(len(body)))
	set(h, "X-Content-Type-Options", "nosniff")
	w.WriteHeader(d.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(body)) // a client that has gone needs no answer
	}
}

func (o *Outcome) variables(d *rule.Denial) *rule.Variables {
	if i, denied := o.permitDenied(); denied {
		return &rule.Variables{Rule: o.match.PermitCalls[i].Limit.Name(), Domain: o.domain, Limit: o.Grants[i].Max,
			RetryAfter: o.RetryAfter(), ResetAfter: o.RetryAfter(), Status: d.Status}
	}
	i := o.Verdict.Nearest
	decision := &o.Decisions[i]
	return &rule.Variables{
		Rule:       policyName(o.Calls[i].Limit),
		Domain:     o.domain,
		Limit:      decision.Limit,
		Remaining:  decision.Remaining,
		RetryAfter: o.RetryAfter(),
		ResetAfter: ceilSeconds(decision.ResetAfter),
		Status:     d.Status,
	}
}
