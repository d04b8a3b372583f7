package failover

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/caudal-dev/caudal"
)

// The operations on permits, as metrics name them.
const (
	opAcquire = "acquire"
	opRenew   = "renew"
	opRelease = "release"
)

var _ caudal.PermitStore = (*Store)(nil)

// Acquire takes permits, in the shared store or as the limits say without it; see
// caudal.PermitStore. A limit that counts here then gives max(1, floor(max /
// instances)) permits, beside those that the shared store gave before: those are
// held there until they are released or their lease ends.
func (s *Store) Acquire(ctx context.Context, at caudal.Instant, calls []caudal.PermitCall, out []caudal.Grant) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.permits == nil {
		return fmt.Errorf("%w: concurrency limits", caudal.ErrUnsupported)
	}
	grants, err := s.acquireShared(ctx, at, calls)
	if err == nil {
		copy(out, grants)
		return nil
	}
	if answers(err) || ctx.Err() != nil {
		return err
	}
	return s.acquireLocal(ctx, s.now(at), calls, out)
}

// acquireShared asks the shared store, with copies that it may keep for longer than
// the caller waits. What it gives after that goes back.
func (s *Store) acquireShared(ctx context.Context, at caudal.Instant, calls []caudal.PermitCall) ([]caudal.Grant, error) {
	if s.open.Load() {
		return nil, errOpen
	}
	own := make([]caudal.PermitCall, len(calls))
	for i, c := range calls {
		c.Key = bytes.Clone(c.Key)
		own[i] = c
	}
	grants := make([]caudal.Grant, len(calls))
	err := s.askRarely(ctx, opAcquire, func(ctx context.Context) error {
		if err := s.permits.Acquire(ctx, at, own, grants); err != nil {
			return err
		}
		if ctx.Err() == nil {
			return nil
		}
		var late []caudal.Permit
		for i := range grants {
			if grants[i].Acquired {
				late = append(late, grants[i].Permit)
			}
		}
		_ = s.permits.Release(context.WithoutCancel(ctx), at, late, nil) // else they end with their lease
		return ctx.Err()
	})
	return grants, err
}

// acquireLocal decides without the shared store.
func (s *Store) acquireLocal(ctx context.Context, at caudal.Instant, calls []caudal.PermitCall, out []caudal.Grant) error {
	instances := s.Instances()
	var here []caudal.PermitCall
	var index []int
	for i, c := range calls {
		most := c.Limit.Max()
		switch c.Limit.OnStoreError() {
		case caudal.FailOpen:
			out[i] = caudal.Grant{Allowed: most > 0 || c.Peek, Degraded: true, Max: most}
			s.answered[passed].Add(1)
		case caudal.FailClosed:
			out[i] = caudal.Grant{Degraded: true, Unavailable: true, Max: most}
			s.answered[refused].Add(1)
		default:
			c.Limit = c.Limit.Local(instances)
			here, index = append(here, c), append(index, i)
			out[i] = caudal.Grant{Allowed: true}
			s.answered[countedHere].Add(1)
		}
	}
	if len(here) == 0 {
		return nil
	}
	if !caudal.Granted(calls, out) {
		for i := range here {
			here[i].Peek = true // what others deny takes nothing here
		}
	}
	grants := make([]caudal.Grant, len(here))
	if err := s.local.Acquire(ctx, at, here, grants); err != nil {
		return err
	}
	for k, i := range index {
		out[i] = grants[k]
		out[i].Degraded = true
	}
	return nil
}

// Renew lets permits last another lease where they were taken; see
// caudal.PermitStore. When the shared store is slow or gone its permits are not
// renewed, and the error says so.
func (s *Store) Renew(ctx context.Context, at caudal.Instant, permits []caudal.Permit, held []bool) error {
	return s.onPermits(ctx, at, opRenew, permits, held)
}

// Release gives permits back where they were taken; see caudal.PermitStore. When
// the shared store is slow or gone its permits stay until their lease ends, and the
// error says so.
func (s *Store) Release(ctx context.Context, at caudal.Instant, permits []caudal.Permit, held []bool) error {
	return s.onPermits(ctx, at, opRelease, permits, held)
}

func (s *Store) onPermits(ctx context.Context, at caudal.Instant, op string, permits []caudal.Permit, held []bool) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	clear(held)
	var parts [2][]caudal.Permit // there, here
	var index [2][]int
	for i, p := range permits {
		if p.Limit == nil {
			continue
		}
		n := 0
		if p.Limit.StandsInFor() != nil {
			n = 1
		}
		parts[n], index[n] = append(parts[n], p), append(index[n], i)
	}
	var errs error
	for n, part := range parts {
		if len(part) == 0 {
			continue
		}
		was := make([]bool, len(part))
		err := s.permitsIn(ctx, at, op, n == 1, part, was)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		for k, i := range index[n] {
			if held != nil {
				held[i] = was[k]
			}
		}
	}
	return errs
}

// permitsIn runs an operation here or in the shared store.
func (s *Store) permitsIn(ctx context.Context, at caudal.Instant, op string, here bool, permits []caudal.Permit, held []bool) error {
	act := func(ctx context.Context, store caudal.PermitStore, at caudal.Instant) error {
		if op == opRenew {
			return store.Renew(ctx, at, permits, held)
		}
		return store.Release(ctx, at, permits, held)
	}
	switch {
	case here:
		return act(ctx, s.local, s.now(at))
	case s.permits == nil:
		return fmt.Errorf("%w: concurrency limits", caudal.ErrUnsupported)
	}
	err := s.askRarely(ctx, op, func(ctx context.Context) error { return act(ctx, s.permits, at) })
	if err != nil && !answers(err) && ctx.Err() == nil {
		return fmt.Errorf("failover: %d permits: %s: %w", len(permits), op, err)
	}
	return err
}
