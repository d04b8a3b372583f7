package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
)

// margin is how long before the caller's deadline an answer must be given, for
// there to be any use in it.
const margin = 5 * time.Millisecond

// decide asks the store, and holds the answer until the call's turn.
func (s *Service) decide(ctx context.Context, x *exchange) error {
	leave, err := s.judge(ctx, x)
	if err != nil || leave.IsZero() {
		return err
	}
	return s.hold(ctx, x, leave)
}

// judge asks the store and gives the instant of the call's turn, zero where that is at once.
func (s *Service) judge(ctx context.Context, x *exchange) (leave time.Time, err error) {
	calls := x.match.Calls
	x.verdict = caudal.Verdict{Allowed: true, Nearest: -1}
	if t := s.opts.Tracer; t != nil {
		ctx = t.Begin(ctx)
		defer func() { t.End(ctx, s.summary(x, err)) }()
	}
	if len(calls) == 0 {
		return time.Time{}, nil
	}
	if err := s.charge(ctx, x); err != nil {
		return time.Time{}, s.undecided(ctx, x, err)
	}
	x.verdict = caudal.Judge(calls, x.decisions)
	if x.verdict.Delay > 0 {
		now := time.Now()
		longest := s.longest(ctx, now)
		if x.verdict.Delay > longest {
			s.tooLate(ctx, x, longest)
		}
		if d := x.verdict.Delay; d > 0 {
			leave = now.Add(d)
		}
	}
	s.count(x)
	if x.verdict.Unavailable {
		return time.Time{}, status.Error(codes.Unavailable, "a limit of this request says to deny while its store is gone")
	}
	return leave, nil
}

// summary is what a tracer is told. A request that is answered with an error was not
// decided about, or is denied since the store is gone.
func (s *Service) summary(x *exchange, err error) httplimit.Summary {
	if err != nil {
		return httplimit.Summary{Domain: x.domain, Outcome: "unavailable", Degraded: x.verdict.Degraded}
	}
	sum := httplimit.Summarize(x.match.Calls, x.decisions, &x.verdict)
	sum.Domain = x.domain
	return sum
}

// charge gives back what is negative and charges the rest, and tells how long that
// took.
func (s *Service) charge(ctx context.Context, x *exchange) error {
	if s.opts.Took != nil {
		start := time.Now()
		defer func() { s.opts.Took(time.Since(start)) }()
	}
	if err := s.credit(ctx, x); err != nil {
		return err
	}
	return s.store.Take(ctx, caudal.Instant{}, x.match.Calls, x.decisions)
}

// credit gives back the hits that are negative.
func (s *Service) credit(ctx context.Context, x *exchange) error {
	for _, p := range x.parts {
		if !p.negative || p.hits == 0 {
			continue
		}
		for i := p.first; i < p.last; i++ {
			c := &x.match.Calls[i]
			x.refunds = append(x.refunds, caudal.Refund{Limit: c.Limit, Key: string(c.Key), N: p.hits})
		}
	}
	if len(x.refunds) == 0 {
		return nil
	}
	err := s.refund(ctx, x.refunds)
	x.refunds = x.refunds[:0]
	return err
}

func (s *Service) refund(ctx context.Context, refunds []caudal.Refund) error {
	if s.refunder == nil {
		return fmt.Errorf("%w: refund", caudal.ErrUnsupported)
	}
	return s.refunder.Refund(ctx, caudal.Instant{}, refunds)
}

// undecided is the answer when no decision was made. A caller that has gone, or
// whose time is up, is told that: nobody failed.
func (s *Service) undecided(ctx context.Context, x *exchange, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	s.report(x.domain, err)
	for i := range x.match.Calls {
		if c := &x.match.Calls[i]; c.Cost > 0 && c.Mode == caudal.Enforce {
			s.decided(x, i, httplimit.ErrorDenied)
		}
	}
	if errors.Is(err, caudal.ErrUnsupported) {
		return status.Error(codes.Unimplemented, err.Error())
	}
	return status.Error(codes.Unavailable, "no decision was made: the store of the limits failed")
}

// longest is how long an answer may be held.
func (s *Service) longest(ctx context.Context, now time.Time) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline.Sub(now) - margin
	}
	return s.opts.MaxHold
}

// tooLate denies calls whose turn comes after their caller's deadline. By default
// the whole request is denied then and charged nothing; where each descriptor is
// charged by itself, those in a queue that is short enough stay charged.
func (s *Service) tooLate(ctx context.Context, x *exchange, longest time.Duration) {
	calls := x.match.Calls
	quota := caudal.QuotaEnforced(calls, x.decisions)
	for i := range x.decisions {
		d := &x.decisions[i]
		late := d.Delay > longest && caudal.Enforced(calls[i].Mode, quota)
		if !late && calls[i].Alone {
			continue
		}
		if d.Charged {
			x.refunds = append(x.refunds, caudal.Refund{Receipt: d.Receipt, N: d.Receipt.Cost})
			d.Remaining = min(d.Limit, d.Remaining+uint64(d.Receipt.Cost))
			d.Charged = false
		}
		if late {
			d.Allowed, d.RetryAfter = false, d.Delay
		}
		d.Delay = 0
	}
	s.takeBack(ctx, x)
	x.verdict = caudal.Judge(calls, x.decisions)
}

// hold waits for the turn of a call. When the caller goes first, all that was
// charged is given back, the turn as for a call that never left.
func (s *Service) hold(ctx context.Context, x *exchange, leave time.Time) error {
	t := time.NewTimer(time.Until(leave))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	}
	for i := range x.decisions {
		if d := &x.decisions[i]; d.Charged {
			x.refunds = append(x.refunds, caudal.Refund{Receipt: d.Receipt, N: d.Receipt.Cost})
		}
	}
	s.takeBack(ctx, x)
	return status.FromContextError(ctx.Err()).Err()
}

// takeBack refunds x.refunds, also after the caller has gone.
func (s *Service) takeBack(ctx context.Context, x *exchange) {
	if len(x.refunds) == 0 {
		return
	}
	if err := s.refund(context.WithoutCancel(ctx), x.refunds); err != nil {
		s.report(x.domain, err)
	}
}
