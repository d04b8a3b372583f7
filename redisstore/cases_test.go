package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

// everyAlgorithm gives one limit of n of each algorithm, whose refill is too slow
// to matter.
func everyAlgorithm(n uint32) []caudal.Limit {
	hour := caudal.PerHour(n)
	return []caudal.Limit{
		hour,
		{Algorithm: caudal.LeakyBucket, Requests: n, Unit: caudal.Hour, Queue: n - 1},
		caudal.Per(n, caudal.Year).With(caudal.FixedWindow),
		hour.With(caudal.SlidingLog),
		caudal.Per(n, caudal.Year).With(caudal.SlidingWindow),
	}
}

// keys gives the keys of the counters on a server.
func keys(r *redistest.Server) []string {
	text := r.Do("KEYS", "*")
	if text == "" {
		return nil
	}
	list := strings.Split(text, "\n")
	slices.Sort(list)
	return list
}

// A key that lost its time to live gets one at the next call that touches it, a
// denied one too. A first call of a cost above 1 sets one.
func TestC25HealsMissingExpiry(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	for _, limit := range everyAlgorithm(10) {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			r.Do("FLUSHALL")
			l := compile(t, limit)
			take(t, s, caudal.Instant{}, l, "k", 7)
			key := keys(r)[0]
			if ttl := r.Do("PTTL", key); ttl == "-1" {
				t.Errorf("PTTL after a first call of cost 7 = %s, want a time", ttl)
			}
			take(t, s, caudal.Instant{}, l, "k", 3)
			for name, call := range map[string]func() error{
				"denied": func() error { _, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1); return err },
				"peek":   func() error { _, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 0); return err },
				"credit": func() error {
					return s.Refund(context.Background(), caudal.Instant{}, []caudal.Refund{{Limit: l, Key: "k", N: 1}})
				},
			} {
				r.Do("PERSIST", key)
				if err := call(); err != nil {
					t.Fatal(err)
				}
				if ttl := r.Do("PTTL", key); strings.HasPrefix(ttl, "-") {
					t.Errorf("PTTL after PERSIST and a %s call = %s, want a time", name, ttl)
				}
			}
		})
	}
}

// SCRIPT FLUSH under load: no errors, and all calls are counted once.
func TestC26NoScript(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := compile(t, caudal.PerHour(1000))
	for range 5 {
		take(t, s, caudal.Instant{}, l, "k", 1)
	}
	var wg sync.WaitGroup
	for range 40 {
		r.Do("SCRIPT", "FLUSH")
		for range 5 {
			wg.Go(func() {
				if _, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1); err != nil {
					t.Errorf("TakeKey after SCRIPT FLUSH = %v", err)
				}
			})
		}
	}
	wg.Wait()
	if d := take(t, s, caudal.Instant{}, l, "k", 0); d.Remaining < 795 || d.Remaining > 796 {
		t.Errorf("remaining after 205 calls = %d, want 795 (or one flowed back)", d.Remaining)
	}
}

