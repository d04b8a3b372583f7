package redisstore

import (
	"context"
	"sync"

	"github.com/caudal-dev/caudal"
)

// takeAlone decides calls that each stand for themselves: at once, so that they
// share script calls, but one after the other where two have one counter. When one
// fails there is no decision, and others may have been charged.
func (s *Store) takeAlone(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	r := requests.Get().(*request)
	defer requests.Put(r)
	r.fill(calls)
	if r.shared {
		for i := range calls {
			if err := s.take(ctx, at, &calls[i], r.counters[i], &out[i]); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i := range calls[1:] {
		wg.Go(func() { errs[i+1] = s.takeThis(ctx, at, &calls[i+1], r.counters[i+1], &out[i+1]) })
	}
	errs[0] = s.takeThis(ctx, at, &calls[0], r.counters[0], &out[0])
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// takeThis decides one call of several that stand for themselves.
func (s *Store) takeThis(ctx context.Context, at caudal.Instant, c *caudal.Call, id counter, d *caudal.Decision) error {
	if !s.leasable(at, c) {
		return s.take(ctx, at, c, id, d)
	}
	h := hashOf(c.Limit, c.Key)
	if s.spend(h, c.Limit, c.Cost, d) {
		return nil
	}
	return s.takeLease(ctx, at, c, h, id, d)
}

// appendCall packs a call: its limit and cost; for a fixed window whether it counts
// also when it is denied, and for a leaky bucket the least delay and whom it waits
// for, where there are such.
func (s *Store) appendCall(b []byte, c *caudal.Call, cost uint64, wall int64) []byte {
	b = s.appendParams(b, c.Limit, cost, wall)
	switch a := c.Limit.Algorithm(); {
	case c.CountDenied && a == caudal.FixedWindow:
		b = append(b, 1)
	case a == caudal.LeakyBucket:
		if c.MinDelay > 0 {
			b = appendUint(b, 7, min(uint64(c.MinDelay.Microseconds()), longLength))
		}
		if len(c.Fair) > 0 {
			b = appendOwner(b, c)
		}
	}
	return b
}
