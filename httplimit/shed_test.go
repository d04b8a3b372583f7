package httplimit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// TestMiddlewareSheds: while one call is at work another is answered 503 and not
// charged; whatever becomes of a call, its slot comes back.
func TestMiddlewareSheds(t *testing.T) {
	s, err := shed.New(shed.Options{MinLimit: 1, MaxLimit: 1, MaxWait: time.Nanosecond, Reserves: map[rule.Priority]int{}})
	if err != nil {
		t.Fatal(err)
	}
	limit := caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 100, Unit: caudal.Hour}
	limiter, err := caudal.New(memstore.New(memstore.Options{Clock: newClock()}), limit)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(limiter, ByHeader("X-Key"), Options{Shed: s, Clock: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	var inner func(w http.ResponseWriter)
	h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { inner(w) }))
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	var nested *httptest.ResponseRecorder
	inner = func(http.ResponseWriter) { nested = ask() }
	outer := ask()
	if outer.Code != http.StatusOK || nested.Code != http.StatusServiceUnavailable {
		t.Errorf("a call within another = %d, the other %d, want 503 and 200", nested.Code, outer.Code)
	}
	if !strings.Contains(nested.Body.String(), "#temporary-reduced-capacity") || nested.Header().Get("Retry-After") == "" {
		t.Errorf("it is answered %s with %v, want the problem of reduced capacity and a Retry-After", nested.Body, nested.Header())
	}
	inner = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		inner = func(http.ResponseWriter) {}
		nested = ask()
	}
	if ask(); nested.Code != http.StatusOK {
		t.Errorf("a call beside an event stream = %d, want 200", nested.Code)
	}
	inner = func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	func() {
		defer func() { _ = recover() }()
		ask()
	}()
	if st := s.Stats(); st.Inflight != 0 {
		t.Errorf("after a panic %d calls are under way, want 0", st.Inflight)
	}
	inner = func(http.ResponseWriter) {}
	if got := ask().Header().Get("X-RateLimit-Remaining"); got != "95" {
		t.Errorf("%s remain after 5 calls that passed, want 95", got)
	}
}

// asked counts what a store is asked.
type asked struct {
	*memstore.Store
	takes, refunds atomic.Int64
}

func (s *asked) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	s.takes.Add(1)
	return s.Store.Take(ctx, at, calls, out)
}

func (s *asked) Refund(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) error {
	s.refunds.Add(1)
	return s.Store.Refund(ctx, at, refunds)
}

const shedRules = `domain: d
descriptors:
  - key: path
    value: /*
    concurrency: { max: 9, lease: 30s }
    rate_limit: { name: rate, unit: hour, requests_per_unit: 100 }
  - key: remote_address
    shadow_mode: true
    rate_limit: { name: shadow, unit: hour, requests_per_unit: 1, algorithm: fixed_window }
`

// TestShedCallCountsAsNothing: a call that waited for room in vain has its charges
// back, and counts as allowed by no limit; what would deny it in shadow mode is
// counted. One that comes while the queue is full costs the store nothing at all.
func TestShedCallCountsAsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := shed.New(shed.Options{MinLimit: 1, MaxLimit: 1, Queue: 1, MaxWait: time.Second, Reserves: map[rule.Priority]int{}})
		if err != nil {
			t.Fatal(err)
		}
		store := &asked{Store: memstore.New(memstore.Options{})}
		seen := &permitRecorder{}
		d := rules(t, shedRules, store, Options{Shed: s, Observer: seen})
		leave := make(chan struct{})
		h := d.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }))
		codes := make(chan int, 3)
		for range 3 { // one is let in, one waits, for one there is no room
			go func() { codes <- call(h, "GET", "/").StatusCode }()
			synctest.Wait()
		}
		if code := <-codes; code != http.StatusServiceUnavailable || store.takes.Load() != 2 || store.refunds.Load() != 0 {
			t.Errorf("a call for which there is no room = %d after %d takes and %d refunds, want 503 and the 2 takes of the others", code, store.takes.Load(), store.refunds.Load())
		}
		if code := <-codes; code != http.StatusServiceUnavailable || store.refunds.Load() != 1 {
			t.Errorf("a call that waited for room in vain = %d with %d refunds, want 503 and 1", code, store.refunds.Load())
		}
		close(leave)
		if code := <-codes; code != http.StatusOK {
			t.Errorf("the call that was let in = %d, want 200", code)
		}
		want := map[string]int{"rate allowed": 1, "shadow allowed": 1, "shadow shadow_denied": 1, "path=/* concurrency allowed": 1}
		for name := range seen.counts {
			if seen.counts[name] != want[name] {
				t.Errorf("%s is counted %d times, want %d", name, seen.counts[name], want[name])
			}
		}
		if len(seen.counts) != len(want) || len(seen.errs) > 0 {
			t.Errorf("counted %v with errors %v, want %v", seen.counts, seen.errs, want)
		}
		if n := inUse(t, d, store); n != 0 {
			t.Errorf("%d permits are held when all is over, want 0", n)
		}
	})
}

// TestPreflightIsItsClients: a preflight costs no limit, and takes room as a call of
// whoever sends it.
func TestPreflightIsItsClients(t *testing.T) {
	s, err := shed.New(shed.Options{MinLimit: 1, MaxLimit: 1, MaxWait: time.Nanosecond, Reserves: map[rule.Priority]int{}})
	if err != nil {
		t.Fatal(err)
	}
	d := rules(t, shedRules, nil, Options{Shed: s})
	m := one(t, caudal.PerSecond(1), ByHeader("X-Key"), Options{Shed: s})
	for name, dec := range map[string]interface{ Decide(*http.Request) *Outcome }{"rules": d, "one limit": m} {
		r := httptest.NewRequest(http.MethodOptions, "/", nil)
		r.RemoteAddr = "203.0.113.7:1"
		r.Header.Set("Origin", "https://app.example")
		r.Header.Set("Access-Control-Request-Method", "POST")
		o := dec.Decide(r)
		if got := o.shedCall(o.shedding).Client; len(o.Decisions) != 0 || !strings.Contains(got, "203.0.113.7") {
			t.Errorf("%s: a preflight is decided by %d limits and is a call of %q, want none and its address", name, len(o.Decisions), got)
		}
		o.Release()
	}
}
