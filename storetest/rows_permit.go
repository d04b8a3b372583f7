package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caudal-dev/caudal"
)

// permitRows are about calls under way: caudal.PermitStore.
var permitRows = []row{
	{
		name: "Permit/MaxAtOnce", permits: true,
		rule: "as many permits as the limit says are held at once, and one that is released can be taken again",
		run: func(s *script) {
			l := s.concurrency(2, time.Minute)
			a := s.acquire(s.start, l, "k")
			b := s.acquire(s.start, l, "k")
			s.grant(a, true, 1)
			s.grant(b, true, 2)
			s.grant(s.acquire(s.start, l, "k"), false, 2)
			s.grant(s.acquire(s.start, l, "other key"), true, 1)
			s.grant(s.peek(s.start, l, "k"), true, 2)
			s.release(s.start, true, a.Permit)
			s.grant(s.acquire(s.start, l, "k"), true, 2)
			if a.Max != 2 || a.Permit.ID == b.Permit.ID {
				s.wrong("max %d and the ids %d and %d, want 2 and two ids", a.Max, a.Permit.ID, b.Permit.ID)
			}
		},
	},
	{
		name: "Permit/ZeroDeniesAll", permits: true,
		rule: "a limit of 0 gives no permit",
		run:  func(s *script) { s.grant(s.acquire(s.start, s.concurrency(0, 0), "k"), false, 0) },
	},
	{
		name: "Permit/C41ReleasedOnce", permits: true,
		rule: "a permit is released once: after that nothing is given back, and fewer than none are never held",
		run: func(s *script) {
			l := s.concurrency(2, time.Minute)
			a := s.acquire(s.start, l, "k").Permit
			s.release(s.start, true, a)
			for range 3 {
				s.release(s.start, false, a)
			}
			s.release(s.start, false, caudal.Permit{})
			s.grant(s.peek(s.start, l, "k"), true, 0)
			b := s.acquire(s.start, l, "k").Permit
			s.release(s.start, false, a) // b may stand where a stood
			s.acquire(s.start, l, "k")
			s.grant(s.acquire(s.start, l, "k"), false, 2)
			s.release(s.start, true, b)
		},
	},
	{
		name: "Permit/ReleasedTogether", permits: true,
		rule: "permits of several counters are released in one call, which tells for each whether it was held; of two copies one is",
		run: func(s *script) {
			l := s.concurrency(5, time.Minute)
			a, b, c := s.acquire(s.start, l, "k").Permit, s.acquire(s.start, l, "k").Permit, s.acquire(s.start, l, "other").Permit
			s.release(s.start, true, b)
			held := make([]bool, 4)
			if err := s.permits.Release(s.ctx, s.start, []caudal.Permit{a, b, c, a}, held); err != nil {
				s.Fatalf("Release = error %v", err)
			}
			if !slices.Equal(held, []bool{true, false, true, false}) {
				s.wrong("Release says %v, want true, false, true, false", held)
			}
			if err := s.permits.Release(s.ctx, s.start, nil, nil); err != nil {
				s.wrong("Release of nothing = %v, want no error", err)
			}
			s.grant(s.peek(s.start, l, "k"), true, 0)
		},
	},
	{
		name: "Permit/ExpiresWithItsLease", permits: true,
		rule: "a permit that nobody renews counts for its lease, and not a microsecond longer; then it can be neither renewed nor released",
		run: func(s *script) {
			l := s.concurrency(1, 30*time.Second)
			a := s.acquire(s.start, l, "k").Permit
			s.grant(s.acquire(s.at("29.999999s"), l, "k"), false, 1)
			end := s.at("30s")
			s.renew(end, false, a)
			s.grant(s.peek(end, l, "k"), true, 0)
			s.release(end, false, a)
			b := s.acquire(end, l, "k")
			s.grant(b, true, 1)
			s.renew(end, false, a)
			s.release(end, false, a)
			s.grant(s.acquire(end, l, "k"), false, 1)
			s.release(end, true, b.Permit)
		},
	},
	{
		name: "Permit/C32RenewedWhileHeld", permits: true,
		rule: "concurrency 2 and two calls of 90 s that are renewed: a third at 65 s is denied, and passes when one ends",
		run: func(s *script) {
			l := s.concurrency(2, 60*time.Second)
			a, b := s.acquire(s.start, l, "k").Permit, s.acquire(s.start, l, "k").Permit
			for _, at := range []string{"20s", "40s", "60s", "80s"} {
				if at == "60s" {
					at = "59.999999s"
				}
				s.renew(s.at(at), true, a, b)
				s.grant(s.acquire(s.at(at), l, "k"), false, 2)
			}
			s.grant(s.acquire(s.at("85s"), l, "k"), false, 2)
			s.release(s.at("90s"), true, a)
			s.grant(s.acquire(s.at("90s"), l, "k"), true, 2)
			s.grant(s.peek(s.at("139.999999s"), l, "k"), true, 2)
			s.grant(s.peek(s.at("140s"), l, "k"), true, 1)
		},
	},
	{
		name: "Permit/ClockGoesBack", permits: true,
		rule: "a renewal by a clock that lags takes nothing of the lease away, and a release by it counts",
		run: func(s *script) {
			l := s.concurrency(1, 30*time.Second)
			a := s.acquire(s.at("20s"), l, "k").Permit
			s.renew(s.start, true, a)
			s.grant(s.acquire(s.at("49s"), l, "k"), false, 1)
			s.release(s.at("1s"), true, a)
			s.grant(s.acquire(s.at("1s"), l, "k"), true, 1)
		},
	},
	{
		name: "Permit/AllOrNone", permits: true,
		rule: "a request takes a permit of each of its limits or of none",
		run: func(s *script) {
			wide, narrow := s.concurrencyOf(5, time.Minute, "wide"), s.concurrencyOf(1, time.Minute, "narrow")
			s.acquire(s.start, narrow, "k")
			for _, turned := range []bool{false, true} {
				calls := []caudal.PermitCall{{Limit: wide, Key: []byte("k")}, {Limit: narrow, Key: []byte("k")}}
				if turned {
					slices.Reverse(calls)
				}
				out := s.acquireAll(s.start, calls...)
				if caudal.Granted(calls, out) || out[0].Acquired || out[1].Acquired || out[0].Permit != (caudal.Permit{}) {
					s.wrong("the grants are %+v, want nothing taken", out)
				}
			}
			s.grant(s.peek(s.start, wide, "k"), true, 0)
			calls := []caudal.PermitCall{{Limit: wide, Key: []byte("k")}, {Limit: narrow, Key: []byte("j")}}
			if out := s.acquireAll(s.start, calls...); !caudal.Granted(calls, out) || !out[0].Acquired || !out[1].Acquired {
				s.wrong("the grants are %+v, want both", out)
			}
		},
	},
	{
		name: "Permit/OneCounterTwice", permits: true,
		rule: "limits of one request that share a counter take a permit each, or none",
		run: func(s *script) {
			l := s.concurrency(3, time.Minute)
			twice := []caudal.PermitCall{{Limit: l, Key: []byte("k")}, {Limit: l, Key: []byte("k")}}
			out := s.acquireAll(s.start, twice...)
			if !caudal.Granted(twice, out) || out[0].Permit.ID == out[1].Permit.ID {
				s.wrong("the grants are %+v, want two permits", out)
			}
			if out := s.acquireAll(s.start, twice...); caudal.Granted(twice, out) {
				s.wrong("the grants are %+v with one permit free, want none", out)
			}
			s.grant(s.peek(s.start, l, "k"), true, 2)
		},
	},
	{
		name: "Permit/Shadow", permits: true,
		rule: "a limit in shadow never denies, takes a permit when the request passes and it has one, and says when it has none",
		run: func(s *script) {
			shadow, real := s.concurrencyOf(1, time.Minute, "shadow"), s.concurrencyOf(2, time.Minute, "real")
			calls := []caudal.PermitCall{{Limit: shadow, Key: []byte("k"), Shadow: true}, {Limit: real, Key: []byte("k")}}
			for i, want := range []struct{ shadow, passes bool }{{true, true}, {false, true}, {false, false}} {
				out := s.acquireAll(s.start, calls...)
				if out[0].Allowed != want.shadow || out[0].Acquired != (want.shadow && want.passes) || caudal.Granted(calls, out) != want.passes {
					s.wrong("request %d: %+v, want shadow %t and passes %t", i+1, out, want.shadow, want.passes)
				}
			}
			s.grant(s.peek(s.start, shadow, "k"), true, 1)
			s.acquire(s.start, real, "full")
			s.acquire(s.start, real, "full")
			calls[0].Key, calls[1].Key = []byte("fresh"), []byte("full")
			if out := s.acquireAll(s.start, calls...); out[0].Acquired || !out[0].Allowed {
				s.wrong("of a denied request the shadow says %+v, want room and nothing taken", out[0])
			}
			s.grant(s.peek(s.start, shadow, "fresh"), true, 0)
		},
	},
	{
		name: "Permit/MaxChanges", permits: true,
		rule: "a changed max applies at once and keeps the calls under way: lowered, nothing is given until fewer are held",
		run: func(s *script) {
			five, one, six := s.concurrency(5, time.Minute), s.concurrency(1, time.Minute), s.concurrency(6, time.Minute)
			var held []caudal.Permit
			for range 5 {
				held = append(held, s.acquire(s.start, five, "k").Permit)
			}
			s.grant(s.acquire(s.start, one, "k"), false, 5)
			s.release(s.start, true, held[:4]...)
			s.grant(s.acquire(s.start, one, "k"), false, 1)
			s.grant(s.acquire(s.start, six, "k"), true, 2)
			s.release(s.start, true, held[4])
			s.grant(s.acquire(s.start, one, "k"), false, 1)
		},
	},
	{
		name: "Permit/LeaseChanges", permits: true,
		rule: "a permit lasts as long as the lease under which it was taken or renewed last, whatever others take",
		run: func(s *script) {
			long, short := s.concurrency(5, time.Hour), s.concurrency(5, 10*time.Second)
			s.acquire(s.start, long, "k")
			s.acquire(s.start, short, "k")
			s.grant(s.peek(s.at("10s"), long, "k"), true, 1)
			s.grant(s.peek(s.at("59m59s"), short, "k"), true, 1)
			s.grant(s.peek(s.at("1h"), short, "k"), true, 0)
		},
	},
	{
		name: "Permit/Identity", permits: true,
		rule: "any bytes are a key, and keys, scopes and limits of calls never meet",
		run: func(s *script) {
			keys := []string{"", "\x00", "a\x00b", "a", "\xff\xfe", "{a}", "a b\r\n", strings.Repeat("long", 5000)}
			for _, scope := range []string{"one", "two"} {
				l := s.concurrencyOf(1, time.Minute, scope)
				for _, key := range keys {
					s.grant(s.acquire(s.start, l, key), true, 1)
					s.grant(s.acquire(s.start, l, key), false, 1)
				}
			}
			l := s.scoped("1/h", "one")
			s.take(s.start, l, "a", 1)
			s.remaining(s.start, l, "a", 0)
			s.remaining(s.start, l, "b", 1)
		},
	},
	{
		name: "Permit/ContextThatIsOver", permits: true,
		rule: "a context that is over makes an error, and takes nothing",
		run: func(s *script) {
			ctx, cancel := context.WithCancel(s.ctx)
			cancel()
			l := s.concurrency(1, time.Minute)
			if err := s.permits.Acquire(ctx, s.start, []caudal.PermitCall{{Limit: l, Key: []byte("k")}}, make([]caudal.Grant, 1)); err == nil {
				s.wrong("Acquire = no error, want the context's")
			}
			s.grant(s.peek(s.start, l, "k"), true, 0)
		},
	},
	{
		name: "Race/C37Permits", permits: true,
		rule: "200 callers at one instant, 25 permits: exactly 25 get one, each its own; released by two at once, each is given back once",
		run: func(s *script) {
			for round := range s.opts.Rounds {
				racePermits(s, fmt.Sprint("key ", round))
			}
		},
	},
	{
		name: "Race/PermitsOfTwoLimits", permits: true,
		rule: "200 requests at one instant for 25 and 40 permits, in either order: no more than 25 pass, and the others hold nothing",
		run: func(s *script) {
			for round := range s.opts.Rounds {
				racePermitsOfTwo(s, fmt.Sprint("key ", round))
			}
		},
	},
	{
		name: "Trace/Permits", permits: true,
		rule: "on a random trace of permits taken, renewed, released and expired, with limits that change, every answer is that of a list of permits",
		run: func(s *script) {
			for seed := range s.opts.Traces {
				tracePermits(s, uint64(seed))
			}
		},
	},
}

