package httplimit

import (
	"context"
	"time"

	"github.com/caudal-dev/caudal"
)

// Tracer is told when a decision begins and when it is made, for traces. It must be
// quick and safe for concurrent use.
type Tracer interface {
	// Begin is called before a decision. The store is asked with the context that it
	// gives, which must end when ctx does.
	Begin(ctx context.Context) context.Context
	// End is called once for each Begin, with the context that it gave, when the
	// decision is made; a call that is held has not had its turn then.
	End(ctx context.Context, s Summary)
}

// Summary is what was decided about a request, in words of the rules alone: nothing
// of it is a client's.
type Summary struct {
	// Domain is that of the rules; empty where there are none.
	Domain string
	// Rule is the limit that denies, else the one with the least left; empty when no
	// limit applies.
	Rule string
	// Outcome is allowed, shadow_denied, denied, rejected, ambiguous, blocked, shed,
	// gone, unavailable, or error_allowed for a request that passed since no decision
	// was made.
	Outcome string
	// Degraded says that the decision was made without the store.
	Degraded bool
	// Delay is how long the call has to wait for its turn.
	Delay time.Duration
}

// Passed reports whether the request may go on, or could have.
func (s *Summary) Passed() bool {
	return s.Outcome == outcomeAllowed || s.Outcome == outcomeShadow || s.Outcome == outcomeError
}

const (
	outcomeAllowed = "allowed"
	outcomeShadow  = "shadow_denied"
	outcomeDenied  = "denied"
	outcomeError   = "error_allowed"
)

var outcomeNames = [...]string{Pass: outcomeAllowed, Deny: outcomeDenied, Reject: "rejected", Unavailable: "unavailable",
	Gone: "gone", Ambiguous: "ambiguous", Blocked: "blocked", Shed: "shed"}

// Summary sums up what was decided so far.
func (o *Outcome) Summary() Summary {
	s := Summarize(o.Calls, o.Decisions, &o.Verdict)
	s.Domain = o.domain
	if o.Action != Pass || s.Outcome != outcomeShadow {
		s.Outcome = outcomeNames[o.Action]
	}
	if o.Err != nil && o.Action == Pass {
		s.Outcome = outcomeError
	}
	if i, denied := o.permitDenied(); denied {
		s.Rule = o.match.PermitCalls[i].Limit.Name()
	}
	return s
}

// Summarize sums up decisions about limits, for front ends that ask the store by
// themselves. Domain is left to them.
func Summarize(calls []caudal.Call, decisions []caudal.Decision, v *caudal.Verdict) Summary {
	s := Summary{Outcome: outcomeAllowed, Degraded: v.Degraded, Delay: v.Delay}
	if v.Nearest >= 0 && v.Nearest < len(calls) {
		s.Rule = calls[v.Nearest].Limit.Name()
	}
	switch {
	case v.Unavailable:
		s.Outcome = outcomeNames[Unavailable]
	case !v.Allowed:
		s.Outcome = outcomeDenied
	default:
		for i := range decisions {
			if !decisions[i].Allowed {
				s.Outcome, s.Rule = outcomeShadow, calls[i].Limit.Name()
				break
			}
		}
	}
	return s
}

// trace begins the trace of a decision; the function that it gives ends it.
func (c *core) trace(ctx context.Context, o *Outcome) (context.Context, func()) {
	ctx = c.opts.Tracer.Begin(ctx)
	return ctx, func() { c.opts.Tracer.End(ctx, o.Summary()) }
}
