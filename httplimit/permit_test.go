package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

const twoAtOnce = `domain: d
descriptors:
  - key: path
    value: /slow
    concurrency: { max: 2, lease: 30s }
    rate_limit: { name: rate, unit: hour, requests_per_unit: 1000 }
`

// inUse peeks at the permits of the only concurrency limit of a decider.
func inUse(t testing.TB, d *Decider, store caudal.PermitStore) uint64 {
	t.Helper()
	var out [1]caudal.Grant
	call := []caudal.PermitCall{{Limit: d.Domain().Concurrencies()[0].Compiled, Peek: true}}
	if err := store.Acquire(context.Background(), caudal.Instant{}, call, out[:]); err != nil {
		t.Fatal(err)
	}
	return out[0].InUse
}

// await waits until nothing is in use.
func await(t testing.TB, d *Decider, store caudal.PermitStore) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for inUse(t, d, store) != 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d permits are held still, want 0", inUse(t, d, store))
		}
		time.Sleep(time.Millisecond)
	}
}

// permitRecorder also sums what is held.
type permitRecorder struct {
	recorder
	held, least atomic.Int64
}

func (r *permitRecorder) PermitsHeld(_ string, _ *caudal.CompiledConcurrency, change int) {
	n := r.held.Add(int64(change))
	for least := r.least.Load(); n < least && !r.least.CompareAndSwap(least, n); least = r.least.Load() {
	}
}

func (r *permitRecorder) PermitDecided(_ string, l *caudal.CompiledConcurrency, result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[l.Name()+" "+result.String()]++
}

// TestC41PermitIsReleasedOnce: whatever becomes of a call, its permit is given back
// once.
func TestC41PermitIsReleasedOnce(t *testing.T) {
	type way struct {
		name    string
		handler http.HandlerFunc
		client  func(t *testing.T, url string)
	}
	get := func(t *testing.T, url string) {
		res, err := http.Get(url + "/slow")
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}
	hijack := func(t *testing.T, w http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("Hijack = %v", err)
			panic(http.ErrAbortHandler)
		}
		return conn, rw
	}
	for _, way := range []way{
		{"returns", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, get},
		{"inner middleware returns early", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, get},
		{"panics", func(http.ResponseWriter, *http.Request) { panic("of the handler") }, get},
		{"aborts", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
			panic(http.ErrAbortHandler)
		}, get},
		{"hijacks and closes twice", func(w http.ResponseWriter, _ *http.Request) {
			conn, rw := hijack(t, w)
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_ = rw.Flush()
			_ = conn.Close()
			_ = conn.Close()
		}, get},
		{"hijacks and panics behind it", func(w http.ResponseWriter, _ *http.Request) {
			conn, _ := hijack(t, w)
			defer conn.Close()
			panic("of the handler")
		}, get},
		{"times out", http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Millisecond, "late").ServeHTTP, get},
		{"client goes mid-body", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, func(t *testing.T, url string) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
			_ = conn.Close()
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			store := memstore.New(memstore.Options{})
			seen := &permitRecorder{}
			d := rules(t, twoAtOnce, store, Options{Observer: seen})
			var reached atomic.Int64
			server := httptest.NewUnstartedServer(d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached.Add(1)
				way.handler(w, r)
			})))
			server.Config.ErrorLog = discardLog()
			server.Start()
			defer server.Close()
			for range 5 { // more than there are permits
				way.client(t, server.URL)
				for deadline := time.Now().Add(30 * time.Second); reached.Load() == 0 && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
				await(t, d, store)
			}
			if n, least := seen.held.Load(), seen.least.Load(); n != 0 || least < 0 || reached.Load() == 0 {
				t.Errorf("after %d calls %d are held and %d were at least, want 0 and never below", reached.Load(), n, least)
			}
			if n := store.Permits(); n != 0 {
				t.Errorf("the store holds %d permits, want 0", n)
			}
		})
	}
}