func (s *script) concurrency(most uint32, lease time.Duration) *caudal.CompiledConcurrency {
	return s.concurrencyOf(most, lease, "row")
}

func (s *script) concurrencyOf(most uint32, lease time.Duration, scope string) *caudal.CompiledConcurrency {
	s.Helper()
	l, err := caudal.Concurrency{Max: most, Lease: lease}.Compile("limit", scope, caudal.FailLocal)
	if err != nil {
		s.Fatalf("Compile(%d, %s) = error %v", most, lease, err)
	}
	return l
}

func (s *script) acquireAll(at caudal.Instant, calls ...caudal.PermitCall) []caudal.Grant {
	s.Helper()
	out := make([]caudal.Grant, len(calls))
	if err := s.permits.Acquire(s.ctx, at, calls, out); err != nil {
		s.Fatalf("Acquire = error %v", err)
	}
	return out
}

func (s *script) acquire(at caudal.Instant, l *caudal.CompiledConcurrency, key string) caudal.Grant {
	s.Helper()
	return s.acquireAll(at, caudal.PermitCall{Limit: l, Key: []byte(key)})[0]
}

func (s *script) peek(at caudal.Instant, l *caudal.CompiledConcurrency, key string) caudal.Grant {
	s.Helper()
	return s.acquireAll(at, caudal.PermitCall{Limit: l, Key: []byte(key), Peek: true})[0]
}

