package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/caudal-dev/caudal/redisstore"
)

// onRedis lists the limiters that share their counts through Redis at url, and two
// floors: the cheapest script through either client.
func onRedis(url string) []rival {
	return []rival{
		{"caudal", "", func(q quota) (allow, error) { return openCaudalRedis(url, q) }},
		{"one GET and SET in a script, go-redis", "the floor of this client: decides nothing", func(quota) (allow, error) { return openScript(url) }},
		{"redis_rate", "", func(q quota) (allow, error) { return openRedisRate(url, q) }},
		{"throttled", "two or three round trips; gives up when a key is hot", func(q quota) (allow, error) { return openThrottledRedis(url, q) }},
		{"ulule/limiter", "fixed windows, so twice the limit can pass", func(q quota) (allow, error) { return openUluleRedis(url, q) }},
	}
}

// openCaudalRedis remembers denials, as caudal serve does.
func openCaudalRedis(url string, q quota) (allow, error) {
	store, err := redisstore.Open(context.Background(), url, redisstore.Options{Denials: 100_000, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return caudalOn(store, q)
}

func client(url string) (*redis.Client, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("the address of Redis: %w", err)
	}
	o.PoolSize = 128
	return redis.NewClient(o), nil
}

// floorScript reads a key and writes it: what any limiter on Redis must do.
var floorScript = redis.NewScript(`redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1], 'PX', 1000) return 1`)

func openScript(url string) (allow, error) {
	c, err := client(url)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := floorScript.Load(ctx, c).Err(); err != nil {
		return nil, err
	}
	return func(key string) bool {
		return floorScript.EvalSha(ctx, c, []string{key}, "12345678").Err() == nil
	}, nil
}

func openRedisRate(url string, q quota) (allow, error) {
	c, err := client(url)
	if err != nil {
		return nil, err
	}
	l, ctx, limit := redis_rate.NewLimiter(c), context.Background(), redis_rate.Limit{Rate: int(q.calls), Burst: int(q.calls), Period: q.per}
	return func(key string) bool {
		r, err := l.Allow(ctx, key, limit)
		return err == nil && r.Allowed > 0
	}, nil
}

func openThrottledRedis(url string, q quota) (allow, error) {
	c, err := client(url)
	if err != nil {
		return nil, err
	}
	store, err := throttledredis.NewCtx(c, "throttled:")
	if err != nil {
		return nil, err
	}
	return throttledOn(store, q)
}

func openUluleRedis(url string, q quota) (allow, error) {
	c, err := client(url)
	if err != nil {
		return nil, err
	}
	store, err := ululeredis.NewStore(c)
	if err != nil {
		return nil, err
	}
	l, ctx := ulule.New(store, ulule.Rate{Period: q.per, Limit: int64(q.calls)}), context.Background()
	return func(key string) bool {
		r, err := l.Get(ctx, key)
		return err == nil && !r.Reached
	}, nil
}
