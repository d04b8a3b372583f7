package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
)

// permitRetry is how soon a call that found no permit free may try again: nobody
// knows when another one ends.
const permitRetry = time.Second

// ErrPermitLost is reported when the permit of a call under way could not be
// renewed in time: the store may have given it to another.
var ErrPermitLost = errors.New("httplimit: a permit ended before its call")

// PermitObserver is an ability of an Observer: it is told of concurrency limits.
// Like an Observer it must be quick and safe for concurrent use.
type PermitObserver interface {
	// PermitDecided is called once per call for each concurrency limit that gave a
	// permit or denied.
	PermitDecided(domain string, limit *caudal.CompiledConcurrency, result Result)
	// PermitsHeld is called when this process holds one permit more (1) or less (-1).
	PermitsHeld(domain string, limit *caudal.CompiledConcurrency, change int)
}

// holding is the permits of one call under way. It outlives its Outcome where a
// handler takes the connection over.
type holding struct {
	core    *core
	domain  string
	permits []caudal.Permit
	every   time.Duration // between renewals
	apart   atomic.Bool   // a connection holds it, not the call
	ended   atomic.Bool

	// Guarded by the keeper's lock.
	line       *keeperLine
	prev, next *holding
	due        time.Time
}

// end gives the permits back; only the first time does anything.
func (h *holding) end() {
	if h.ended.Swap(true) {
		return
	}
	h.core.keeper.drop(h)
	h.core.held(h.domain, h.permits, -1)
	h.core.keeper.release(h.permits)
}

// held tells the observer how many permits this process holds more or less.
func (c *core) held(domain string, permits []caudal.Permit, change int) {
	if c.permitted == nil {
		return
	}
	for i := range permits {
		c.permitted.PermitsHeld(domain, permits[i].Limit, change)
	}
}

// wantsPermits reports whether the call takes permits before it may go on.
func (o *Outcome) wantsPermits() bool {
	return o.takesPermits && !o.broken && o.Action == Pass && len(o.match.PermitCalls) > 0
}

// HoldsPermits reports whether the call holds permits: Release must then wait until
// its response has ended.
func (o *Outcome) HoldsPermits() bool { return o.holding != nil }

// Permits gives the permits that AcquirePermits took, in the order of Grants; they
// are the caller's to release and renew.
func (o *Outcome) Permits() []caudal.Permit {
	var permits []caudal.Permit
	for i := range o.Grants {
		if o.Grants[i].Acquired {
			permits = append(permits, o.Grants[i].Permit)
		}
	}
	return permits
}

// AcquirePermits takes the permits that the rules demand of a call, for front ends
// whose callers hold them themselves, and reports whether the call may pass. If
// none is free, all else that was charged goes back.
func (o *Outcome) AcquirePermits(ctx context.Context) bool {
	if !o.wantsPermits() {
		return o.Action == Pass
	}
	return o.acquire(ctx)
}

// PermitCall gives the call that Grants[i] answers.
func (o *Outcome) PermitCall(i int) *caudal.PermitCall { return &o.match.PermitCalls[i] }

// RenewPermits lets permits that AcquirePermits took last another lease; see
// caudal.PermitStore.
func (d *Decider) RenewPermits(ctx context.Context, permits []caudal.Permit, held []bool) error {
	if d.permits == nil {
		return fmt.Errorf("%w: concurrency limits", caudal.ErrUnsupported)
	}
	return d.permits.Renew(ctx, caudal.Instant{}, permits, held)
}

// ReleasePermits gives permits that AcquirePermits took back; see
// caudal.PermitStore.
func (d *Decider) ReleasePermits(ctx context.Context, permits []caudal.Permit, held []bool) error {
	if d.permits == nil {
		return fmt.Errorf("%w: concurrency limits", caudal.ErrUnsupported)
	}
	return d.permits.Release(ctx, caudal.Instant{}, permits, held)
}

// takePermits takes the permits of a call that leaves now, and keeps them renewed
// until the outcome is released.
func (o *Outcome) takePermits(ctx context.Context) bool {
	if !o.wantsPermits() {
		return o.Action == Pass
	}
	if !o.acquire(ctx) {
		return false
	}
	permits := o.Permits()
	if len(permits) == 0 {
		return true
	}
	h := &holding{core: o.core, domain: o.domain, permits: permits, every: permits[0].Limit.Lease() / 3}
	for _, p := range permits[1:] {
		h.every = min(h.every, p.Limit.Lease()/3)
	}
	o.holding = h
	o.core.held(o.domain, permits, 1)
	o.core.keeper.keep(h)
	return true
}

