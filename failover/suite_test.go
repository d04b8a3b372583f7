package failover

import (
	"context"
	"errors"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

// patient is a deadline that no store in memory misses, also under -race on a
// busy machine.
const patient = minute

func TestHealthyStoreKeepsTheContract(t *testing.T) {
	for name, inline := range map[string]bool{"isolated": false, "inline": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, clock caudal.Clock) caudal.Store {
				s := New(memstore.New(memstore.Options{Clock: clock}), Options{Clock: clock, Deadline: patient, Inline: inline})
				t.Cleanup(func() { mustClose(t, s) })
				return s
			}, storetest.Options{Rounds: 3, Traces: 2})
		})
	}
}

// TestGoneStoreWithOneInstanceKeepsTheContract: with one instance and a factor of
// 1 the local counts are the limits themselves.
func TestGoneStoreWithOneInstanceKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock caudal.Clock) caudal.Store {
		s := New(refusing{}, Options{Clock: clock})
		t.Cleanup(func() { mustClose(t, s) })
		return &exact{Store: s, limits: map[*caudal.Compiled]*caudal.Compiled{}, t: t}
	}, storetest.Options{Rounds: 3, Traces: 2})
}

// exact gives every limit a local factor of 1 on its way in, and on its way out takes
// off the marks that every decision must bear.
type exact struct {
	*Store
	t *testing.T

	mu     spin
	limits map[*caudal.Compiled]*caudal.Compiled
}

func (e *exact) limit(l *caudal.Compiled) *caudal.Compiled {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.limits[l]
	if c == nil {
		var err error
		if c, err = l.Limit().Compile(l.Name(), l.Scope(), caudal.OnStoreError(caudal.FailLocal, 1)); err != nil {
			e.t.Fatal(err)
		}
		e.limits[l] = c
	}
	return c
}

func (e *exact) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	mine := make([]caudal.Call, len(calls))
	for i, c := range calls {
		c.Limit = e.limit(c.Limit)
		mine[i] = c
	}
	err := e.Store.Take(ctx, at, mine, out)
	for i := range out {
		e.unmark(err, calls[i].Limit, &out[i])
	}
	return err
}

func (e *exact) TakeKey(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string, cost uint32) (caudal.Decision, error) {
	d, err := e.Store.TakeKey(ctx, at, e.limit(l), key, cost)
	e.unmark(err, l, &d)
	return d, err
}

func (e *exact) unmark(err error, l *caudal.Compiled, d *caudal.Decision) {
	if err == nil && !d.Degraded {
		e.t.Errorf("a decision without the store is not marked degraded: %+v", *d)
	}
	d.Degraded = false
	if !d.Charged {
		return
	}
	if r := d.Receipt.Limit; r == nil || r.StandsInFor() != e.limit(l) {
		e.t.Errorf("the receipt of a local count is not of a limit that stands in for %s", l.Limit())
	}
	d.Receipt.Limit = l
}

func (e *exact) Refund(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) error {
	mine := append([]caudal.Refund(nil), refunds...)
	for i := range mine {
		if mine[i].Limit != nil {
			mine[i].Limit = e.limit(mine[i].Limit)
		}
		if r := &mine[i].Receipt; r.Limit != nil {
			r.Limit = e.limit(r.Limit).Local(1)
		}
	}
	return e.Store.Refund(ctx, at, mine)
}

// Reset fails, since the shared count is not reset; the local one is.
func (e *exact) Reset(ctx context.Context, l *caudal.Compiled, key string) error {
	if err := e.Store.Reset(ctx, e.limit(l), key); !errors.Is(err, caudal.ErrStore) {
		e.t.Errorf("Reset without the store = %v, want an error that wraps ErrStore", err)
	}
	return nil
}

func (e *exact) Forecast(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string) (caudal.Forecast, error) {
	return e.Store.Forecast(ctx, at, e.limit(l), key)
}
