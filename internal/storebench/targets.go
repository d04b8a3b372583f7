package storebench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// Store is a store that decides by one limit.
func Store(name string, s caudal.KeyStore, limit *caudal.Compiled) Target {
	return Target{Name: name, Ask: func(ctx context.Context, key string) (bool, error) {
		d, err := s.TakeKey(ctx, caudal.Instant{}, limit, key, 1)
		return d.Allowed, err
	}}
}

// MemoryFloor reads a clock: the least that a decision in memory can cost.
func MemoryFloor() Target {
	base := time.Now()
	return Target{Name: "floor: time.Since", Ask: func(context.Context, string) (bool, error) {
		return time.Since(base) >= 0, nil
	}}
}

// floorScript is what any limiter on Redis must at least do.
const floorScript = `local v = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return v`

// floorLife is how long the floor's keys live, in milliseconds.
const floorLife = "10000"

// RedisFloor runs a script of one GET and one SET on a single server, through a
// client that puts waiting calls in one pipeline. Its keys begin with prefix. Close
// it when done.
func RedisFloor(url, prefix string) (t Target, closeIt func(), err error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return t, nil, fmt.Errorf("the floor's connection: %w", err)
	}
	o.ForceSingleClient, o.DisableCache, o.DisableRetry = true, true, true
	o.PipelineMultiplex, o.AlwaysPipelining = -1, true
	client, err := rueidis.NewClient(o)
	if err != nil {
		return t, nil, fmt.Errorf("the floor's connection: %w", err)
	}
	script := rueidis.NewLuaScript(floorScript)
	args := []string{"8 bytes.", floorLife}
	var calls atomic.Int64
	return Target{
		Name:  "floor: GET and SET",
		Calls: calls.Load,
		Ask: func(ctx context.Context, key string) (bool, error) {
			calls.Add(1)
			err := script.Exec(ctx, client, []string{prefix + key}, args).Error()
			if rueidis.IsRedisNil(err) {
				err = nil // the key is new
			}
			return err == nil, err
		},
	}, client.Close, nil
}
