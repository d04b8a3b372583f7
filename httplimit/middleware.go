package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

// Middleware limits requests by one limit. Make it with New. It is safe for
// concurrent use.
type Middleware struct {
	core
	limiter *caudal.Limiter
	key     KeyFunc
}

// New makes a middleware of one limit. key says who is charged and is required:
// there is no default under which all clients would share one count.
func New(limiter *caudal.Limiter, key KeyFunc, o Options) (*Middleware, error) {
	switch {
	case limiter == nil:
		return nil, errors.New("httplimit: no limiter: make one with caudal.New")
	case key == nil:
		return nil, errors.New("httplimit: no key function: use ByIP, ByHeader or one of your own")
	}
	m := &Middleware{limiter: limiter, key: key}
	return m, m.init(o, m)
}

// Wrap puts the limit in front of a handler.
func (m *Middleware) Wrap(next http.Handler) http.Handler { return wrap(m, next) }

// Decide decides about a request and charges it. The outcome must be released.
func (m *Middleware) Decide(r *http.Request) *Outcome {
	o := m.outcome(r)
	o.shedding = m.shedding
	if !m.exempt(r) {
		m.decide(r, o)
	} else if o.shedding != nil { // it costs the handler work, and is somebody's
		o.key, _ = ByIP(r)
	}
	return o
}

func (m *Middleware) decide(r *http.Request, o *Outcome) {
	defer m.recovered(o)
	key, err := m.key(r)
	if err != nil {
		m.failed(r.Context(), o, fmt.Errorf("httplimit: no key: %w", err))
		return
	}
	if key == "" {
		return
	}
	o.key = key
	o.one[0] = caudal.Call{Limit: m.limiter.Compiled(), Cost: 1}
	if m.detailed != nil {
		o.one[0].Key = []byte(key) // the limiter takes the text; the observer wants to see it
	}
	o.Calls = o.one[:]
	m.settle(r.Context(), o)
}

// take asks the limiter itself, which knows how to ask its store about one key
// without slices. A limiter knows no shadow mode: a dry run asks without an
// obligation to obey.
func (m *Middleware) take(ctx context.Context, o *Outcome) (err error) {
	o.Decisions[0], err = m.limiter.AllowN(ctx, o.key, 1)
	return err
}

func (m *Middleware) refund(ctx context.Context, refunds []caudal.Refund) (err error) {
	for _, r := range refunds {
		err = errors.Join(err, m.limiter.Cancel(ctx, r.Receipt))
	}
	return err
}

// Decider limits requests by rules. It is the part of the middleware that
// decides, on its own: gateways and other front ends use it too. Make it with
// NewDecider. It is safe for concurrent use.
type Decider struct {
	core
	domain   atomic.Pointer[rule.Domain]
	store    caudal.Store
	refunder caudal.Refunder // store, when it has the ability
	who      *identity.Resolver
}

// NewDecider makes a decider from the rules of one domain, the store that counts
// and the resolver that says who is asking. All are required.
func NewDecider(domain *rule.Domain, store caudal.Store, who *identity.Resolver, o Options) (*Decider, error) {
	switch {
	case domain == nil:
		return nil, errors.New("httplimit: no domain: load one with rule.Load")
	case store == nil:
		return nil, errors.New("httplimit: no store: use memstore.New for one in memory")
	case who == nil:
		return nil, errors.New("httplimit: no resolver: make one with identity.New")
	}
	d := &Decider{store: store, who: who}
	d.refunder, _ = store.(caudal.Refunder)
	d.permits, _ = store.(caudal.PermitStore)
	d.domain.Store(domain)
	return d, d.init(o, d)
}

// SetDomain puts other rules in force at once. Decisions under way keep those
// that they began with.
func (d *Decider) SetDomain(domain *rule.Domain) { d.domain.Store(domain) }

// Domain gives the rules in force.
func (d *Decider) Domain() *rule.Domain { return d.domain.Load() }

// Wrap puts the rules in front of a handler.
func (d *Decider) Wrap(next http.Handler) http.Handler { return wrap(d, next) }

// Decide decides about a request and charges it. The outcome must be released; where
// Options.Shed is set, Admit must follow Hold.
func (d *Decider) Decide(r *http.Request) *Outcome { return d.DecideShedding(r, d.shedding) }

// DecideShedding is Decide in front of something that sheds by s instead of
// Options.Shed: a call that would find no room is shed before it is charged. Admit must
// follow Hold, with s; nil sheds nothing.
func (d *Decider) DecideShedding(r *http.Request, s *Shedding) *Outcome {
	o := d.outcome(r)
	o.takesPermits, o.shedding = true, s
	if !d.exempt(r) {
		o.request.Reset(d.who, r)
		d.decide(r.Context(), o, &o.request)
	} else if s != nil { // it costs no limit, but it is somebody's
		o.request.Reset(d.who, r)
	}
	return o
}