// acquire asks the store for permits.
func (o *Outcome) acquire(ctx context.Context) (passes bool) {
	c, calls := o.core, o.match.PermitCalls
	defer func() {
		if v := recover(); v != nil {
			o.broken, o.Grants = true, nil
			passes = o.permitFailed(ctx, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	if c.dry() {
		for i := range calls {
			calls[i].Shadow = true
		}
	}
	n := len(calls)
	o.Grants = slices.Grow(o.Grants[:0], n)[:n]
	clear(o.Grants)
	if c.permits == nil {
		o.Grants = o.Grants[:0]
		return o.permitFailed(ctx, fmt.Errorf("%w: concurrency limits", caudal.ErrUnsupported))
	}
	if err := c.permits.Acquire(ctx, caudal.Instant{}, calls, o.Grants); err != nil {
		o.Grants = o.Grants[:0]
		return o.permitFailed(ctx, err)
	}
	passes = caudal.Granted(calls, o.Grants)
	if !passes {
		o.denyPermit(ctx)
	}
	if !passes || !o.sheds() {
		o.countPermits(passes)
	}
	return passes
}

// permitFailed handles permits about which no decision was made, as failed does.
func (o *Outcome) permitFailed(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		o.Action = Gone
		o.Cancel(ctx)
		return false
	}
	_, panicked := err.(*PanicError)
	passes := o.core.opts.OnError != DenyOnError || o.core.dry() || panicked
	o.core.report(o.domain, err)
	if !passes {
		o.Action = Unavailable
		o.uncharge()
		o.Cancel(ctx)
	}
	if passes && o.uncounted && !o.sheds() {
		o.uncounted = false
		o.core.count(o)
	}
	return passes
}

// denyPermit denies a call for which no permit is free, and gives back what it was
// charged, the turn as for a call that never left.
func (o *Outcome) denyPermit(ctx context.Context) {
	o.Action, o.denier = Deny, -1
	for i := range o.Grants {
		g := &o.Grants[i]
		if g.Allowed || o.match.PermitCalls[i].Shadow {
			continue
		}
		if g.Unavailable {
			o.Action = Unavailable
		}
		o.Verdict.Never = o.Verdict.Never || g.Max == 0 && !g.Degraded
		if o.denier < 0 {
			o.denier = i
		}
	}
	o.uncharge()
	o.Cancel(ctx)
	o.Verdict.Allowed, o.Verdict.Delay, o.Verdict.RetryAfter = false, 0, permitRetry
	if o.Verdict.Never {
		o.Verdict.RetryAfter = 0
	}
}

// uncharge lets the decisions say what remains without the call, before Cancel.
func (o *Outcome) uncharge() {
	for i := range o.Decisions {
		if d := &o.Decisions[i]; d.Charged {
			credit(d, o.Calls[i].Limit, d.Receipt.Cost)
		}
		o.Decisions[i].Delay = 0
	}
}

// countPermits tells the observer what became of the concurrency limits, and of the
// others if it was not told before. Of a call that does not pass only denials count;
// its verdict must say so.
func (o *Outcome) countPermits(passes bool) {
	c := o.core
	if o.uncounted {
		c.count(o)
	}
	o.uncounted = false
	if c.permitted == nil {
		return
	}
	for i := range o.Grants {
		g, call := &o.Grants[i], &o.match.PermitCalls[i]
		result := Allowed
		switch {
		case call.Peek:
			continue // counts nothing
		case g.Acquired && !passes:
			continue // it goes back
		case g.Acquired:
		case g.Allowed && g.Degraded && passes:
			result = ErrorAllowed
		case g.Allowed:
			continue // room in a call that another denied
		case call.Shadow:
			result = ShadowDenied
		case g.Unavailable:
			result = ErrorDenied
		default:
			result = Denied
		}
		c.permitted.PermitDecided(o.domain, call.Limit, result)
	}
}

// permitDenied gives the index of the concurrency limit that denies the call; false
// when none does.
func (o *Outcome) permitDenied() (int, bool) {
	return o.denier, o.Action == Deny && o.denier >= 0 && o.denier < len(o.Grants)
}

// permitDetail says to people which limit denied.
func (o *Outcome) permitDetail(i int) string {
	limit := o.match.PermitCalls[i].Limit
	if o.Grants[i].Max == 0 {
		return fmt.Sprintf("limit %q allows no requests", limit.Name())
	}
	return fmt.Sprintf("limit %q lets %d requests run at once, and as many are under way; try again in %s", limit.Name(), o.Grants[i].Max, permitRetry)
}

// DenyingPermits names every concurrency limit that denies the call.
func (o *Outcome) DenyingPermits() []string {
	var names []string
	if _, denied := o.permitDenied(); denied {
		for i := range o.Grants {
			if !o.Grants[i].Allowed && !o.match.PermitCalls[i].Shadow {
				names = append(names, o.match.PermitCalls[i].Limit.Name())
			}
		}
	}
	return names
}

// setPermits adds the items of the concurrency limits to the lists of the draft's
// headers, once the store has said how many permits are held.
func (o *Outcome) setPermits(policy, state []byte) (p, s []byte) {
	for i := range o.Grants {
		g, call := &o.Grants[i], &o.match.PermitCalls[i]
		if call.Shadow || g.Unavailable {
			continue
		}
		if len(policy) > 0 {
			policy, state = append(policy, ", "...), append(state, ", "...)
		}
		policy = appendString(policy, call.Limit.Name())
		policy = appendInteger(append(policy, ";q="...), g.Max)
		policy = append(policy, `;qu="concurrent-requests"`...)
		state = appendString(state, call.Limit.Name())
		state = appendInteger(append(state, ";r="...), g.Max-min(g.Max, g.InUse))
	}
	return policy, state
}

// serveHolding runs a handler whose call holds permits until the response has
// ended: also when it panics, and where it takes the connection over, until that is
// closed.
func serveHolding(o *Outcome, w http.ResponseWriter) http.ResponseWriter {
	h := o.holding
	if h == nil {
		return w
	}
	return (&watcher{ResponseWriter: w, hijacked: h.handOver}).shown()
}
