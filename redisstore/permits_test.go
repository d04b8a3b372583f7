package redisstore_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

func concurrency(t testing.TB, most uint32, lease time.Duration) *caudal.CompiledConcurrency {
	t.Helper()
	l, err := caudal.Concurrency{Max: most, Lease: lease}.Compile("limit", "test", caudal.FailLocal)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func acquire(t testing.TB, s *redisstore.Store, at caudal.Instant, l *caudal.CompiledConcurrency, key string) caudal.Grant {
	t.Helper()
	var out [1]caudal.Grant
	if err := s.Acquire(context.Background(), at, []caudal.PermitCall{{Limit: l, Key: []byte(key)}}, out[:]); err != nil {
		t.Fatalf("Acquire(%s, %q) = %v", l.Concurrency(), key, err)
	}
	return out[0]
}

func release(t testing.TB, s *redisstore.Store, at caudal.Instant, p caudal.Permit) bool {
	t.Helper()
	var held [1]bool
	if err := s.Release(context.Background(), at, []caudal.Permit{p}, held[:]); err != nil {
		t.Fatalf("Release = %v", err)
	}
	return held[0]
}

// Two instances share max, each releases its own, and what an instance that was
// killed held comes free with its lease.
func TestPermitsOfTwoInstances(t *testing.T) {
	r, a := single(t, redisstore.Options{CallerTime: true})
	b := open(t, r.URL(), redisstore.Options{CallerTime: true})
	l := concurrency(t, 3, 30*time.Second)
	first := acquire(t, a, at(0), l, "k")
	acquire(t, a, at(1), l, "k")
	if g := acquire(t, b, at(2), l, "k"); !g.Acquired || g.InUse != 3 {
		t.Errorf("the third permit is %+v, want it with 3 in use", g)
	}
	if g := acquire(t, b, at(3), l, "k"); g.Acquired || g.InUse != 3 {
		t.Errorf("the fourth permit is %+v, want none", g)
	}
	if !release(t, b, at(4), first.Permit) {
		t.Error("the other instance could not release a permit, want held")
	}
	if release(t, a, at(4), first.Permit) {
		t.Error("a permit was released twice")
	}
	_ = a.Close() // its second permit is released by nobody
	if g := acquire(t, b, at(30), l, "k"); !g.Acquired || g.InUse != 3 {
		t.Errorf("before the lease ends: %+v, want 3 in use", g)
	}
	if g := acquire(t, b, at(30.5), l, "k"); g.Acquired {
		t.Errorf("before the lease ends: %+v, want none", g)
	}
	if g := acquire(t, b, at(31), l, "k"); !g.Acquired {
		t.Errorf("when the lease has ended: %+v, want a permit", g)
	}
}

// By the server's time, keys are hashes that go with their leases, and a server that
// lost the scripts gets them again.
func TestPermitsOnAServersTime(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := concurrency(t, 50, time.Hour)
	g := acquire(t, s, caudal.Instant{}, l, "secret")
	all := keys(r)
	if len(all) != 1 || strings.Contains(all[0], "secret") || !strings.HasPrefix(all[0], redisstore.DefaultPrefix+"{") {
		t.Fatalf("the keys are %q, want one hash behind the prefix", all)
	}
	if ttl := r.Do("TTL", all[0]); ttl < "3500" || ttl > "3601" || len(ttl) != 4 {
		t.Errorf("TTL = %s, want the lease, 3600", ttl)
	}
	r.Do("PERSIST", all[0]) // C25
	acquire(t, s, caudal.Instant{}, l, "secret")
	if ttl := r.Do("TTL", all[0]); ttl == "-1" {
		t.Error("a key whose time to live was taken away has none still")
	}
	var wg sync.WaitGroup
	for range 20 {
		r.Do("SCRIPT", "FLUSH")
		wg.Go(func() {
			p := acquire(t, s, caudal.Instant{}, l, "secret").Permit
			held := []bool{false}
			if err := s.Renew(context.Background(), caudal.Instant{}, []caudal.Permit{p}, held); err != nil || !held[0] {
				t.Errorf("Renew = %v, %v, want held", held, err)
			}
			if !release(t, s, caudal.Instant{}, p) {
				t.Error("Release says not held")
			}
		})
	}
	wg.Wait()
	if in := acquire(t, s, caudal.Instant{}, l, "secret").InUse; in != 3 {
		t.Errorf("%d are in use, want 3", in)
	}
	release(t, s, caudal.Instant{}, g.Permit)
}

// Each verb is one round trip, also for many limits and many permits.
func TestPermitsInOneRoundTrip(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := concurrency(t, 5000, time.Minute)
	var asked []caudal.PermitCall
	for _, k := range []string{"a", "b", "c", "d"} {
		asked = append(asked, caudal.PermitCall{Limit: l, Key: []byte(k)})
	}
	out := make([]caudal.Grant, len(asked))
	var held []caudal.Permit
	take := func() {
		if err := s.Acquire(context.Background(), caudal.Instant{}, asked, out); err != nil {
			t.Fatal(err)
		}
		for _, g := range out {
			held = append(held, g.Permit)
		}
	}
	take() // sends the script's text
	before := calls(r, "evalsha")
	for range 600 {
		take()
	}
	if n := calls(r, "evalsha") - before; n != 600 {
		t.Errorf("600 requests of 4 limits took %d script calls, want 600", n)
	}
	was := make([]bool, len(held))
	if err := s.Renew(context.Background(), caudal.Instant{}, held, was); err != nil {
		t.Fatal(err)
	}
	before = calls(r, "evalsha")
	if err := s.Renew(context.Background(), caudal.Instant{}, held, was); err != nil {
		t.Fatal(err)
	}
	if n := calls(r, "evalsha") - before; n != 4 {
		t.Errorf("renewing %d permits of 4 counters took %d script calls, want 4 in one pipeline", len(held), n)
	}
	if err := s.Release(context.Background(), caudal.Instant{}, held, was); err != nil {
		t.Fatal(err)
	}
	for i, ok := range was {
		if !ok {
			t.Fatalf("permit %d of %d was not held", i, len(was))
		}
	}
	if found := keys(r); len(found) != 0 {
		t.Errorf("after the last release the keys are %q, want none", found)
	}
}

// A user who may not call TIME is served by the instance's clock (C28), and one with
// the rights that the package comment names can do everything.
func TestPermitsAndRights(t *testing.T) {
	r := redistest.Start(t)
	r.Do("ACL", "SETUSER", "app", "on", ">secret", "~caudal:*", "&caudal:*", "+evalsha", "+eval", "+script|load", "+ping",
		"+pexpire", "+pttl", "+zadd", "+zcard", "+zscore", "+zrem", "+zremrangebyscore", "+get", "+set", "+del", "+exists", "+info")
	s := open(t, strings.Replace(r.URL(), "redis://", "redis://app:secret@", 1), redisstore.Options{Logger: slog.New(slog.DiscardHandler)})
	l := concurrency(t, 1, time.Minute)
	g := acquire(t, s, caudal.Instant{}, l, "k")
	if again := acquire(t, s, caudal.Instant{}, l, "k"); !g.Acquired || again.Acquired {
		t.Errorf("two calls got %+v and %+v, want the first alone", g, again)
	}
	if !release(t, s, caudal.Instant{}, g.Permit) {
		t.Error("the permit was not held")
	}
}

// A caller that gives up does not know what it was given, and nothing stays taken.
func TestPermitsOfACallThatGaveUp(t *testing.T) {
	r, s := single(t, redisstore.Options{})
	l := concurrency(t, 1, time.Hour)
	release(t, s, caudal.Instant{}, acquire(t, s, caudal.Instant{}, l, "k").Permit)
	r.Do("CLIENT", "PAUSE", "300", "ALL")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var out [1]caudal.Grant
	if err := s.Acquire(ctx, caudal.Instant{}, []caudal.PermitCall{{Limit: l, Key: []byte("k")}}, out[:]); err == nil {
		t.Fatalf("Acquire on a paused server = %+v, want an error", out[0])
	}
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if err := s.Acquire(context.Background(), caudal.Instant{}, []caudal.PermitCall{{Limit: l, Key: []byte("k")}}, out[:]); err == nil && out[0].Acquired {
			return
		}
	}
	t.Errorf("the permit that nobody knows of is held still: %+v", out[0])
}