// TestPermitDenial: 429 at once, with what the client needs to know, and all else
// that was charged goes back.
func TestPermitDenial(t *testing.T) {
	store := memstore.New(memstore.Options{})
	seen := &permitRecorder{}
	d := rules(t, twoAtOnce, store, Options{Observer: seen})
	release := make(chan struct{})
	var under sync.WaitGroup
	under.Add(2)
	var done sync.WaitGroup
	h := d.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		under.Done()
		<-release
	}))
	for range 2 {
		done.Go(func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/slow", nil)) })
	}
	under.Wait()
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/slow", nil))
		for name, want := range map[string]string{"Retry-After": "1", "X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": "0",
			"Ratelimit-Policy": `"rate";q=1000;w=3600, "path=/slow concurrency";q=2;qu="concurrent-requests"`, "Cache-Control": "no-store"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		if got := w.Header().Get("RateLimit"); !strings.HasPrefix(got, `"rate";r=998`) || !strings.HasSuffix(got, `"path=/slow concurrency";r=0`) {
			t.Errorf("RateLimit = %s, want 998 of the rate and 0 permits", got)
		}
		body := w.Body.String()
		if w.Code != 429 || !strings.Contains(body, "#quota-exceeded") || !strings.Contains(body, `"violated-policies":["path=/slow concurrency"]`) || !strings.Contains(body, "2 requests run at once") {
			t.Errorf("the answer is %d %s, want a 429 that names the limit", w.Code, body)
		}
	}
	close(release)
	done.Wait()
	if got := seen.counts; got["rate allowed"] != 2 || got["path=/slow concurrency allowed"] != 2 || got["path=/slow concurrency denied"] != 3 {
		t.Errorf("the observer was told %v, want 2 allowed by each and 3 denied", got)
	}
	if n := inUse(t, d, store); n != 0 {
		t.Errorf("%d permits are held at the end, want 0", n)
	}
}

// TestPermitsAreRenewed: a call of an hour under a lease of 30 s keeps its permit,
// and one that is nobody's ends with its lease.
func TestPermitsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		d := rules(t, twoAtOnce, store, Options{})
		o := d.Decide(httptest.NewRequest("GET", "/slow", nil))
		if !o.Hold(httptest.NewRequest("GET", "/slow", nil)) || !o.HoldsPermits() {
			t.Fatalf("Hold gives %v, want a permit", o.Action)
		}
		var lost [1]caudal.Grant // of a holder that died
		if err := store.Acquire(t.Context(), caudal.Instant{}, []caudal.PermitCall{{Limit: d.Domain().Concurrencies()[0].Compiled}}, lost[:]); err != nil || !lost[0].Acquired {
			t.Fatalf("Acquire = %+v, %v", lost[0], err)
		}
		time.Sleep(29 * time.Second)
		if n := inUse(t, d, store); n != 2 {
			t.Errorf("after 29 s %d are held, want 2", n)
		}
		time.Sleep(time.Hour)
		if n := inUse(t, d, store); n != 1 {
			t.Errorf("after an hour %d are held, want 1", n)
		}
		o.Release()
		if n := inUse(t, d, store); n != 0 {
			t.Errorf("after its end %d are held, want 0", n)
		}
		time.Sleep(time.Hour) // the timer ends by itself
	})
}

// flaky is a store whose releases and renewals fail for a time.
type flaky struct {
	*memstore.Store
	failing atomic.Bool
	renewed atomic.Int64
}

func (s *flaky) Release(ctx context.Context, at caudal.Instant, p []caudal.Permit, held []bool) error {
	if s.failing.Load() {
		return caudal.ErrStore
	}
	return s.Store.Release(ctx, at, p, held)
}

func (s *flaky) Renew(ctx context.Context, at caudal.Instant, p []caudal.Permit, held []bool) error {
	s.renewed.Add(1)
	if s.failing.Load() {
		return caudal.ErrStore
	}
	return s.Store.Renew(ctx, at, p, held)
}

// TestPermitsOfAStoreThatFails: a release that failed is done when the store is
// back, and a permit that could not be renewed in time is reported, once.
func TestPermitsOfAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Store: memstore.New(memstore.Options{})}
		seen := &permitRecorder{}
		d := rules(t, twoAtOnce, store, Options{Observer: seen})
		hold := func() *Outcome {
			r := httptest.NewRequest("GET", "/slow", nil)
			o := d.Decide(r)
			if !o.Hold(r) {
				t.Fatalf("Hold gives %v, want a permit", o.Action)
			}
			return o
		}
		store.failing.Store(true)
		hold().Release()
		time.Sleep(5 * time.Second)
		if n := inUse(t, d, store); n != 1 || seen.held.Load() != 0 {
			t.Errorf("while the store fails %d are held and %d here, want 1 and 0", n, seen.held.Load())
		}
		store.failing.Store(false)
		time.Sleep(1500 * time.Millisecond)
		if n := inUse(t, d, store); n != 0 {
			t.Errorf("when it is back %d are held, want 0", n)
		}

		o := hold()
		store.failing.Store(true)
		time.Sleep(31 * time.Second)
		store.failing.Store(false)
		seen.mu.Lock()
		seen.errs = nil
		seen.mu.Unlock()
		time.Sleep(2 * time.Minute)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if len(seen.errs) != 1 || !errors.Is(seen.errs[0], ErrPermitLost) {
			t.Errorf("the errors are %v, want ErrPermitLost once", seen.errs)
		}
		o.Release()
		if n := inUse(t, d, store); n != 0 || seen.least.Load() < 0 || seen.held.Load() != 0 {
			t.Errorf("at the end %d are held, %d here and %d at least, want 0", n, seen.held.Load(), seen.least.Load())
		}
	})
}

