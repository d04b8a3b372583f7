package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caudal-dev/caudal"
)

// Refund takes charges back where they were made; see caudal.Refunder. Receipts
// of local counts are refunded here. Those of the shared store go there, and are
// dropped with an error that wraps caudal.ErrStore when it is slow or gone: the
// charge stays. A refund without a receipt goes to whoever decides now.
func (s *Store) Refund(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var here, there []caudal.Refund
	for _, r := range refunds {
		l := r.Receipt.Limit
		local := l != nil && l.StandsInFor() != nil
		if local && uint64(r.Receipt.Cost) == l.Capacity() && uint64(r.N) <= l.StandsInFor().Capacity() {
			// A cost above the local limit was charged as that; its caller cannot know.
			r.N = min(r.N, r.Receipt.Cost)
		}
		if err := check(&r); err != nil {
			return err
		}
		if local {
			here = append(here, r)
		} else {
			there = append(there, r)
		}
	}
	credits, err := s.refundShared(ctx, at, there)
	here = append(here, credits...)
	if len(here) == 0 {
		return err
	}
	return errors.Join(err, s.local.Refund(ctx, s.now(at), here))
}

func check(r *caudal.Refund) error {
	switch {
	case r.Receipt.Limit == nil && r.Limit == nil:
		return fmt.Errorf("%w: neither a receipt nor a limit and a key", caudal.ErrInvalidRefund)
	case r.Receipt.Limit != nil && r.N > r.Receipt.Cost:
		return fmt.Errorf("%w: %d is more than the %d that was charged", caudal.ErrInvalidRefund, r.N, r.Receipt.Cost)
	}
	return nil
}

// refundShared asks the shared store. When it fails it gives the refunds without
// a receipt, for the local counts.
func (s *Store) refundShared(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) (credits []caudal.Refund, err error) {
	if len(refunds) == 0 {
		return nil, nil
	}
	if s.refunder == nil {
		return nil, fmt.Errorf("%w: refund", caudal.ErrUnsupported)
	}
	err = s.askRarely(ctx, opRefund, func(ctx context.Context) error {
		return s.refunder.Refund(ctx, at, refunds)
	})
	if err == nil || answers(err) || ctx.Err() != nil {
		return nil, err
	}
	dropped := 0
	instances := s.Instances()
	for _, r := range refunds {
		switch {
		case r.Receipt.Limit != nil:
			dropped++
		case r.Limit.OnStoreError() == caudal.FailLocal:
			r.Limit = r.Limit.Local(instances)
			credits = append(credits, r)
		}
	}
	if dropped == 0 {
		return credits, nil
	}
	return credits, fmt.Errorf("failover: %d refunds were dropped, their charges stay: %w", dropped, err)
}

// askRarely runs an operation that need not be cheap on the shared store.
func (s *Store) askRarely(ctx context.Context, op string, f func(context.Context) error) error {
	if s.open.Load() {
		return errOpen
	}
	j := s.newJob(caudal.Instant{})
	j.rare = f
	mine, err := s.ask(ctx, op, j)
	if mine {
		j.free()
	}
	return err
}

// Reset makes a counter fresh, the shared one and the local one; see
// caudal.Resetter. When the shared store is slow or gone the local count is reset
// all the same, and the error says that the shared one was not.
func (s *Store) Reset(ctx context.Context, limit *caudal.Compiled, key string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.resetter == nil {
		return fmt.Errorf("%w: reset", caudal.ErrUnsupported)
	}
	err := s.askRarely(ctx, opReset, func(ctx context.Context) error {
		return s.resetter.Reset(ctx, limit, key)
	})
	if err != nil && !answers(err) && ctx.Err() == nil {
		err = fmt.Errorf("failover: only the local count was reset: %w", err)
	}
	return errors.Join(err, s.local.Reset(context.WithoutCancel(ctx), limit.Local(s.Instances()), key))
}

// Forecast runs a counter ahead of time, the one that decides now; see
// caudal.Forecaster. Where nobody can tell, it foresees no wait: a waiter then
// finds out by asking.
func (s *Store) Forecast(ctx context.Context, at caudal.Instant, limit *caudal.Compiled, key string) (caudal.Forecast, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if !s.open.Load() {
		if s.forecaster == nil {
			return unforeseen{}, nil
		}
		foreseen := make(chan caudal.Forecast, 1)
		err := s.askRarely(ctx, opForecast, func(ctx context.Context) error {
			f, err := s.forecaster.Forecast(ctx, at, limit, key)
			foreseen <- f
			return err
		})
		switch {
		case err == nil:
			return <-foreseen, nil
		case ctx.Err() != nil:
			return nil, err
		case answers(err):
			return unforeseen{}, nil
		}
	}
	if limit.OnStoreError() != caudal.FailLocal {
		return unforeseen{}, nil
	}
	local := limit.Local(s.Instances())
	f, err := s.local.Forecast(ctx, s.now(at), local, key)
	return clamped{f, local.Capacity(), limit.Capacity()}, err
}

// clamped is the forecast of a local count, which charges a cost above its limit,
// but not above the real one, as its limit.
type clamped struct {
	caudal.Forecast
	local, real uint64
}

func (f clamped) cost(n uint32) uint32 {
	if uint64(n) > f.real {
		return n
	}
	return uint32(min(uint64(n), f.local))
}

func (f clamped) Peek(n uint32) (time.Duration, bool) { return f.Forecast.Peek(f.cost(n)) }
func (f clamped) Take(n uint32) (time.Duration, bool) { return f.Forecast.Take(f.cost(n)) }

// unforeseen is the forecast of a counter that cannot be run ahead of time.
type unforeseen struct{}

func (unforeseen) Peek(uint32) (time.Duration, bool) { return 0, true }
func (unforeseen) Take(uint32) (time.Duration, bool) { return 0, true }
