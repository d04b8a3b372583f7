package failover

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
)

// gone makes a Store over one that fails every call, with a clock that stands.
func gone(t *testing.T, instances int) *Store {
	t.Helper()
	s := New(refusing{}, Options{ExpectedInstances: instances})
	t.Cleanup(func() { mustClose(t, s) })
	return s
}

// TestLocalShareOfEveryAlgorithm: how many of many calls at one instant pass in
// one of N instances, and at what distance a leaky bucket lets them leave.
func TestLocalShareOfEveryAlgorithm(t *testing.T) {
	for _, tt := range []struct {
		limit     string
		factor    float64
		instances int
		passes    int
		apart     time.Duration
	}{
		{"100/h", 2, 1, 200, 0},
		{"100/h", 2, 3, 67, 0},
		{"100/h", 1, 3, 34, 0},
		{"100/h burst 10", 2, 3, 7, 0},
		{"100/h burst 1", 1, 1000, 1, 0},
		{"100/h fixed_window", 2, 3, 67, 0},
		{"100/h fixed_window", 1.5, 4, 38, 0},
		{"100/h sliding_window", 2, 3, 67, 0},
		{"100/h sliding_log", 2, 3, 67, 0},
		{"5/h sliding_log", 1, 100, 1, 0},
		// f is 1 for a leaky bucket: spacing x N, queue / N rounded down.
		{"50/s leaky_bucket queue 60", 2, 1, 61, 20 * ms},
		{"50/s leaky_bucket queue 60", 2, 2, 31, 40 * ms},
		{"50/s leaky_bucket queue 60", 2, 7, 9, 140 * ms},
		{"50/s leaky_bucket queue 60 max_wait 100ms", 2, 2, 3, 40 * ms},
		{"50/s leaky_bucket queue 0", 2, 4, 1, 0},
		// 0 stays 0.
		{"0/h", 2, 1, 0, 0},
		{"0/h fixed_window", 2, 3, 0, 0},
		{"0/h leaky_bucket queue 5", 2, 3, 0, 0},
	} {
		t.Run(fmt.Sprintf("%s x %v over %d", tt.limit, tt.factor, tt.instances), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(refusing{}, Options{ExpectedInstances: tt.instances})
				defer mustClose(t, s)
				time.Sleep(minute) // past what other instances can have given
				l := limit(t, tt.limit, caudal.OnStoreError(caudal.FailLocal, tt.factor))
				passes, last := 0, time.Duration(0)
				for range 300 {
					d := take(t, s, l, "k")
					if !d.Degraded || d.Unavailable {
						t.Fatalf("%s, want degraded and not unavailable", show(d))
					}
					if !d.Allowed {
						continue
					}
					if passes++; passes > 1 && d.Delay-last != tt.apart {
						t.Errorf("call %d leaves after %s, %s behind the one before, want %s", passes, d.Delay, d.Delay-last, tt.apart)
					}
					last = d.Delay
				}
				if passes != tt.passes {
					t.Errorf("%d of 300 calls pass, want %d", passes, tt.passes)
				}
			})
		})
	}
}

// TestRefillIsTheShareOfTheRate: 60 a minute by a factor of 2 over 3 instances is
// 40 a minute, one each 1.5 s.
func TestRefillIsTheShareOfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(refusing{}, Options{ExpectedInstances: 3})
		defer mustClose(t, s)
		l := limit(t, "60/m burst 1")
		for n := range 10 {
			if d := take(t, s, l, "k"); !d.Allowed {
				t.Fatalf("call %d: %s, want allowed", n+1, show(d))
			}
			if d := take(t, s, l, "k"); d.Allowed || d.RetryAfter != 1500*ms {
				t.Fatalf("after call %d: %s, want denied for 1.5s", n+1, show(d))
			}
			time.Sleep(1500 * ms)
		}
	})
}

// TestCostAboveTheLocalLimit: a cost that the real limit admits is charged as the
// local limit; one that it does not can never succeed.
func TestCostAboveTheLocalLimit(t *testing.T) {
	s := gone(t, 10) // 10/h is 2/h here
	l := limit(t, "10/h")
	if d := takeN(t, s, l, "a", 10); !d.Allowed || d.Remaining != 0 || d.Receipt.Cost != 2 {
		t.Errorf("cost 10 of 10: %s, charged %d; want allowed, all 2 charged", show(d), d.Receipt.Cost)
	}
	if d := takeN(t, s, l, "a", 10); d.Allowed || d.Never || d.RetryAfter == 0 {
		t.Errorf("again: %s, want denied with a time", show(d))
	}
	if d := takeN(t, s, l, "b", 11); d.Allowed || !d.Never {
		t.Errorf("cost 11 of 10: %s, want never", show(d))
	}
	if d := takeN(t, s, l, "b", 1); !d.Allowed || d.Remaining != 1 {
		t.Errorf("cost 1: %s, want allowed with 1 remaining", show(d))
	}
	// What a request asks of one counter counts together.
	for _, tt := range []struct {
		costs   []uint32
		allowed bool
	}{{[]uint32{1, 1}, true}, {[]uint32{5, 5}, true}, {[]uint32{1, 9}, true}, {[]uint32{6, 5}, false}} {
		key := []byte(fmt.Sprint("shared ", tt.costs))
		calls := []caudal.Call{{Limit: l, Key: key, Cost: tt.costs[0]}, {Limit: l, Key: key, Cost: tt.costs[1]}}
		out := make([]caudal.Decision, 2)
		if err := s.Take(t.Context(), caudal.Instant{}, calls, out); err != nil {
			t.Fatal(err)
		}
		if v := caudal.Judge(calls, out); v.Allowed != tt.allowed || v.Never == tt.allowed {
			t.Errorf("costs %v of 10 on one counter: %+v, want allowed %v", tt.costs, v, tt.allowed)
		}
		if d := takeN(t, s, l, string(key), 0); tt.allowed && d.Remaining != 0 || !tt.allowed && d.Remaining != 2 {
			t.Errorf("costs %v of 10 on one counter: %d remain of 2", tt.costs, d.Remaining)
		}
	}
}

