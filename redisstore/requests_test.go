package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/redisstore"
)

// mixedLimits draws limits of all algorithms, small ones more often than not.
func mixedLimits(t *rapid.T) []*caudal.Compiled {
	limits := make([]*caudal.Compiled, rapid.IntRange(1, 4).Draw(t, "limits"))
	for i := range limits {
		a := caudal.Algorithm(rapid.IntRange(1, 5).Draw(t, "algorithm"))
		l := anyLimit(t, a)
		if rapid.IntRange(0, 2).Draw(t, "small") > 0 {
			l = caudal.Limit{Algorithm: a, Requests: rapid.Uint32Range(1, 9).Draw(t, "few"), Unit: caudal.Unit(rapid.IntRange(1, 5).Draw(t, "unit"))}
			switch a {
			case caudal.TokenBucket:
				l.Burst = rapid.Uint32Range(0, 9).Draw(t, "small burst")
			case caudal.LeakyBucket:
				l.Queue = rapid.Uint32Range(0, 9).Draw(t, "small queue")
			}
		}
		c, err := l.Compile("", fmt.Sprint("scope", i))
		if err != nil {
			t.Fatal(err)
		}
		limits[i] = c
	}
	return limits
}

// mixedCalls draws a request: any of the limits, two keys, so that some of its
// calls share a counter.
func mixedCalls(t *rapid.T, limits []*caudal.Compiled, prefix string) []caudal.Call {
	calls := make([]caudal.Call, rapid.IntRange(1, 5).Draw(t, "calls"))
	alone := rapid.IntRange(0, 3).Draw(t, "alone") == 0
	for i := range calls {
		l := rapid.SampledFrom(limits).Draw(t, "limit")
		calls[i] = caudal.Call{
			Limit: l, Key: []byte(prefix + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")), Cost: anyCost(t, l), Alone: alone,
			Mode:        rapid.SampledFrom([]caudal.Mode{caudal.Enforce, caudal.Enforce, caudal.Shadow, caudal.Quota}).Draw(t, "mode"),
			CountDenied: alone && rapid.IntRange(0, 3).Draw(t, "count denied") == 0,
		}
		if rapid.IntRange(0, 7).Draw(t, "late") == 0 {
			calls[i].MinDelay = time.Duration(rapid.Int64Range(1, 20_000_000).Draw(t, "least delay")) * time.Microsecond
		}
	}
	return calls
}

// mixedTrace plays random requests and refunds on a store in memory and on Redis.
// Time goes on only: one that steps back by years finds what memory has long
// forgotten still in Redis, which no real time passed for.
func mixedTrace(t *rapid.T, s *redisstore.Store, m *memstore.Store) {
	ctx := context.Background()
	limits, prefix := mixedLimits(t), strconv.FormatInt(traceKey.Add(1), 10)
	now := int64(1_773_144_000_000_000)
	type pair struct{ memory, redis caudal.Receipt }
	var receipts []pair
	for range rapid.IntRange(1, 30).Draw(t, "events") {
		now = min(now+max(0, step(t, rapid.SampledFrom(limits).Draw(t, "step of"))), lastInstant)
		instant := caudal.Instant{Mono: now, Wall: now}
		if len(receipts) > 0 && rapid.IntRange(0, 4).Draw(t, "refund") == 0 {
			i := rapid.IntRange(0, len(receipts)-1).Draw(t, "receipt")
			p := receipts[i]
			receipts = append(receipts[:i], receipts[i+1:]...)
			n, left := rapid.Uint32Range(0, p.memory.Cost).Draw(t, "n"), rapid.Bool().Draw(t, "left")
			err := errors.Join(m.Refund(ctx, instant, []caudal.Refund{{Receipt: p.memory, N: n, Left: left}}),
				s.Refund(ctx, instant, []caudal.Refund{{Receipt: p.redis, N: n, Left: left}}))
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		calls := mixedCalls(t, limits, prefix)
		memory, redis := make([]caudal.Decision, len(calls)), make([]caudal.Decision, len(calls))
		if err := errors.Join(m.Take(ctx, instant, calls, memory), s.Take(ctx, instant, calls, redis)); err != nil {
			t.Fatal(err)
		}
		for i, c := range calls {
			if memory[i].Limit > 1<<32-1 || beyond(now, memory[i]) {
				return // a sum of costs that memory does not tell apart from never
			}
			if err := same(redis[i], memory[i]); err != nil {
				t.Fatalf("at %d, call %d of %d: %s key %s cost %d mode %v alone %v least delay %s:\n%v", now, i, len(calls), c.Limit.Limit(), c.Key, c.Cost, c.Mode, c.Alone, c.MinDelay, err)
			}
			if memory[i].Charged {
				receipts = append(receipts, pair{memory[i].Receipt, redis[i].Receipt})
			}
		}
	}
}

// Memory and Redis give the same decisions on requests of several limits: shared
// counters, all modes, refunds.
func TestDifferentialOfRequests(t *testing.T) {
	_, s := single(t, redisstore.Options{CallerTime: true})
	m := memstore.New(memstore.Options{})
	rapid.Check(t, func(t *rapid.T) { mixedTrace(t, s, m) })
}

// After a server's clock was set back 40 days, an old client's day lies ahead of a new
// one's. A request of both is decided, each counter on its own time.
func TestC04CalendarsOfOneRequestFarApart(t *testing.T) {
	_, s := single(t, redisstore.Options{CallerTime: true})
	day := compile(t, caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 2, Unit: caudal.Day, Timezone: "Europe/Madrid"})
	month := compile(t, caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 5, Unit: caudal.Month})
	later, now := at(40*86400), at(0)
	for _, l := range []*caudal.Compiled{day, month} {
		take(t, s, later, l, "old", 1)
		take(t, s, now, l, "third", 1)
	}
	calls := []caudal.Call{
		{Limit: day, Key: []byte("new"), Cost: 1}, {Limit: day, Key: []byte("old"), Cost: 1},
		{Limit: month, Key: []byte("third"), Cost: 1}, {Limit: month, Key: []byte("old"), Cost: 1}, {Limit: month, Key: []byte("new"), Cost: 1},
	}
	out := make([]caudal.Decision, len(calls))
	if err := s.Take(context.Background(), now, calls, out); err != nil {
		t.Fatalf("Take(calendars 40 days apart) = %v, want a decision", err)
	}
	for i, want := range []uint64{1, 0, 3, 3, 4} {
		if !out[i].Charged || out[i].Remaining != want {
			t.Errorf("call %d = %+v, want it charged and %d remaining", i, out[i], want)
		}
	}
}

// A bucket that was emptied under a fast limit lives as long as a slower one needs,
// once a call was denied under that.
func TestC49SlowerLimitOutlivesTheFastOne(t *testing.T) {
	server, s := single(t, redisstore.Options{})
	slow := compile(t, caudal.PerHour(60).WithBurst(600))
	fast := compile(t, caudal.PerHour(36000).WithBurst(600))
	take(t, s, caudal.Instant{}, fast, "k", 600)
	for _, calls := range [][]caudal.Call{
		{{Limit: slow, Key: []byte("k"), Cost: 600}},
		{{Limit: slow, Key: []byte("k"), Cost: 600}, {Limit: slow, Key: []byte("other"), Cost: 1}},
	} {
		if err := s.Take(context.Background(), caudal.Instant{}, calls, make([]caudal.Decision, len(calls))); err != nil {
			t.Fatal(err)
		}
		key := server.Do("KEYS", "*")
		if ttl := server.Do("PTTL", key); len(ttl) != len("36000000") {
			t.Errorf("after %d limits denied, PTTL = %s ms, want nearly the 10 hours of the slower limit", len(calls), ttl)
		}
		take(t, s, caudal.Instant{}, fast, "k", 0)
		server.Do("PEXPIRE", key, "60000")
	}
}
