package faults_test

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/failover"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/redisstore"
)

const (
	// deadline is ten times the default, so that a busy machine that runs tests
	// beside one another is no outage.
	deadline = 50 * time.Millisecond
	// patience is how long anything may take that should happen at once.
	patience = 60 * time.Second
	// localLimit is what the limit with policy local may let pass here: twice the
	// limit, as the only instance.
	realLimit, localLimit = 1000, 2000
)

// soak lengthens the tests: make soak.
var soak = os.Getenv("CAUDAL_SOAK") != ""

// rig is a store in Redis with its fallback, and one limit for each policy.
type rig struct {
	t                  *testing.T
	deadline           time.Duration
	server             *redistest.Server
	wire               *wire
	store              *failover.Store
	local, allow, deny *caudal.Compiled
}

func newRig(t *testing.T, config ...string) *rig { return newRigWithin(t, deadline, config...) }

func newRigWithin(t *testing.T, deadline time.Duration, config ...string) *rig {
	t.Helper()
	server := redistest.Start(t, config...)
	r := &rig{t: t, deadline: deadline, server: server, wire: newWire(t, server.Addr)}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	redis, err := redisstore.Open(ctx, r.wire.url(), redisstore.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	r.store = failover.New(redis, failover.Options{Deadline: deadline, ExpectedInstances: 1, Inline: true})
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
		_ = redis.Close()
	})
	limit := caudal.Per(realLimit, caudal.Year).With(caudal.FixedWindow)
	compile := func(scope string, f caudal.Failure) *caudal.Compiled {
		c, err := limit.Compile(scope, scope, caudal.OnStoreError(f, 2))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	r.local = compile("local", caudal.FailLocal)
	r.allow = compile("allow", caudal.FailOpen)
	r.deny = compile("deny", caudal.FailClosed)
	return r
}

// take asks once, and checks what must hold at any time: there is an answer, in
// time, and it is what the policy says.
func (r *rig) take(l *caudal.Compiled, cost uint32) caudal.Decision {
	begun := time.Now()
	d, err := r.store.TakeKey(context.Background(), caudal.Instant{}, l, "key", cost)
	if err != nil {
		r.t.Errorf("%s: a call ended in an error: %v", l.Name(), err)
	}
	if took := time.Since(begun); took > 10*r.deadline {
		r.t.Errorf("%s: a call took %s", l.Name(), took)
	}
	switch {
	case !d.Degraded && d.Unavailable:
		r.t.Errorf("%s: unavailable although the store answered", l.Name())
	case d.Degraded && d.Unavailable != (l == r.deny):
		r.t.Errorf("%s: unavailable = %t without the store", l.Name(), d.Unavailable)
	case d.Degraded && l == r.allow && !d.Allowed:
		r.t.Errorf("%s: denied without the store", l.Name())
	}
	return d
}

// load calls with all limits from several goroutines until it is stopped. It
// gives how many calls of the limit with policy local were allowed here.
func (r *rig) load() (stop func() int64) {
	var wg sync.WaitGroup
	var done atomic.Bool
	var here atomic.Int64
	for range 8 {
		wg.Go(func() {
			for !done.Load() {
				for _, l := range []*caudal.Compiled{r.local, r.allow, r.deny} {
					if d := r.take(l, 1); l == r.local && d.Degraded && d.Allowed {
						here.Add(1)
					}
				}
				time.Sleep(time.Millisecond) // a bounded rate: the machine does more than this test
			}
		})
	}
	stop = func() int64 { done.Store(true); wg.Wait(); return here.Load() }
	r.t.Cleanup(func() { stop() }) // before the store is closed, also when the test fails
	return stop
}