// DecideWithin is Decide for a caller that can be held no longer than maxHold: a
// request whose turn comes later is denied at once and charged nothing.
func (d *Decider) DecideWithin(r *http.Request, maxHold time.Duration) *Outcome {
	o := d.outcome(r)
	if room := maxHold + margin; !o.hasRoom || room < o.room {
		o.room, o.hasRoom = room, true
	}
	if !d.exempt(r) {
		o.request.Reset(d.who, r)
		d.decide(r.Context(), o, &o.request)
	}
	return o
}

// Blocked reports whether an operator blocked the client of a request by hand, for
// front ends that match by themselves; all others ask Decide. Nobody is blocked in
// a dry run.
func (d *Decider) Blocked(req rule.Request) (control.Hit, bool) {
	if d.opts.DryRun {
		return control.Hit{}, false
	}
	return d.opts.Controls.Blocked(req)
}

// BlockedEntries is Blocked for a descriptor.
func (d *Decider) BlockedEntries(entries []rule.Entry) (control.Hit, bool) {
	if d.opts.DryRun {
		return control.Hit{}, false
	}
	return d.opts.Controls.BlockedEntries(entries)
}

// DecideMatch decides about the limits that fill puts into a match, for front
// ends that match by themselves; domain is the name to report. The match is valid
// until Release, and fill may change what its calls cost. AcquirePermits must be
// called then.
func (d *Decider) DecideMatch(ctx context.Context, domain string, fill func(*rule.Match)) *Outcome {
	o := d.outcome(nil)
	o.takesPermits = true
	d.decideMatch(ctx, o, domain, fill)
	return o
}

func (d *Decider) decideMatch(ctx context.Context, o *Outcome, domain string, fill func(*rule.Match)) {
	if d.opts.Tracer != nil {
		var end func()
		ctx, end = d.trace(ctx, o)
		defer end() // after a panic has been dealt with
	}
	defer d.recovered(o)
	o.domain = domain
	fill(&o.match)
	d.matched(ctx, o)
}

// Refund takes charges back, for front ends whose clients bring receipts; see
// caudal.Refunder.
func (d *Decider) Refund(ctx context.Context, refunds []caudal.Refund) error {
	return d.refund(ctx, refunds)
}

// DecideRequest decides about anything that has attributes, for front ends whose
// request is not the one to limit. Only the context's deadline bounds the delay.
func (d *Decider) DecideRequest(ctx context.Context, req rule.Request) *Outcome {
	o := d.outcome(nil)
	d.decide(ctx, o, req)
	return o
}

func (d *Decider) decide(ctx context.Context, o *Outcome, req rule.Request) {
	if d.opts.Tracer != nil {
		var end func()
		ctx, end = d.trace(ctx, o)
		defer end() // after a panic has been dealt with
	}
	defer d.recovered(o)
	domain := d.domain.Load()
	o.domain, o.who = domain.Name(), req
	if hit, ok := d.Blocked(req); ok {
		o.blocked(hit)
		return
	}
	domain.Match(req, &o.match)
	if q, ok := req.(*identity.Request); ok {
		if q.AmbiguousPath() && !d.dry() {
			// Whichever rule was found, the server behind may see the path of another.
			o.Action = Ambiguous
			return
		}
		o.ownLimits(q.OwnLimits())
	}
	d.matched(ctx, o)
}

// ownLimits puts the numbers that the client's key has of its own in the place of
// those of the rules. Numbers that make no limit are left out: whoever loads keys and
// rules warns of them.
func (o *Outcome) ownLimits(own []identity.OwnLimit) {
	for _, n := range own {
		for i, l := range o.match.Limits {
			if l.Label != n.Name || !l.PerClient() {
				continue
			}
			if c, err := l.WithRequests(n.Requests); err == nil {
				o.match.Calls[i].Limit = c
			}
		}
	}
}

func (d *Decider) matched(ctx context.Context, o *Outcome) {
	if o.match.Rejected != "" && !d.dry() {
		o.Action = Reject
		return
	}
	o.Calls = o.match.Calls
	d.settle(ctx, o)
}

func (d *Decider) take(ctx context.Context, o *Outcome) error {
	return d.store.Take(ctx, caudal.Instant{}, o.Calls, o.Decisions)
}

func (d *Decider) refund(ctx context.Context, refunds []caudal.Refund) error {
	if d.refunder == nil {
		return fmt.Errorf("%w: refund", caudal.ErrUnsupported)
	}
	return d.refunder.Refund(ctx, caudal.Instant{}, refunds)
}
