package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/didip/tollbooth/v7/limiter"
	"github.com/go-chi/httprate"
	"github.com/juju/ratelimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// allow decides one call of a key.
type allow func(key string) bool

// quota is what a limiter is to allow each key.
type quota struct {
	calls uint32
	per   time.Duration // a second or an hour
	keys  int           // about how many there will be
}

func (q quota) perSecond() float64 { return float64(q.calls) / q.per.Seconds() }

// rival is a limiter to measure.
type rival struct {
	name string
	// lacks says what the figures do not show: what the limiter does not do that
	// others pay for.
	lacks string
	open  func(quota) (allow, error)
}

// inMemory lists the limiters, ours first, then the floor.
var inMemory = []rival{
	{"caudal", "", openCaudal},
	{"mutex and map", "the floor: 16-byte states behind one lock, nothing ever forgotten, no wait told", openFloor},
	{"x/time/rate, keyed", "no keys of its own: a map and a lock as its users write it; nothing ever forgotten", openXTime},
	{"juju/ratelimit, keyed", "no keys of its own: a map and a lock around it; nothing ever forgotten", openJuju},
	{"throttled", "the time is the wall clock's", openThrottled},
	{"go-limiter", "fixed intervals from the first call, so twice the limit can pass", openGoLimiter},
	{"ulule/limiter", "fixed windows, so twice the limit can pass", openUlule},
	{"httprate", "a sliding counter, kept for two windows; asked as its middleware asks, with headers", openHTTPRate},
	{"tollbooth", "tells no wait", openTollbooth},
}

func openCaudal(q quota) (allow, error) {
	return caudalOn(memstore.New(memstore.Options{MaxKeys: 2 * q.keys}), q)
}

func caudalOn(store caudal.Store, q quota) (allow, error) {
	l, err := caudal.New(store, limitOf(q))
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		d, err := l.Allow(ctx, key)
		return err == nil && d.Allowed
	}, nil
}

func limitOf(q quota) caudal.Limit {
	if q.per == time.Hour {
		return caudal.PerHour(q.calls)
	}
	return caudal.PerSecond(q.calls)
}

// openFloor is the bucket that people write themselves.
func openFloor(q quota) (allow, error) {
	type state struct {
		tokens float64
		at     int64
	}
	var mu sync.Mutex
	m := make(map[string]state, q.keys)
	base, burst, perNano := time.Now(), float64(q.calls), q.perSecond()/1e9
	return func(key string) bool {
		now := int64(time.Since(base))
		mu.Lock()
		defer mu.Unlock()
		s, ok := m[key]
		if !ok {
			s = state{burst, now}
		}
		s.tokens, s.at = min(burst, s.tokens+float64(now-s.at)*perNano), now
		if ok = s.tokens >= 1; ok {
			s.tokens--
		}
		m[key] = s
		return ok
	}, nil
}

// byKey keeps one limiter for each key behind one lock.
func byKey[L any](keys int, fresh func() L) func(key string) L {
	var mu sync.Mutex
	m := make(map[string]L, keys)
	return func(key string) L {
		mu.Lock()
		defer mu.Unlock()
		l, ok := m[key]
		if !ok {
			l = fresh()
			m[key] = l
		}
		return l
	}
}

func openXTime(q quota) (allow, error) {
	of := byKey(q.keys, func() *rate.Limiter { return rate.NewLimiter(rate.Limit(q.perSecond()), int(q.calls)) })
	return func(key string) bool { return of(key).Allow() }, nil
}

func openJuju(q quota) (allow, error) {
	of := byKey(q.keys, func() *ratelimit.Bucket {
		return ratelimit.NewBucketWithRate(q.perSecond(), int64(q.calls))
	})
	return func(key string) bool { return of(key).TakeAvailable(1) == 1 }, nil
}

func openThrottled(q quota) (allow, error) {
	store, err := throttledmem.NewCtx(2 * q.keys)
	if err != nil {
		return nil, err
	}
	return throttledOn(store, q)
}

func throttledOn(store throttled.GCRAStoreCtx, q quota) (allow, error) {
	l, err := throttled.NewGCRARateLimiterCtx(store, throttledQuota(q))
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}, nil
}

func throttledQuota(q quota) throttled.RateQuota {
	return throttled.RateQuota{MaxRate: throttled.PerDuration(int(q.calls), q.per), MaxBurst: int(q.calls) - 1}
}

func openGoLimiter(q quota) (allow, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.calls), Interval: q.per, InitialAlloc: q.keys})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, err := store.Take(ctx, key)
		return err == nil && ok
	}, nil
}

func openUlule(q quota) (allow, error) {
	l := ulule.New(memory.NewStore(), ulule.Rate{Period: q.per, Limit: int64(q.calls)})
	ctx := context.Background()
	return func(key string) bool {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached
	}, nil
}

func openHTTPRate(q quota) (allow, error) {
	l := httprate.NewRateLimiter(int(q.calls), q.per)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	writers := sync.Pool{New: func() any { return headersOnly(http.Header{}) }}
	return func(key string) bool {
		w := writers.Get().(headersOnly)
		defer writers.Put(w)
		return !l.OnLimit(w, r, key)
	}, nil
}

// headersOnly is a response that nobody reads.
type headersOnly http.Header

func (h headersOnly) Header() http.Header         { return http.Header(h) }
func (h headersOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h headersOnly) WriteHeader(int)             {}

func openTollbooth(q quota) (allow, error) {
	l := tollbooth.NewLimiter(q.perSecond(), &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour})
	l.SetBurst(int(q.calls))
	return func(key string) bool { return tollbooth.LimitByKeys(l, []string{key}) == nil }, nil
}
