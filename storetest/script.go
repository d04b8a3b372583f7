package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

// step is one line of a timeline: calls of one cost at one instant, and what the
// last of them must say. A change of the limit, a refund, a credit or a reset
// comes before the calls.
type step struct {
	at    string // since the row's start, such as "3s"; "" is the start
	limit string // puts another limit in force
	// refund names earlier steps (see as) whose last charge is taken back: never
	// left its queue, unless left is set; all of it, unless n says less.
	refund string
	left   bool
	n      uint32
	credit uint32 // taken back without a receipt
	reset  bool

	cost  uint32 // 0 is a peek
	times int    // 0 is once
	as    string // a name for the charge

	denied    bool
	never     bool
	remaining uint64
	retry     string
	until     string // the reset: until everything remains again
	delay     string
}

// script plays rows on a store.
type script struct {
	testing.TB
	ctx   context.Context
	store caudal.Store
	clock *Clock
	opts  Options
	rule  string
	start caudal.Instant

	turns bool // every other call uses TakeKey
	calls int

	refunder   caudal.Refunder
	resetter   caudal.Resetter
	forecaster caudal.Forecaster
	permits    caudal.PermitStore
}

// wrong reports what broke the rule, and the rule.
func (s *script) wrong(format string, args ...any) {
	s.Helper()
	s.Errorf(format+"\nthe rule: %s", append(args, s.rule)...)
}

// limit compiles a limit under a scope that all limits of a row share.
func (s *script) limit(text string) *caudal.Compiled { return s.scoped(text, "row") }

func (s *script) scoped(text, scope string) *caudal.Compiled {
	s.Helper()
	l, err := caudal.ParseLimit(text)
	if err != nil {
		s.Fatal(err)
	}
	c, err := l.Compile("", scope)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// at gives an instant of the row, and moves the clock there.
func (s *script) at(since string) caudal.Instant {
	s.Helper()
	at := s.start.Add(s.duration(since))
	s.clock.Set(time.UnixMicro(at.Wall))
	return at
}

func (s *script) duration(text string) time.Duration {
	s.Helper()
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// take decides one call on one counter.
func (s *script) take(at caudal.Instant, l *caudal.Compiled, key string, cost uint32) caudal.Decision {
	s.Helper()
	s.calls++
	if s.turns && s.calls%2 == 0 {
		d, err := s.store.(caudal.KeyStore).TakeKey(s.ctx, at, l, key, cost)
		if err != nil {
			s.Fatalf("TakeKey(%s, %q, cost %d) = error %v", l.Limit(), key, cost, err)
		}
		return d
	}
	out := s.batch(at, call(l, key, cost))
	return out[0]
}

// call is an enforced call.
func call(l *caudal.Compiled, key string, cost uint32) caudal.Call {
	return caudal.Call{Limit: l, Key: []byte(key), Cost: cost}
}

// batch decides a request.
func (s *script) batch(at caudal.Instant, calls ...caudal.Call) []caudal.Decision {
	s.Helper()
	out := make([]caudal.Decision, len(calls))
	for i := range out { // what was there before must not show
		out[i] = caudal.Decision{Never: true, Degraded: true, Delay: time.Hour, RetryAfter: time.Hour, Receipt: caudal.Receipt{ID: 77}}
	}
	if err := s.store.Take(s.ctx, at, calls, out); err != nil {
		s.Fatalf("Take(%d calls) = error %v", len(calls), err)
	}
	return out
}

// remaining peeks.
func (s *script) remaining(at caudal.Instant, l *caudal.Compiled, key string, want uint64) {
	s.Helper()
	if d := s.take(at, l, key, 0); d.Remaining != want {
		s.wrong("%s, key %q: %d remaining, want %d", l.Limit(), key, d.Remaining, want)
	}
}

// timeline plays steps on one counter and checks every field of the decisions.
func (s *script) timeline(limit string, steps []step) {
	s.Helper()
	l := s.limit(limit)
	charges := map[string]caudal.Receipt{}
	for i, p := range steps {
		if s.Failed() {
			return // what follows would only repeat it
		}
		at := s.at(p.at)
		if p.limit != "" {
			l = s.limit(p.limit)
		}
		if (p.refund != "" || p.credit > 0) && s.refunder == nil || p.reset && s.resetter == nil {
			return
		}
		s.prepare(i, p, at, l, charges)
		var d caudal.Decision
		for k := range max(p.times, 1) {
			d = s.take(at, l, "k", p.cost)
			if d.Allowed == p.denied {
				s.wrong("step %d: call %d of cost %d at %s: allowed %v, want %v", i, k+1, p.cost, p.at, d.Allowed, !p.denied)
				return
			}
		}
		charges[p.as] = d.Receipt
		s.check(i, p, l, d)
	}
}

func (s *script) prepare(i int, p step, at caudal.Instant, l *caudal.Compiled, charges map[string]caudal.Receipt) {
	s.Helper()
	if p.refund != "" {
		r := charges[p.refund]
		n := p.n
		if n == 0 {
			n = r.Cost
		}
		if err := s.refunder.Refund(s.ctx, at, []caudal.Refund{{Receipt: r, N: n, Left: p.left}}); err != nil {
			s.wrong("step %d: Refund(%s, %d) at %s = %v, want no error", i, p.refund, n, p.at, err)
		}
	}
	if p.credit > 0 {
		if err := s.refunder.Refund(s.ctx, at, []caudal.Refund{{Limit: l, Key: "k", N: p.credit}}); err != nil {
			s.wrong("step %d: Refund without a receipt, %d at %s = %v, want no error", i, p.credit, p.at, err)
		}
	}
	if p.reset {
		if err := s.resetter.Reset(s.ctx, l, "k"); err != nil {
			s.wrong("step %d: Reset at %s = %v, want no error", i, p.at, err)
		}
	}
}

// check compares a decision with what a step wants, and its receipt with it.
func (s *script) check(i int, p step, l *caudal.Compiled, d caudal.Decision) {
	s.Helper()
	want := caudal.Decision{
		Allowed: !p.denied, Never: p.never, Charged: !p.denied && p.cost > 0,
		Limit: l.Capacity(), Remaining: p.remaining,
		RetryAfter: s.duration(p.retry), ResetAfter: s.duration(p.until), Delay: s.duration(p.delay),
	}
	r := d.Receipt
	d.Receipt = caudal.Receipt{}
	if d != want {
		s.wrong("step %d: %s at %s, cost %d\n got %s\nwant %s", i, l.Limit(), p.at, p.cost, show(d), show(want))
	}
	switch {
	case want.Charged && (r.Limit != l || r.Cost != p.cost):
		s.wrong("step %d: the receipt is for cost %d of %v, want cost %d of %s", i, r.Cost, r.Limit, p.cost, l.Limit())
	case !want.Charged && r != (caudal.Receipt{}):
		s.wrong("step %d: a receipt for a call that was not charged: %+v", i, r)
	}
}

// show prints a decision for people.
func show(d caudal.Decision) string {
	verdict := "denied"
	if d.Allowed {
		verdict = "allowed"
	}
	for _, flag := range []struct {
		set  bool
		word string
	}{{d.Never, "never"}, {d.Charged, "charged"}, {d.Degraded, "degraded"}} {
		if flag.set {
			verdict += ", " + flag.word
		}
	}
	return verdict + ", " + numbers(d)
}

func numbers(d caudal.Decision) string {
	return fmt.Sprintf("remaining %d of %d, retry %s, reset %s, delay %s", d.Remaining, d.Limit, d.RetryAfter, d.ResetAfter, d.Delay)
}