// TestOneTimerRenewsAll: a thousand calls under way are renewed by one call of the
// store each time.
func TestOneTimerRenewsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &flaky{Store: memstore.New(memstore.Options{MaxKeys: 100_000})}
		d := rules(t, strings.Replace(twoAtOnce, "max: 2", "max: 900", 1), store, Options{})
		var all []*Outcome
		for range 900 {
			r := httptest.NewRequest("GET", "/slow", nil)
			o := d.Decide(r)
			if !o.Hold(r) {
				t.Fatalf("Hold gives %v, want a permit", o.Action)
			}
			all = append(all, o)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		if n := store.renewed.Load(); n < 4 || n > 8 {
			t.Errorf("in 61 s the store was asked %d times to renew, want one time in 10 s", n)
		}
		if n := inUse(t, d, store); n != 900 {
			t.Errorf("%d are held, want 900", n)
		}
		for _, o := range all {
			o.Release()
		}
		if n := store.Permits(); n != 0 {
			t.Errorf("%d permits are held at the end, want 0", n)
		}
	})
}

// TestPermitsAfterTheQueue: a permit is taken when the call leaves; if none is free
// then its turn goes to another.
func TestPermitsAfterTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		d := rules(t, `domain: d
descriptors:
  - key: path
    value: /slow
    concurrency: { max: 1 }
    rate_limit: { unit: second, requests_per_unit: 1, algorithm: leaky_bucket, queue: 5 }
`, store, Options{})
		r := httptest.NewRequest("GET", "/slow", nil)
		first := d.Decide(r)
		if !first.Hold(r) {
			t.Fatalf("the first is %v, want Pass", first.Action)
		}
		second := d.Decide(r)
		if n := inUse(t, d, store); n != 1 || second.Action != Pass {
			t.Errorf("while the second waits it is %v and %d are held, want Pass and 1", second.Action, n)
		}
		if second.Hold(r) || second.Action != Deny || second.RetryAfter() != 1 {
			t.Errorf("at its turn the second is %v and may retry after %d s, want Deny and 1", second.Action, second.RetryAfter())
		}
		second.Release()
		first.Release()
		third := d.Decide(r)
		if d := third.Decisions[0].Delay; d != 0 {
			t.Errorf("the third waits %s, want the turn that the second gave back, at once", d)
		}
		if !third.Hold(r) {
			t.Errorf("the third is %v, want Pass", third.Action)
		}
		third.Release()
	})
}

// TestOtherWaysTakeNoPermits: those that do not see the response end, and a dry run
// denies nobody.
func TestOtherWaysTakeNoPermits(t *testing.T) {
	store := memstore.New(memstore.Options{})
	d := rules(t, strings.Replace(twoAtOnce, "max: 2", "max: 0", 1), store, Options{})
	r := httptest.NewRequest("GET", "/slow", nil)
	o := d.DecideWithin(r, time.Second)
	if !o.Hold(r) || o.HoldsPermits() {
		t.Errorf("DecideWithin and Hold give %v, want Pass without a permit", o.Action)
	}
	o.Release()
	if o = d.Decide(r); o.Hold(r) || o.RetryAfter() != 0 {
		t.Errorf("max 0 gives %v and a retry after %d s, want Deny for ever", o.Action, o.RetryAfter())
	}
	o.Release()
	dry := rules(t, strings.Replace(twoAtOnce, "max: 2", "max: 0", 1), store, Options{DryRun: true})
	if o = dry.Decide(r); !o.Hold(r) {
		t.Errorf("a dry run gives %v, want Pass", o.Action)
	}
	o.Release()
	bare := rules(t, twoAtOnce, struct{ caudal.Store }{store}, Options{})
	if o = bare.Decide(r); !o.Hold(r) || o.HoldsPermits() {
		t.Errorf("a store without permits gives %v, want Pass", o.Action)
	}
	o.Release()
	closed := rules(t, twoAtOnce, struct{ caudal.Store }{store}, Options{OnError: DenyOnError})
	if o = closed.Decide(r); o.Hold(r) || o.Action != Unavailable {
		t.Errorf("a store without permits and DenyOnError gives %v, want Unavailable", o.Action)
	}
	o.Release()
}

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
