package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// failing is an upstream that fails the first calls and then echoes.
type failing struct {
	first int
	fail  func(w http.ResponseWriter)
	calls atomic.Int64
}

func (f *failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if int(f.calls.Add(1)) <= f.first {
		f.fail(w)
		return
	}
	echo(w, r)
}

func answers(status int, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	}
}

func breaksOff(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// TestC76RetriesAreChargedOnce: an upstream that fails twice is asked three times,
// and the client is charged for one call.
func TestC76RetriesAreChargedOnce(t *testing.T) {
	v := who(t, identity.Options{})
	for what, fail := range map[string]func(http.ResponseWriter){"503": answers(503), "502": answers(502), "504": answers(504), "a connection that breaks off": breaksOff} {
		up := &failing{first: 2, fail: fail}
		gw := serve(t, up, Options{Identity: v, Limits: limits(t, plenty, v, httplimit.Options{}), Retries: Retries{Max: 2}})
		res := do(t, "GET", gw+"/x", nil)
		wantStatus(t, "GET under "+what, res, 200)
		wantHeaders(t, "GET under "+what, res.Header, map[string]string{"X-RateLimit-Remaining": "999"})
		if got := text(res); got != "GET /x " {
			t.Errorf("GET under %s = %q, want the answer of the third attempt", what, got)
		}
		if n := up.calls.Load(); n != 3 {
			t.Errorf("GET under %s: the upstream was asked %d times, want 3", what, n)
		}
	}
}

// TestC76DenialsAreNotRetried: neither the gateway's own nor the upstream's.
func TestC76DenialsAreNotRetried(t *testing.T) {
	v := who(t, identity.Options{})
	up := &failing{first: 1000, fail: answers(429, "Retry-After", "7")}
	gw := serve(t, up, Options{Identity: v, Limits: limits(t, "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n", v, httplimit.Options{}), Retries: Retries{Max: 5}})
	res := do(t, "GET", gw, nil)
	wantStatus(t, "the upstream's 429", res, 429)
	wantHeaders(t, "the upstream's 429", res.Header, map[string]string{"Retry-After": "7"})
	wantStatus(t, "the gateway's 429", do(t, "GET", gw, nil), 429)
	if n := up.calls.Load(); n != 1 {
		t.Errorf("the upstream was asked %d times, want once", n)
	}
}

func TestWhatIsRetried(t *testing.T) {
	for _, c := range []struct {
		what, method string
		body         io.Reader
		header       []string
		retries      Retries
		fail         func(http.ResponseWriter)
		calls        int64
	}{
		{"PUT with a small body", "PUT", strings.NewReader("small"), nil, Retries{Max: 2}, breaksOff, 3},
		{"PUT with a body over the bound", "PUT", strings.NewReader("longer"), nil, Retries{Max: 2, MaxBody: 5}, breaksOff, 1},
		{"PUT with a body of unknown length", "PUT", io.MultiReader(strings.NewReader("small")), nil, Retries{Max: 2}, breaksOff, 1},
		{"POST", "POST", strings.NewReader("small"), nil, Retries{Max: 2}, answers(503), 1},
		{"POST with an Idempotency-Key", "POST", strings.NewReader("small"), []string{"Idempotency-Key", "7"}, Retries{Max: 2}, answers(503), 3},
		{"DELETE", "DELETE", nil, nil, Retries{Max: 1}, answers(503), 2},
		{"a status that is not among them", "GET", nil, nil, Retries{Max: 2, Statuses: []int{503}}, answers(502), 1},
		{"a server that asks for time", "GET", nil, nil, Retries{Max: 2}, answers(503, "Retry-After", "1"), 1},
		{"a server that asks for none", "GET", nil, nil, Retries{Max: 2}, answers(503, "Retry-After", "0"), 3},
		{"500", "GET", nil, nil, Retries{Max: 2}, answers(500), 1},
		{"no retries", "GET", nil, nil, Retries{}, answers(503), 1},
	} {
		up := &failing{first: 2, fail: c.fail}
		gw := serve(t, up, Options{Retries: c.retries})
		res := do(t, c.method, gw, c.body, c.header...)
		if n := up.calls.Load(); n != c.calls {
			t.Errorf("%s: the upstream was asked %d times, want %d", c.what, n, c.calls)
		}
		if want := c.method + " / small"; c.calls == 3 && c.body != nil && text(res) != want {
			t.Errorf("%s: the body of the last attempt is not that of the first", c.what)
		}
	}
}

// TestCallsThatTimeOutAreNotRetried: an upstream that took a call is busy with it.
func TestCallsThatTimeOutAreNotRetried(t *testing.T) {
	release := make(chan struct{})
	var calls atomic.Int64
	gw := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1); <-release }),
		Options{Timeouts: Timeouts{ResponseHeader: 30 * time.Millisecond}, Retries: Retries{Max: 3}})
	t.Cleanup(func() { close(release) })
	wantStatus(t, "no answer in time", do(t, "GET", gw, nil), 504)
	if n := calls.Load(); n != 1 {
		t.Errorf("the upstream was asked %d times, want once", n)
	}
}

// TestConnectionsAreRetried: an upstream that restarts refuses connections for a
// moment.
func TestConnectionsAreRetried(t *testing.T) {
	up := mustURL(t, httptest.NewServer(echo))
	var refused atomic.Int64
	tr := &http.Transport{DialContext: nil}
	gw := start(t, Options{Upstream: up, Retries: Retries{Max: 2}, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if refused.Add(1) <= 2 {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("connection refused")}
		}
		return tr.RoundTrip(r)
	})})
	wantStatus(t, "GET", do(t, "GET", gw, nil), 200)
	tr.CloseIdleConnections()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRetriesHaveABudget: when the upstream is down, the calls that reach it do not
// multiply.
func TestRetriesHaveABudget(t *testing.T) {
	up := &failing{first: 1 << 30, fail: answers(503)}
	gw := serve(t, up, Options{Retries: Retries{Max: 10}})
	var wg sync.WaitGroup
	const callers, each = 10, 20
	for range callers {
		wg.Go(func() {
			for range each {
				do(t, "GET", gw, nil)
			}
		})
	}
	wg.Wait()
	if n := up.calls.Load(); n > callers*each+20 {
		t.Errorf("%d calls became %d at an upstream that is down, want at most 20 more", callers*each, n)
	}
}