// TestPoliciesOfOneRequest: any deny wins, then any local denial, else pass; what
// is counted here is charged all or none. Each request has up to four limits: one
// that is local with room, one local without, one that passes, one that denies.
func TestPoliciesOfOneRequest(t *testing.T) {
	const none = caudal.Mode(99)
	e, sh, q := caudal.Enforce, caudal.Shadow, caudal.Quota
	for _, tt := range []struct {
		room, full, allow, deny      caudal.Mode
		passes, unavailable, charged bool
	}{
		{room: e, full: none, allow: none, deny: none, passes: true, charged: true},
		{room: e, full: none, allow: e, deny: none, passes: true, charged: true},
		{room: none, full: none, allow: e, deny: none, passes: true},
		{room: none, full: none, allow: none, deny: e, unavailable: true},
		{room: e, full: none, allow: e, deny: e, unavailable: true},
		{room: e, full: e, allow: e, deny: none},
		{room: e, full: e, allow: e, deny: e, unavailable: true},
		{room: e, full: none, allow: none, deny: sh, passes: true, charged: true},
		{room: e, full: sh, allow: e, deny: sh, passes: true, charged: true},
		{room: sh, full: none, allow: none, deny: e, unavailable: true},
		{room: sh, full: e, allow: none, deny: none},
		{room: sh, full: none, allow: e, deny: none, passes: true, charged: true},
		{room: q, full: q, allow: none, deny: none, passes: true, charged: true},
		{room: e, full: q, allow: q, deny: none, passes: true, charged: true},
		{room: e, full: q, allow: none, deny: none},
		{room: e, full: q, allow: none, deny: q, unavailable: true},
		{room: q, full: q, allow: none, deny: q, passes: true, charged: true},
		{room: e, full: none, allow: q, deny: q, passes: true, charged: true},
		{room: e, full: none, allow: none, deny: q, unavailable: true},
	} {
		s := gone(t, 1)
		var calls []caudal.Call
		room := -1
		add := func(m caudal.Mode, text string, f caudal.Failure) {
			if m != none {
				calls = append(calls, caudal.Call{Limit: limit(t, text, caudal.OnStoreError(f, 1)), Key: []byte("k"), Cost: 1, Mode: m})
			}
		}
		add(tt.allow, "3/h", caudal.FailOpen)
		add(tt.full, "1/h", caudal.FailLocal)
		if tt.full != none {
			take(t, s, calls[len(calls)-1].Limit, "k")
		}
		if tt.room != none {
			room = len(calls)
		}
		add(tt.room, "5/h", caudal.FailLocal)
		add(tt.deny, "7/h", caudal.FailClosed)
		out := make([]caudal.Decision, len(calls))
		if err := s.Take(t.Context(), caudal.Instant{}, calls, out); err != nil {
			t.Fatal(err)
		}
		v := caudal.Judge(calls, out)
		if v.Allowed != tt.passes || v.Unavailable != tt.unavailable || !v.Degraded {
			t.Errorf("%+v: verdict %+v", tt, v)
		}
		if room < 0 {
			continue
		}
		left := takeN(t, s, calls[room].Limit, "k", 0).Remaining
		if charged := left == 4; charged != tt.charged || out[room].Charged != tt.charged {
			t.Errorf("%+v: charged %v, %d of 5 remain", tt, out[room].Charged, left)
		}
	}
}

// TestCallsAloneHaveNothingToDoWithEachOther: a limit that denies does not keep
// the others from being charged.
func TestCallsAloneHaveNothingToDoWithEachOther(t *testing.T) {
	s := gone(t, 1)
	calls := []caudal.Call{
		{Limit: limit(t, "3/h", caudal.OnStoreError(caudal.FailClosed, 0)), Key: []byte("k"), Cost: 1, Alone: true},
		{Limit: limit(t, "5/h", caudal.OnStoreError(caudal.FailLocal, 1)), Key: []byte("k"), Cost: 1, Alone: true},
	}
	out := make([]caudal.Decision, 2)
	if err := s.Take(t.Context(), caudal.Instant{}, calls, out); err != nil {
		t.Fatal(err)
	}
	if !out[0].Unavailable || !out[1].Charged || out[1].Remaining != 4 {
		t.Errorf("decided alone: %s; %s", show(out[0]), show(out[1]))
	}
}