func (s *script) grant(g caudal.Grant, allowed bool, inUse uint64) {
	s.Helper()
	if g.Allowed != allowed || g.InUse != inUse {
		s.wrong("the grant says allowed %t with %d in use, want %t with %d", g.Allowed, g.InUse, allowed, inUse)
	}
}

func (s *script) renew(at caudal.Instant, want bool, permits ...caudal.Permit) {
	s.Helper()
	held := make([]bool, len(permits))
	if err := s.permits.Renew(s.ctx, at, permits, held); err != nil {
		s.Fatalf("Renew = error %v", err)
	}
	if slices.Contains(held, !want) {
		s.wrong("Renew says %v, want all %t", held, want)
	}
}

func (s *script) release(at caudal.Instant, want bool, permits ...caudal.Permit) {
	s.Helper()
	held := make([]bool, len(permits))
	if err := s.permits.Release(s.ctx, at, permits, held); err != nil {
		s.Fatalf("Release = error %v", err)
	}
	if slices.Contains(held, !want) {
		s.wrong("Release says %v, want all %t", held, want)
	}
}

func racePermits(s *script, key string) {
	l := s.concurrency(25, time.Minute)
	grants := make([]caudal.Grant, racers)
	atOnce(racers, func(i int) {
		if err := s.permits.Acquire(s.ctx, s.start, []caudal.PermitCall{{Limit: l, Key: []byte(key)}}, grants[i:i+1]); err != nil {
			s.Errorf("Acquire = error %v", err)
		}
	})
	var held []caudal.Permit
	ids := map[caudal.Permit]bool{}
	for _, g := range grants {
		if g.Acquired {
			held, ids[g.Permit] = append(held, g.Permit), true
		}
	}
	if len(held) != 25 || len(ids) != 25 {
		s.wrong("%d passed with %d permits, want 25 of each", len(held), len(ids))
	}
	var mu sync.Mutex
	released := 0
	atOnce(2*len(held), func(i int) {
		was := make([]bool, 1)
		if err := s.permits.Release(s.ctx, s.start, held[i/2:i/2+1], was); err != nil {
			s.Errorf("Release = error %v", err)
		}
		if was[0] {
			mu.Lock()
			released++
			mu.Unlock()
		}
	})
	if released != len(held) {
		s.wrong("%d of %d permits were given back, want each once", released, len(held))
	}
	s.grant(s.peek(s.start, l, key), true, 0)
}

