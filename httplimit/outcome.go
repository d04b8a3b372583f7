package httplimit

import (
	"context"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

// Action is what to do with a request.
type Action uint8

const (
	// Pass: it may go on, at its turn. The zero value.
	Pass Action = iota
	// Deny: a limit denies it. 429.
	Deny
	// Reject: it lacks an attribute that the rules demand. 401.
	Reject
	// Unavailable: no decision was made, and the policy is to refuse. 503.
	Unavailable
	// Gone: the client went away, or its time ran out, before its turn. 503, for
	// the case that somebody still reads it.
	Gone
	// Ambiguous: rules look at its path, and the path is one that servers lead to
	// different places; see identity.AmbiguousPath. 400.
	Ambiguous
	// Blocked: an operator blocked its client by hand; see package control. 429.
	Blocked
	// Shed: its limits would let it pass, but there is no room for it now. 503.
	Shed
)

// Outcome is what was decided about one request. It belongs to one goroutine, is
// reused, and must not be touched after Release.
type Outcome struct {
	// Action is what to do with the request.
	Action Action
	// Calls are the limits that applied, and Decisions what each said. Decisions
	// is empty when no decision was made.
	Calls     []caudal.Call
	Decisions []caudal.Decision
	// Verdict sums them up.
	Verdict caudal.Verdict
	// Grants are what the concurrency limits said, once the call was let through.
	Grants []caudal.Grant
	// Err says why no decision was made.
	Err error

	core    *core
	domain  string
	wall    int64     // microseconds, when decided
	leave   time.Time // when a delayed call may go
	room    time.Duration
	hasRoom bool

	match   rule.Match
	request identity.Request
	who     rule.Request // the request, or another's; nil when nobody knows
	told    Detail       // for the observer
	refunds []caudal.Refund
	buf     []byte // for the text of headers
	state   []byte // the same, of the second one while the first is written
	key     string
	one     [1]caudal.Call
	block   control.Hit
	broken  bool // after a panic: not to be reused

	takesPermits bool      // its way in sees the response end
	uncounted    bool      // the observer is told when the call goes on
	denier       int       // of the concurrency limits
	holding      *holding  // the permits that it holds
	shedding     *Shedding // what it asks for room before it goes on; nil for nothing
}

var outcomes = sync.Pool{New: func() any { return new(Outcome) }}

// Release gives the outcome back for reuse.
func (o *Outcome) Release() {
	if h := o.holding; h != nil {
		o.holding = nil
		if !h.apart.Load() {
			h.end()
		}
	}
	if o.broken {
		return
	}
	if o.uncounted { // whoever decided let it go on without Hold or Admit
		o.core.count(o)
	}
	clear(o.Decisions)
	clear(o.refunds)
	clear(o.Grants)
	o.Grants, o.takesPermits, o.uncounted, o.denier = o.Grants[:0], false, false, 0
	o.match.Reset()
	o.shedding = nil
	o.request, o.who, o.told = identity.Request{}, nil, Detail{}
	o.Action, o.Calls, o.Decisions, o.Err = Pass, nil, o.Decisions[:0], nil
	o.core, o.domain, o.wall, o.leave, o.room, o.hasRoom = nil, "", 0, time.Time{}, 0, false
	o.refunds, o.buf, o.state, o.key, o.one[0], o.block = o.refunds[:0], o.buf[:0], o.state[:0], "", caudal.Call{}, control.Hit{}
	outcomes.Put(o)
}

// core is what a Middleware and a Decider have in common.
type core struct {
	opts      Options
	detailed  DetailObserver // opts.Observer, when it is one
	taker     taker
	permits   caudal.PermitStore // when the store has the ability
	permitted PermitObserver     // opts.Observer, when it is one
	queues    QueueObserver      // opts.Observer, when it is one
	keeper    keeper
	shedding  *Shedding // opts.Shed; nil without
	turns     turnClock

	failures atomic.Int64 // since the last line of log
	logged   atomic.Int64 // unix seconds of the last line of log
	twice    atomic.Bool  // a limit that is charged twice was warned of
}

// taker asks whoever counts.
type taker interface {
	take(context.Context, *Outcome) error
	refund(context.Context, []caudal.Refund) error
}

func (c *core) init(o Options, t taker) error {
	c.opts, c.taker = o.withDefaults(), t
	c.detailed, _ = c.opts.Observer.(DetailObserver)
	c.permitted, _ = c.opts.Observer.(PermitObserver)
	c.queues, _ = c.opts.Observer.(QueueObserver)
	if c.opts.Shed != nil {
		c.shedding = &Shedding{Shedder: c.opts.Shed, PlanWeights: c.opts.PlanWeights}
	}
	c.keeper.store, c.keeper.report = c.permits, func(err error) { c.report("", err) }
	return o.validate()
}

// outcome gives a fresh outcome. r may be nil.
func (c *core) outcome(r *http.Request) *Outcome {
	o := outcomes.Get().(*Outcome)
	o.core = c
	o.Verdict = caudal.Verdict{Allowed: true, Nearest: -1}
	if r != nil {
		o.room, o.hasRoom = grpcTimeout(r)
	}
	return o
}

// dry reports whether nothing may be denied: by the settings, or because an
// operator turned enforcement off.
func (c *core) dry() bool { return c.opts.DryRun || c.opts.Controls.Off() }

// settle asks whether the calls may pass and sums up the answer. A call whose
// turn comes after its deadline is denied here, at once.
func (c *core) settle(ctx context.Context, o *Outcome) {
	if o.shedEarly() || len(o.Calls) == 0 {
		return
	}
	if c.dry() {
		for i := range o.Calls {
			o.Calls[i].Mode = caudal.Shadow
		}
	}
	n := len(o.Calls)
	o.Decisions = slices.Grow(o.Decisions[:0], n)[:n]
	clear(o.Decisions)
	asked := asks(o.Calls)
	if err := c.taker.take(ctx, o); err != nil {
		c.failed(ctx, o, err)
		return
	}
	o.Verdict = caudal.Judge(o.Calls, o.Decisions)
	o.wall = c.opts.Clock.Now().Wall
	if d := o.Verdict.Delay; d > 0 {
		now := time.Now()
		o.leave = c.turn(o, asked, now)
		if !o.fits(ctx, now, d) {
			c.tooLate(ctx, o)
		}
	}
	switch {
	case o.Verdict.Unavailable:
		o.Action = Unavailable
	case !o.Verdict.Allowed:
		o.Action = Deny
	}
	if o.uncounted = o.wantsPermits() || o.sheds(); !o.uncounted {
		c.count(o)
	}
}

// failed handles a decision that was not made. When the client has gone nobody
// failed, and there is nobody to answer.
func (c *core) failed(ctx context.Context, o *Outcome, err error) {
	o.Err = err
	o.Decisions = o.Decisions[:0]
	if ctx.Err() != nil {
		o.Action = Gone
		return
	}
	result := ErrorAllowed
	if _, panicked := err.(*PanicError); c.opts.OnError == DenyOnError && !c.dry() && !panicked {
		o.Action, result = Unavailable, ErrorDenied
	}
	for i := range o.Calls {
		if o.Calls[i].Cost > 0 && (result == ErrorAllowed || o.Calls[i].Mode == caudal.Enforce) {
			c.tell(o, i, result)
		}
	}
	c.report(o.domain, err)
}

// recovered turns a panic of the limiter into a failure that passes: the limiter
// never takes down what it protects. It must be deferred itself.
func (c *core) recovered(o *Outcome) {
	if v := recover(); v != nil {
		o.broken = true
		c.failed(context.Background(), o, &PanicError{Value: v, Stack: debug.Stack()})
	}
}

// logEvery is how often, in seconds, failures may write a line of log.
const logEvery = 10

func (c *core) report(domain string, err error) {
	c.opts.Observer.Failed(domain, err)
	n := c.failures.Add(1)
	now, last := time.Now().Unix(), c.logged.Load()
	if now-last < logEvery || !c.logged.CompareAndSwap(last, now) {
		return
	}
	c.failures.Add(-n)
	attrs := []any{"domain", domain, "error", err, "failures", n, "denied", c.opts.OnError == DenyOnError}
	if p, ok := err.(*PanicError); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	c.opts.Logger.Error("rate limit decisions fail", attrs...)
}

// count tells the observer about each limit that was charged or denied the call.
func (c *core) count(o *Outcome) {
	quota := caudal.QuotaEnforced(o.Calls, o.Decisions)
	for i := range o.Decisions {
		call, d := &o.Calls[i], &o.Decisions[i]
		switch {
		case call.Cost == 0:
		case d.Unavailable && caudal.Enforced(call.Mode, quota):
			c.tell(o, i, ErrorDenied)
		case d.Degraded && d.Allowed && !d.Charged && o.Verdict.Allowed && call.Limit.OnStoreError() == caudal.FailOpen:
			c.tell(o, i, ErrorAllowed)
		case d.Charged && o.Verdict.Allowed:
			c.tell(o, i, Allowed)
		case d.Allowed:
		case caudal.Enforced(call.Mode, quota):
			c.tell(o, i, Denied)
		default:
			c.tell(o, i, ShadowDenied)
		}
	}
}

// tell tells the observer what became of the limit of call i.
func (c *core) tell(o *Outcome, i int, result Result) {
	if c.detailed == nil {
		c.opts.Observer.Decided(o.domain, o.Calls[i].Limit, result)
		return
	}
	// It lies in the outcome, since one on the stack would not stay there.
	d := &o.told
	d.Domain, d.Call, d.Result, d.Decision, d.Rule, d.Who = o.domain, &o.Calls[i], result, nil, nil, o.who
	if i < len(o.Decisions) {
		d.Decision = &o.Decisions[i]
	}
	if i < len(o.match.Limits) {
		d.Rule = o.match.Limits[i]
	}
	c.detailed.Detailed(d)
}

// Enforced reports whether the limit of call i takes part in the verdict.
func (o *Outcome) Enforced(i int) bool {
	return caudal.Enforced(o.Calls[i].Mode, caudal.QuotaEnforced(o.Calls, o.Decisions))
}

// Missing names the attribute whose absence the rules refuse; empty when Action
// is not Reject.
func (o *Outcome) Missing() string { return o.match.Rejected }

// Block says what is blocked, and for how long yet; it means something only when
// Action is Blocked.
func (o *Outcome) Block() control.Hit { return o.block }

// blocked denies a request whose client is blocked by hand.
func (o *Outcome) blocked(hit control.Hit) {
	o.Action, o.block = Blocked, hit
	o.Verdict.Allowed, o.Verdict.RetryAfter = false, hit.Left
}