func TestPassingNeedsNoStoreToDenyTheImpossible(t *testing.T) {
	s := gone(t, 1)
	open := caudal.OnStoreError(caudal.FailOpen, 0)
	if d := take(t, s, limit(t, "0/h", open), "k"); d.Allowed || !d.Never {
		t.Errorf("a limit of 0 that passes without its store: %s, want never", show(d))
	}
	if d := takeN(t, s, limit(t, "5/h", open), "k", 6); d.Allowed || !d.Never {
		t.Errorf("cost 6 of 5: %s, want never", show(d))
	}
	if d := takeN(t, s, limit(t, "5/h", open), "k", 5); !d.Allowed || d.Charged || d.Receipt != (caudal.Receipt{}) {
		t.Errorf("cost 5 of 5: %s, receipt %+v; want allowed, uncounted", show(d), d.Receipt)
	}
}

// TestC80EveryFailureFollowsThePolicy: whatever went wrong, each limit does what
// its policy says, and none of it is an error.
func TestC80EveryFailureFollowsThePolicy(t *testing.T) {
	for _, kind := range []string{"connection", "timeout", "auth", KindWrongType, "oom", "readonly", "loading", "cluster", "script", "other"} {
		for f, want := range map[caudal.Failure]string{
			caudal.FailLocal:  "allowed true, degraded true, unavailable false, limit 20, remaining 19, delay 0s, retry 0s",
			caudal.FailOpen:   "allowed true, degraded true, unavailable false, limit 10, remaining 10, delay 0s, retry 0s",
			caudal.FailClosed: "allowed false, degraded true, unavailable true, limit 10, remaining 0, delay 0s, retry 0s",
		} {
			store := newFake(nil)
			s := New(store, Options{Deadline: minute})
			store.set(fails(&kindError{kind}))
			l := limit(t, "10/h", caudal.OnStoreError(f, 2))
			if got := show(take(t, s, l, "k")); got != want {
				t.Errorf("%s, %s: %s\nwant %s", kind, f, got, want)
			}
			out := make([]caudal.Decision, 1)
			if err := s.Take(t.Context(), caudal.Instant{}, []caudal.Call{{Limit: l, Key: []byte("l"), Cost: 1}}, out); err != nil {
				t.Errorf("%s, %s: Take = error %v", kind, f, err)
			} else if got := show(out[0]); got != want {
				t.Errorf("%s, %s: %s\nwant %s", kind, f, got, want)
			}
			if n := s.Stats().Errors[kind]; n < 2 {
				t.Errorf("Stats().Errors[%s] = %d, want both calls", kind, n)
			}
			mustClose(t, s)
		}
	}
}

// TestC81DenialsAreAnswers: the store is healthy, the limit 2/s, the local one
// would be 100/s. The third call is denied and the local count is not touched.
func TestC81DenialsAreAnswers(t *testing.T) {
	for name, takes := range map[string]func(*Store, *caudal.Compiled) (caudal.Decision, error){
		"TakeKey": func(s *Store, l *caudal.Compiled) (caudal.Decision, error) {
			return s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1)
		},
		"Take": func(s *Store, l *caudal.Compiled) (caudal.Decision, error) {
			out := make([]caudal.Decision, 1)
			err := s.Take(context.Background(), caudal.Instant{}, []caudal.Call{{Limit: l, Key: []byte("k"), Cost: 1}}, out)
			return out[0], err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(newFake(nil), Options{})
			defer mustClose(t, s)
			l := limit(t, "2/s", caudal.OnStoreError(caudal.FailLocal, 50))
			for n := range 10 {
				d, err := takes(s, l)
				if err != nil || d.Allowed != (n < 2) || d.Degraded {
					t.Errorf("%s, call %d: %s, error %v", name, n+1, show(d), err)
				}
			}
			if st := s.Stats(); st.Local != 0 || st.LocalKeys != 0 || len(st.Errors) != 0 || s.Degraded() {
				t.Errorf("%s: %+v, degraded %v; want the local count untouched", name, st, s.Degraded())
			}
		})
	}
}

// TestOneBadCounterOrRequestIsNoOutage: a counter whose value cannot be read fails
// alone, and so does a request that asks for too much.
func TestOneBadCounterOrRequestIsNoOutage(t *testing.T) {
	for _, kind := range []string{KindWrongType, KindRequest} {
		t.Run(kind, func(t *testing.T) { failsAlone(t, kind) })
	}
}

func failsAlone(t *testing.T, kind string) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{})
		defer mustClose(t, s)
		time.Sleep(time.Second)
		store.set(fails(&kindError{kind}))
		l := limit(t, "1000/s")
		for range 500 {
			if d := take(t, s, l, "k"); !d.Allowed || !d.Degraded {
				t.Fatalf("%s, want allowed and degraded", show(d))
			}
		}
		time.Sleep(minute)
		if s.Degraded() {
			t.Error("the store was given up for what concerns no other call")
		}
	})
}