func racePermitsOfTwo(s *script, key string) {
	narrow, wide := s.concurrencyOf(25, time.Minute, "narrow"), s.concurrencyOf(40, time.Minute, "wide")
	var mu sync.Mutex
	passed := uint64(0)
	atOnce(racers, func(i int) {
		calls := []caudal.PermitCall{{Limit: narrow, Key: []byte(key)}, {Limit: wide, Key: []byte(key)}}
		if i%2 == 1 {
			slices.Reverse(calls)
		}
		out := make([]caudal.Grant, 2)
		if err := s.permits.Acquire(s.ctx, s.start, calls, out); err != nil {
			s.Errorf("Acquire = error %v", err)
		}
		if caudal.Granted(calls, out) {
			mu.Lock()
			passed++
			mu.Unlock()
		}
	})
	if passed > 25 || passed < 25 && !s.opts.SplitBatches {
		s.wrong("%d requests passed, want 25", passed)
	}
	s.grant(s.peek(s.start, narrow, key), true, passed)
	s.grant(s.peek(s.start, wide, key), true, passed)
}

// listed is a permit as the model keeps it.
type listed struct {
	permit  caudal.Permit
	expires int64
}

// tracePermits plays a random trace on two keys; the model is a list of the
// permits that are held.
func tracePermits(s *script, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 41))
	limits := []*caudal.CompiledConcurrency{s.concurrency(3, 20*time.Second), s.concurrency(5, 7*time.Second), s.concurrency(1, time.Minute)}
	model := map[string][]listed{}
	var all []listed // also those that are gone
	keys := map[caudal.Permit]string{}
	now := s.start
	for step := range 120 {
		now = now.Add(time.Duration(random.Int64N(int64(4 * time.Second))))
		for key, list := range model {
			model[key] = slices.DeleteFunc(list, func(l listed) bool { return l.expires <= now.Mono })
		}
		l, key := limits[random.IntN(len(limits))], fmt.Sprint(seed, " ", random.IntN(2))
		switch kind := random.IntN(4); {
		case kind >= 2 || len(all) == 0:
			g := s.acquire(now, l, key)
			want := uint64(len(model[key])) < l.Max()
			if want {
				model[key] = append(model[key], listed{g.Permit, now.Mono + l.Lease().Microseconds()})
				all, keys[g.Permit] = append(all, listed{g.Permit, 0}), key
			}
			if g.Allowed != want || g.Acquired != want || g.InUse != uint64(len(model[key])) {
				s.wrong("seed %d step %d: Acquire = %+v, want %t with %d in use", seed, step, g, want, len(model[key]))
				return
			}
		default:
			p := all[random.IntN(len(all))].permit
			list := model[keys[p]]
			i := slices.IndexFunc(list, func(l listed) bool { return l.permit == p })
			held := []bool{i < 0}
			act := s.permits.Renew
			if kind == 1 {
				act = s.permits.Release
			}
			if err := act(s.ctx, now, []caudal.Permit{p}, held); err != nil || held[0] != (i >= 0) {
				s.wrong("seed %d step %d: renew (%t) or release of %v says %v, %v, want %t", seed, step, kind == 0, p, held, err, i >= 0)
				return
			}
			switch {
			case i < 0:
			case kind == 0:
				list[i].expires = max(list[i].expires, now.Mono+p.Limit.Lease().Microseconds())
			default:
				model[keys[p]] = slices.Delete(list, i, i+1)
			}
		}
	}
}