func (r *rig) await(what string, ok func() bool) time.Duration {
	r.t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > patience {
			r.t.Fatalf("%s did not happen within %s", what, patience)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

// C79, C80 and more: whatever happens to Redis, each limit does what its policy
// says, calls are answered in time, goroutines stay bounded, and when the fault is
// over decisions are Redis's again.
func TestFaults(t *testing.T) {
	for _, f := range []struct {
		name   string
		config []string
		begin  func(r *rig)
		end    func(r *rig)
	}{
		{"Paused", nil, func(r *rig) { r.server.Pause() }, func(r *rig) { r.server.Resume() }},
		{"KilledAndRestarted", nil, func(r *rig) { r.server.Kill() }, func(r *rig) { r.server.Restart() }},
		{"ClientPause", nil, func(r *rig) { r.server.Do("CLIENT", "PAUSE", "60000", "ALL") },
			func(r *rig) { r.server.Do("CLIENT", "UNPAUSE") }},
		{"DemotedToReplica", nil, func(r *rig) { r.server.Do("REPLICAOF", "127.0.0.1", "1") },
			func(r *rig) { r.server.Do("REPLICAOF", "NO", "ONE") }},
		{"OutOfMemory", []string{"maxmemory-policy noeviction"}, func(r *rig) { r.server.Do("CONFIG", "SET", "maxmemory", "1") },
			func(r *rig) { r.server.Do("CONFIG", "SET", "maxmemory", "0") }},
		{"PasswordChanged", nil, func(r *rig) {
			r.server.Do("CONFIG", "SET", "requirepass", "new")
			r.server.Password = "new"
			r.server.Do("CLIENT", "KILL", "TYPE", "normal")
		}, func(r *rig) {
			r.server.Do("CONFIG", "SET", "requirepass", "")
			r.server.Password = ""
		}},
		{"ConnectionReset", nil, func(r *rig) { r.wire.breakIt(`{"name":"x","type":"reset_peer","attributes":{"timeout":0}}`) },
			func(r *rig) { r.wire.mend() }},
		{"NeverAnswers", nil, func(r *rig) {
			r.wire.breakIt(`{"name":"x","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`)
		},
			func(r *rig) { r.wire.mend() }},
		{"LostReplies", nil, func(r *rig) {
			r.wire.breakIt(`{"name":"x","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
		}, func(r *rig) { r.wire.mend() }},
		{"AddedLatency", nil, func(r *rig) {
			r.wire.breakIt(`{"name":"x","type":"latency","attributes":{"latency":500}}`)
		}, func(r *rig) { r.wire.mend() }},
	} {
		t.Run(f.name, func(t *testing.T) {
			r := newRig(t, f.config...)
			r.await("a decision by Redis", func() bool { return !r.take(r.local, 0).Degraded })
			before := runtime.NumGoroutine()
			stop := r.load()
			f.begin(r)
			opened := r.await("the breaker's opening", r.store.Degraded)
			lasts := 300 * time.Millisecond
			if soak {
				lasts = 5 * time.Second
			}
			time.Sleep(lasts) // how long the fault goes on
			if n := runtime.NumGoroutine() - before; n > failover.DefaultMaxInFlight+100 {
				t.Errorf("%d goroutines more than before the fault", n)
			}
			f.end(r)
			mended := r.await("recovery", func() bool {
				return !r.store.Degraded() && !r.take(r.local, 0).Degraded && !r.take(r.deny, 0).Degraded
			})
			if here := stop(); here == 0 || here > localLimit {
				t.Errorf("the local count let %d calls pass, want some, at most %d", here, localLimit)
			}
			t.Logf("opened after %s, recovered after %s", opened.Round(time.Millisecond), mended.Round(time.Millisecond))
		})
	}
}

// SCRIPT FLUSH under load is no fault at all.
func TestScriptFlushUnderLoad(t *testing.T) {
	r := newRigWithin(t, 5*time.Second) // no failure is due to a busy machine
	stop := r.load()
	for range 20 {
		r.server.Do("SCRIPT", "FLUSH")
	}
	if here := stop(); here > 0 {
		t.Errorf("%d calls were counted locally, want none", here)
	}
	for kind, n := range r.store.Stats().Errors {
		t.Errorf("%d failures of kind %s", n, kind)
	}
}

// A server killed at any moment that writes each charge down first never lets more
// than the limit pass, with the policy to deny without it; one that keeps nothing
// lets at most one limit more pass per restart.
func TestKillAndRestart(t *testing.T) {
	for _, c := range []struct {
		name     string
		config   []string
		restarts int
		most     int64
	}{
		{"AppendFsyncAlways", []string{"appendonly yes", "appendfsync always"}, 3, realLimit},
		{"NoPersistence", nil, 2, 3 * realLimit},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.config...)
			var allowed atomic.Int64
			var done atomic.Bool
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for !done.Load() {
						if r.take(r.deny, 1).Allowed {
							allowed.Add(1)
						}
						time.Sleep(time.Millisecond) // without the store calls are answered at once
					}
				})
			}
			stop := func() { done.Store(true); wg.Wait() }
			t.Cleanup(stop)
			for range c.restarts {
				target := allowed.Load() + 50
				r.await("calls that pass, or the limit", func() bool { return allowed.Load() >= min(target, realLimit) })
				r.server.Kill()
				r.await("the breaker's opening", r.store.Degraded)
				r.server.Restart()
				r.await("recovery", func() bool { return !r.take(r.deny, 0).Degraded })
			}
			r.await("the limit", func() bool { d := r.take(r.deny, 1); return !d.Allowed && !d.Degraded })
			stop()
			if n := allowed.Load(); n > c.most {
				t.Errorf("%d calls passed, want at most %d", n, c.most)
			}
		})
	}
}
