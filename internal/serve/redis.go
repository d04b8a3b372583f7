package serve

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/failover"
	"github.com/caudal-dev/caudal/internal/metrics"
	"github.com/caudal-dev/caudal/redisstore"
)

const (
	// openTimeout is how long the start waits for Redis. One that is not there yet
	// does not stop the start: calls are then decided without it.
	openTimeout = 2 * time.Second
	// rememberedDenials is how many denied counters are answered without Redis
	// until they could pass: some 10 MB.
	rememberedDenials = 100_000
	// checkEvery is how often the servers are asked how they keep their data.
	checkEvery = 30 * time.Second
)

// openRedis opens a store in Redis, with what decides when Redis is slow or gone
// in front of it.
func openRedis(url string, o storeOptions) (*openedStore, error) {
	calls := metrics.NewStoreCalls()
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	redis, err := redisstore.Open(ctx, url, redisstore.Options{Prefix: o.prefix, Late: true, Denials: rememberedDenials, Clock: o.clock, Logger: o.log})
	if err != nil {
		hint := "write it as redis://user:password@host:6379/0, rediss://, redis-sentinel://host,host/master or redis-cluster://host,host"
		if redisstore.KindOf(err) == redisstore.KindAuth {
			hint = "the server refuses this user and password: write those that it knows, as in redis://user:password@host:6379 or redis://:password@host:6379"
		}
		return nil, &Error{What: "store: " + strings.TrimPrefix(err.Error(), "redisstore: "), Hint: hint}
	}
	alert, err := newAlert(&o)
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	shared := failover.New(redis, failover.Options{
		// A store on one server surely returns when its context ends: few calls are on
		// their way to Redis at a time, and the others wait in line. On a Cluster each
		// caller sends its own, and a stalled connection could hold one.
		Inline:   !strings.Contains(redisKind(url), "cluster"),
		Deadline: o.timeout, ExpectedInstances: o.instances, LocalKeys: o.maxKeys, Clock: o.clock,
		OnCall: calls.Observe,
		OnChange: func(st failover.State) {
			logStoreChange(&o, st)
			if alert != nil {
				alert.Send(st)
			}
		},
	})
	calls.Degraded = shared.Degraded
	r := &redisHealth{redis: redis, o: &o}
	stop := every(checkEvery, r.check)
	return &openedStore{
		Store: shared, kind: redisKind(url), calls: calls, state: shared.State, notes: redis,
		stats: func() metrics.StoreStats {
			return metrics.StoreStats{Keys: shared.Stats().LocalKeys, Evicted: r.evicted.Load()}
		},
		enforced: func(limits map[string]caudal.Limit) {
			redis.ForgetDenials(func(c *caudal.Compiled) bool {
				now, known := limits[c.Scope()]
				return !known || now != c.Limit()
			})
			r.limits.Store(&limits)
			go r.check() // bounded by its own timeout
		},
		close: func() error {
			stop()
			err := errors.Join(shared.Close(), redis.Close())
			if alert != nil {
				err = errors.Join(err, alert.Close())
			}
			return err
		},
	}, nil
}

// redisKind names the store without what its URL may hold.
func redisKind(url string) string {
	for i := range url {
		if url[i] == ':' {
			return url[:i]
		}
	}
	return "redis"
}

func newAlert(o *storeOptions) (*failover.Alert, error) {
	if o.alertURL == "" {
		return nil, nil
	}
	host, _ := os.Hostname() // an alert without a name is still one
	alert, err := failover.NewAlert(o.alertURL, failover.AlertOptions{Instance: host, Logger: o.log})
	if err != nil {
		return nil, &Error{What: "alert_url: " + err.Error(), Hint: "give the address of a webhook, such as https://hooks.example/caudal"}
	}
	return alert, nil
}

// logStoreChange writes one line per change.
func logStoreChange(o *storeOptions, st failover.State) {
	if st.Degraded {
		o.log.Error("the store is slow or gone: limits do what their on_store_error says", "kind", st.Kind,
			"error", st.Err, "instances", st.Instances)
		return
	}
	o.log.Info("the store is back: limits are exact again", "instances", st.Instances)
}

// redisHealth asks the servers how they keep their data: it warns, once each, of
// what may forget a quota, and counts the keys they dropped.
type redisHealth struct {
	redis   *redisstore.Store
	o       *storeOptions
	limits  atomic.Pointer[map[string]caudal.Limit]
	evicted atomic.Int64
	warned  atomic.Pointer[map[string]bool]
}

func (r *redisHealth) check() {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	health, err := r.redis.Check(ctx)
	if err != nil {
		r.o.log.Debug("redis did not say how it keeps its data", "error", err)
		return
	}
	r.evicted.Store(health.Evicted())
	limits := r.limits.Load()
	if limits == nil {
		return
	}
	var all []caudal.Limit
	for _, l := range *limits {
		all = append(all, l)
	}
	seen := map[string]bool{}
	before := r.warned.Load()
	for _, w := range health.Warnings(all...) {
		seen[w] = true
		if before == nil || !(*before)[w] {
			r.o.log.Warn("store warning", "what", w)
		}
	}
	r.warned.Store(&seen)
}
