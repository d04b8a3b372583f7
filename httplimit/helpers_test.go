package httplimit

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

// clock is a clock that stands still until it is advanced.
type clock struct {
	mu  sync.Mutex
	now caudal.Instant
}

// newClock stands at 2026-03-10 12:00:00.25 UTC.
func newClock() *clock {
	return &clock{now: caudal.At(time.Date(2026, 3, 10, 12, 0, 0, 250e6, time.UTC))}
}

func (c *clock) Now() caudal.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// recorder is an observer that remembers.
type recorder struct {
	mu     sync.Mutex
	counts map[string]int // "rule result"
	errs   []error
}

func (r *recorder) Decided(_ string, limit *caudal.Compiled, result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[limit.Name()+" "+result.String()]++
}

func (r *recorder) Failed(_ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// brokenStore answers with an error, or panics.
type brokenStore struct {
	err   error
	panic any
}

func (s brokenStore) Take(context.Context, caudal.Instant, []caudal.Call, []caudal.Decision) error {
	if s.panic != nil {
		panic(s.panic)
	}
	return s.err
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// rules makes a decider from a rule file over a store in memory.
func rules(t testing.TB, yaml string, store caudal.Store, o Options) *Decider {
	t.Helper()
	set, _, err := rule.Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if store == nil {
		store = memstore.New(memstore.Options{Clock: o.Clock, MaxKeys: 1000})
	}
	if o.Logger == nil {
		o.Logger = quiet()
	}
	d, err := NewDecider(domain, store, who, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// one makes a middleware of one limit over a store in memory.
func one(t testing.TB, limit caudal.Limit, key KeyFunc, o Options) *Middleware {
	t.Helper()
	m, err := New(caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: o.Clock, MaxKeys: 1000}), limit)), key, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

// call sends a request through a handler, each header as a pair.
func call(h http.Handler, method, target string, header ...string) *http.Response {
	return callFrom(h, "203.0.113.7:1", method, target, header...)
}

func callFrom(h http.Handler, peer, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = peer
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(r *http.Response) string {
	b, _ := io.ReadAll(r.Body)
	return string(bytes.TrimSpace(b))
}

func wantStatus(t *testing.T, what string, r *http.Response, want int) {
	t.Helper()
	if r.StatusCode != want {
		t.Errorf("%s = %d %s, want %d", what, r.StatusCode, body(r), want)
	}
}

func wantHeaders(t *testing.T, what string, h http.Header, want map[string]string) {
	t.Helper()
	for name, v := range want {
		if got := h.Values(name); len(got) > 1 || h.Get(name) != v {
			t.Errorf("%s: %s = %q, want %q", what, name, got, v)
		}
	}
}
