package failover

import (
	"context"

	"github.com/caudal-dev/caudal"
)

// policed gives limits that were compiled without a policy one: a factor of 1.
type policed struct {
	*Store
	policy caudal.Failure
}

func (p policed) limit(l *caudal.Compiled) *caudal.Compiled {
	c, err := l.Limit().Compile(l.Name(), l.Scope(), caudal.OnStoreError(p.policy, 1))
	if err != nil {
		panic(err)
	}
	return c
}

func (p policed) TakeKey(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string, cost uint32) (caudal.Decision, error) {
	return p.Store.TakeKey(ctx, at, p.limit(l), key, cost)
}

func (p policed) Forecast(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string) (caudal.Forecast, error) {
	return p.Store.Forecast(ctx, at, p.limit(l), key)
}