// Nothing of a key's text reaches Redis, odd keys never share a counter, and all
// keys of a counter have one hash tag.
func TestC27KeysAreHashes(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := compile(t, caudal.PerHour(10))
	odd := []string{"", "a", "{a", "a}b{c", "{", "}", "{}", "\x00", strings.Repeat("k", 10_000), "caudal:{a}"}
	for i, k := range odd {
		d := take(t, s, caudal.Instant{}, l, k, 3)
		if !d.Allowed || d.Remaining != 7 {
			t.Errorf("TakeKey(%.20q) = %+v, want the first call of a fresh key", k, d)
		}
		if i == 0 {
			if err := s.Refund(context.Background(), caudal.Instant{}, []caudal.Refund{{Receipt: d.Receipt, N: 1}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	found := keys(r)
	if len(found) != len(odd)+1 { // one remembers the receipt
		t.Errorf("%d keys in Redis, want %d", len(found), len(odd)+1)
	}
	for _, k := range found {
		rest, ok := strings.CutPrefix(k, redisstore.DefaultPrefix+"{")
		tag, _, closed := strings.Cut(rest, "}")
		if !ok || !closed || len(tag) != 32 || strings.Trim(tag, "0123456789abcdef") != "" {
			t.Errorf("key %q, want the prefix and 32 hexadecimal digits in braces", k)
		}
	}
}

// A user who may not call TIME: noticed at start, logged, and limits still hold by
// the instance's clock.
func TestC28TimeRefused(t *testing.T) {
	r := redistest.Start(t)
	r.Do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-time")
	var log bytes.Buffer
	s := open(t, strings.Replace(r.URL(), "redis://", "redis://app:secret@", 1),
		redisstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "does not tell scripts the time") {
		t.Errorf("the log says %q, want a line about the time", log.String())
	}
	for _, limit := range everyAlgorithm(3) {
		l := compile(t, limit)
		for i := range 4 {
			if d := take(t, s, caudal.Instant{}, l, "k", 1); d.Allowed != (i < 3) {
				t.Errorf("%s: call %d allowed = %v, want %v", limit, i+1, d.Allowed, i < 3)
			}
		}
	}
	l := compile(t, caudal.PerHour(3))
	calls := []caudal.Call{{Limit: l, Key: []byte("a"), Cost: 1}, {Limit: l, Key: []byte("b"), Cost: 1}}
	if err := s.Take(context.Background(), caudal.Instant{}, calls, make([]caudal.Decision, 2)); err != nil {
		t.Errorf("Take of two limits = %v", err)
	}
}

// A bucket left alone past its time to live is fresh, without an error.
func TestC31IdlePastExpiry(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := compile(t, caudal.Limit{Algorithm: caudal.TokenBucket, Requests: 20, Unit: caudal.Second, Burst: 2})
	take(t, s, caudal.Instant{}, l, "k", 2)
	r.Await("0", "DBSIZE")
	if d := take(t, s, caudal.Instant{}, l, "k", 2); !d.Allowed || d.Remaining != 0 {
		t.Errorf("TakeKey after the key expired = %+v, want allowed with 0 remaining", d)
	}
}

// Hits do not lengthen a window, and a key lives at most two windows and the slack
// for callers' clocks.
func TestC32ExpiryIsTheWindows(t *testing.T) {
	r, s := single(t, redisstore.Options{CallerTime: true})
	l := compile(t, caudal.PerMinute(5).With(caudal.FixedWindow))
	for _, sec := range []float64{0, 20, 40, 59} {
		if d := take(t, s, at(sec), l, "k", 1); d.ResetAfter != time.Duration((60-sec)*float64(time.Second)) {
			t.Errorf("reset at %v s = %s, want the window's end at 60 s", sec, d.ResetAfter)
		}
	}
	if d := take(t, s, at(60), l, "k", 5); !d.Allowed {
		t.Errorf("a new window at 60 s = %+v, want all allowed", d)
	}
	for _, limit := range everyAlgorithm(5) {
		limit.Unit = caudal.Minute
		take(t, s, at(100), compile(t, limit), "ttl", 1)
	}
	for _, k := range keys(r) {
		ttl, err := strconv.Atoi(r.Do("PTTL", k))
		if err != nil || ttl < 1 || ttl > (2*60+60)*1000+2 {
			t.Errorf("PTTL %s = %d ms, want at most two minutes and one of slack", k, ttl)
		}
	}
}

// A leaky bucket of 3 a second that is asked every 100 ms for 10 s lets at most 33
// pass.
func TestC32LeakyBucketNeverRefills(t *testing.T) {
	_, s := single(t, redisstore.Options{CallerTime: true})
	l := compile(t, caudal.PerSecond(3).WithQueue(3, 0))
	passed := 0
	for i := range 100 {
		if d := take(t, s, at(float64(i)/10), l, "k", 1); d.Allowed && float64(i)/10+d.Delay.Seconds() < 10 {
			passed++
		}
	}
	if passed > 33 {
		t.Errorf("%d left in 10 s, want at most 33", passed)
	}
}

// Two rules on one request, each with its own counter: the narrow one denies the
// 11th call, not the 6th. Rules that look alike do not share.
func TestC35RulesDoNotShare(t *testing.T) {
	_, s := single(t, redisstore.Options{})
	a, err := caudal.PerHour(1000).Compile("any", "rule any")
	if err != nil {
		t.Fatal(err)
	}
	b, err := caudal.PerHour(10).Compile("call", "rule call")
	if err != nil {
		t.Fatal(err)
	}
	calls := []caudal.Call{{Limit: a, Key: []byte("client"), Cost: 1}, {Limit: b, Key: []byte("client"), Cost: 1}}
	out := make([]caudal.Decision, 2)
	for i := range 11 {
		if err := s.Take(context.Background(), caudal.Instant{}, calls, out); err != nil {
			t.Fatal(err)
		}
		if got, want := caudal.Judge(calls, out).Allowed, i < 10; got != want {
			t.Errorf("call %d allowed = %v, want %v", i+1, got, want)
		}
	}
	if out[0].Remaining != 990 {
		t.Errorf("the broad rule has %d remaining after a denial, want 990", out[0].Remaining)
	}
}

// Instances that load the same limits in any order use the same keys, byte for
// byte.
func TestC36SameKeysEverywhere(t *testing.T) {
	r := redistest.Start(t)
	limits := everyAlgorithm(10)
	var first []string
	for range 3 {
		r.Do("FLUSHALL")
		s := open(t, r.URL(), redisstore.Options{})
		for _, limit := range limits {
			take(t, s, caudal.Instant{}, compile(t, limit), "user:42", 1)
		}
		if first == nil {
			first = keys(r)
		}
		if got := keys(r); !slices.Equal(got, first) {
			t.Errorf("keys = %v, want %v", got, first)
		}
		slices.Reverse(limits)
	}
	if len(first) != len(limits) {
		t.Errorf("%d keys for %d algorithms", len(first), len(limits))
	}
}

// Two instances, 200 callers released at once: exactly the limit pass.
func TestC37ExactlyTheLimit(t *testing.T) {
	r := redistest.Start(t)
	exactly(t, r.URL(), 25, 20, 200)
}

func TestC37ExactlyTheLimitCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	exactly(t, c.URL(), 25, 5, 200)
}

// exactly lets callers loose on keys of two stores and counts.
func exactly(t *testing.T, url string, limit uint32, rounds, callers int) {
	t.Helper()
	stores := []*redisstore.Store{open(t, url, redisstore.Options{}), open(t, url, redisstore.Options{})}
	for _, promise := range everyAlgorithm(limit) {
		l := compile(t, promise)
		for round := range rounds {
			var passed atomic.Int64
			var wg sync.WaitGroup
			start := make(chan struct{})
			key := fmt.Sprintf("round %d", round)
			for i := range callers {
				wg.Go(func() {
					<-start
					d, err := stores[i%2].TakeKey(context.Background(), caudal.Instant{}, l, key, 1)
					if err != nil {
						t.Errorf("TakeKey = %v", err)
					}
					if d.Allowed {
						passed.Add(1)
					}
				})
			}
			close(start)
			wg.Wait()
			if n := passed.Load(); n != int64(limit) {
				t.Errorf("%s: %d of %d callers passed, want %d", promise, n, callers, limit)
			}
		}
	}
}

// A million a second: the key outlives the call (C21), and calls a microsecond
// apart are told apart (C18).
func TestC21ShortState(t *testing.T) {
	r, s := single(t, redisstore.Options{CallerTime: true})
	l := compile(t, caudal.PerSecond(1_000_000).WithBurst(1))
	first := take(t, s, at(0), l, "k", 1)
	second := take(t, s, at(0), l, "k", 1)
	third := take(t, s, at(0.000001), l, "k", 1)
	if !first.Allowed || second.Allowed || second.RetryAfter != time.Microsecond || !third.Allowed {
		t.Errorf("three calls = %+v, %+v, %+v, want allowed, denied for 1us, allowed", first, second, third)
	}
	if ttl, _ := strconv.Atoi(r.Do("PTTL", keys(r)[0])); ttl < 1 {
		t.Errorf("PTTL = %d, want at least 1", ttl)
	}
	real := open(t, r.URL(), redisstore.Options{Prefix: "real:"})
	slow := compile(t, caudal.Limit{Algorithm: caudal.LeakyBucket, Requests: 6, Unit: caudal.Minute})
	take(t, real, caudal.Instant{}, slow, "k", 1)
	if d := take(t, real, caudal.Instant{}, slow, "k", 1); d.Allowed || d.RetryAfter > 10*time.Second || d.RetryAfter < 9*time.Second {
		t.Errorf("a second call at 0.1/s = %+v, want denied for just under 10 s", d)
	}
}
