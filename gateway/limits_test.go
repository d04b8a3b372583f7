package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
)

// echo tells what reached the upstream.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, b)
})

const login = `
domain: d
descriptors:
  - key: path
    value: /api/login
    descriptors:
      - key: remote_address
        rate_limit: { unit: minute, requests_per_unit: 3, algorithm: sliding_log }
`

func TestC88PathSpellings(t *testing.T) {
	for _, c := range []struct{ target, forwarded string }{
		{"/api/login", "/api/login"},
		{"/api/login/", "/api/login/"},
		{"//api/login", "/api/login"},
		{"/api//login", "/api/login"},
		{"/api/./login", "/api/login"},
		{"/api/x/../login", "/api/login"},
		{"/API/LOGIN", "/API/LOGIN"},
		{"/api/%6cogin", "/api/login"},
		{"/api/login;x=1", "/api/login;x=1"},
		{"/api/login?", "/api/login?"},
		{"/api/login?x=1", "/api/login?x=1"},
		{"/api%2Flogin", "/api%2Flogin"},
		{"/api/login%2f", "/api/login%2F"},
		{"/x/%2e%2e/api/login", "/api/login"},
		{"http://other.example/api/login", "/api/login"},
	} {
		v := who(t, identity.Options{FoldPathCase: true})
		gw := serve(t, echo, Options{Identity: v, Limits: limits(t, login, v, httplimit.Options{})})
		res := raw(t, gw, line("GET", c.target))
		wantStatus(t, "GET "+c.target, res, 200)
		if got, want := text(res), "GET "+c.forwarded+" "; got != want {
			t.Errorf("GET %s reached the upstream as %q, want %q", c.target, got, want)
		}
		// Two more in the plain form, and the bucket that all spellings share is
		// empty for every one of them.
		for range 2 {
			wantStatus(t, "plain form", raw(t, gw, line("GET", "/api/login")), 200)
		}
		wantStatus(t, "4th call, as "+c.target, raw(t, gw, line("GET", c.target)), 429)
		wantStatus(t, "4th call, plain", raw(t, gw, line("GET", "/api/login")), 429)
		wantStatus(t, "another path", raw(t, gw, line("GET", "/api/other")), 200)
	}
}

// One server reads /legacy/..%2Fx and /legacy/..;/x as /x, another serves them under
// /legacy/: whichever rule were charged, the other's would be missed.
func TestC88AmbiguousPathsAreRefused(t *testing.T) {
	const legacy = "domain: d\ndescriptors:\n  - {key: path, value: /legacy/*, rate_limit: {unit: minute, requests_per_unit: 100}}\n"
	v := who(t, identity.Options{})
	byPath := serve(t, echo, Options{Identity: v, Limits: limits(t, legacy, v, httplimit.Options{})})
	dry := serve(t, echo, Options{Identity: v, Limits: limits(t, legacy, v, httplimit.Options{DryRun: true})})
	byAddress := serve(t, echo, Options{Identity: v, Limits: limits(t, plenty, v, httplimit.Options{})})
	for _, target := range []string{"/legacy/..%2Fx", "/legacy/a%2f..%2f..%2fx", "/legacy/..;/x", "/legacy/a/..;v=1/..;/x",
		"/legacy/..%3b/x", "/legacy/%2e%2e%2fx", "/legacy/.;/x", "/legacy/a%2F%2e%2e"} {
		wantStatus(t, target, raw(t, byPath, line("GET", target)), 400)
		wantStatus(t, target+" in a dry run", raw(t, dry, line("GET", target)), 200)
		wantStatus(t, target+" where no rule looks at paths", raw(t, byAddress, line("GET", target)), 200)
	}
	for _, target := range []string{"/legacy/a%2Fb", "/legacy/a;v=1/b", "/legacy/...%2Fb", "/legacy/..a;x", "/legacy/a..%2F", "/legacy/../legacy/x", "/legacy/%252e%252e%252f"} {
		wantStatus(t, target, raw(t, byPath, line("GET", target)), 200)
	}
}

func TestOddRequestLines(t *testing.T) {
	v := who(t, identity.Options{})
	gw := serve(t, echo, Options{Limits: limits(t, plenty, v, httplimit.Options{})})
	for _, c := range []struct {
		request string
		status  int
		body    string
	}{
		{line("OPTIONS", "*"), 200, ""}, // net/http answers it by itself, here and behind
		{line("GET", "*"), 400, ""},
		{"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n", 400, ""},
		{line("GET", "mailto:x"), 200, "GET / "},
		{line("GET", "/%zz"), 400, ""},
		{line("GET", "/a\x80b"), 200, "GET /a%80b "},
		{line("GET", "/q?a=1;b=2&c=%zz"), 200, "GET /q?a=1;b=2&c=%zz "},
	} {
		res := raw(t, gw, c.request)
		wantStatus(t, c.request, res, c.status)
		if got := text(res); c.body != "" && got != c.body {
			t.Errorf("%q reached the upstream as %q, want %q", c.request, got, c.body)
		}
	}
}

func TestSmugglingIsRefused(t *testing.T) {
	v := who(t, identity.Options{})
	gw := serve(t, echo, Options{Limits: limits(t, plenty, v, httplimit.Options{})})
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX-Y : b\r\n\r\n",
	} {
		if res := raw(t, gw, request); res.StatusCode < 400 || res.StatusCode == 502 {
			t.Errorf("%q = %d, want it refused", request, res.StatusCode)
		}
	}
	// The header is fine and the body is not: the client's fault, not the upstream's.
	for _, body := range []string{"fffffffffffffffff\r\nabc\r\n", "zz\r\nabc\r\n0\r\n\r\n", "3\r\nabcde\r\n0\r\n\r\n"} {
		request := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body
		if res := raw(t, gw, request); res.StatusCode != 400 {
			t.Errorf("%q = %d, want 400", request, res.StatusCode)
		}
	}
	// Both lengths: the body that was chunked is what counts, and goes on alone.
	res := raw(t, gw, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	if got := text(res); res.StatusCode == 200 && got != "POST / hello" {
		t.Errorf("a request with both lengths reached the upstream as %q", got)
	}
}

func TestSpoofedForwardedForGainsNothing(t *testing.T) {
	v := who(t, identity.Options{}, "192.0.2.0/24") // the peer, 127.0.0.1, is not among them
	gw := serve(t, echo, Options{Identity: v, Limits: limits(t, login, v, httplimit.Options{})})
	passed := 0
	for i := range 30 {
		res := do(t, "POST", gw+"/api/login", nil, "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i), "X-Real-Ip", fmt.Sprintf("203.0.113.%d", i))
		if res.StatusCode == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("30 calls with made-up addresses: %d passed, want 3", passed)
	}
}

func TestC60ClientsBehindATrustedProxy(t *testing.T) {
	v := who(t, identity.Options{}, "127.0.0.0/8")
	gw := serve(t, echo, Options{Identity: v, Limits: limits(t, login, v, httplimit.Options{})})
	for client, want := range map[string]int{"203.0.113.7": 3, "[2001:db8::1]:443": 3} {
		passed := 0
		for i := range 10 { // what stands left of the client is its own invention
			if do(t, "POST", gw+"/api/login", nil, "X-Forwarded-For", fmt.Sprintf("198.51.100.%d, %s", i, client)).StatusCode == 200 {
				passed++
			}
		}
		if passed != want {
			t.Errorf("10 calls of %s: %d passed, want %d", client, passed, want)
		}
	}
}

func TestC90RandomCredentialsDoNotEscapeTheAddress(t *testing.T) {
	v := who(t, identity.Options{BearerAPIKey: true})
	gw := serve(t, echo, Options{Identity: v, Limits: limits(t, login+`
  - key: api_key
    rate_limit: { unit: minute, requests_per_unit: 100 }
`, v, httplimit.Options{})})
	passed := 0
	for i := range 20 {
		if do(t, "POST", gw+"/api/login", nil, "Authorization", fmt.Sprintf("Bearer %d", i)).StatusCode == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("20 logins, each with another Authorization: %d passed, want 3", passed)
	}
}

func TestMadeUpKeysStayUnderTheAddressCeiling(t *testing.T) {
	v := who(t, identity.Options{})
	gw := serve(t, echo, Options{Identity: v, Limits: limits(t, `
domain: d
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 600, burst: 100 }
  - key: api_key
    rate_limit: { unit: minute, requests_per_unit: 50 }
`, v, httplimit.Options{})})
	client := &http.Client{}
	defer client.CloseIdleConnections()
	passed := 0
	for i := range 1000 {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", gw, nil)
		r.Header.Set("X-API-Key", fmt.Sprint("made-up-", i))
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode == 200 {
			passed++
		}
	}
	if passed != 100 {
		t.Errorf("1000 calls with made-up keys: %d passed, want the address's 100", passed)
	}
}

func TestDenialGoldenOverTheWire(t *testing.T) {
	v := who(t, identity.Options{})
	gw := serve(t, echo, Options{Identity: v, Limits: limits(t, login, v, httplimit.Options{})})
	for range 3 {
		do(t, "POST", gw+"/api/login", strings.NewReader("x"))
	}
	res := do(t, "POST", gw+"/api/login", strings.NewReader("x"))
	wantStatus(t, "4th login", res, 429)
	const name = "path=/api/login.remote_address"
	wantHeaders(t, "denial", res.Header, map[string]string{
		"Retry-After": "60", "Cache-Control": "no-store", "Content-Type": "application/problem+json",
		"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1773144060",
		"RateLimit-Policy": `"` + name + `";q=3;w=60`, "RateLimit": `"` + name + `";r=0;t=60`,
	})
	if got := text(res); !strings.Contains(got, `"violated-policies":["`+name+`"]`) {
		t.Errorf("body = %s, want the limit among violated-policies", got)
	}
	res = do(t, "HEAD", gw+"/api/login", nil)
	wantStatus(t, "HEAD", res, 429)
	if got := text(res); got != "" || res.ContentLength <= 0 {
		t.Errorf("denied HEAD: body %q, length %d, want no body and GET's length", got, res.ContentLength)
	}
}

func TestC74PreflightIsNotCharged(t *testing.T) {
	v := who(t, identity.Options{})
	gw := serve(t, echo, Options{Identity: v, Limits: limits(t, login, v, httplimit.Options{})})
	for range 5 {
		wantStatus(t, "preflight", do(t, "OPTIONS", gw+"/api/login", nil, "Origin", "https://app.example", "Access-Control-Request-Method", "POST"), 200)
	}
	for range 3 {
		wantStatus(t, "call", do(t, "POST", gw+"/api/login", nil, "Origin", "https://app.example"), 200)
	}
	res := do(t, "POST", gw+"/api/login", nil, "Origin", "https://app.example")
	wantStatus(t, "4th call", res, 429)
	wantHeaders(t, "cross-origin denial", res.Header, map[string]string{"Access-Control-Allow-Origin": "*"})
	wantStatus(t, "plain OPTIONS", do(t, "OPTIONS", gw+"/api/login", nil, "Origin", "https://app.example"), 429)
}

func TestUpstreamThatLimitsToo(t *testing.T) {
	v := who(t, identity.Options{})
	inner, err := httplimit.New(caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: newClock()}), caudal.PerMinute(2), caudal.WithName("app"))), httplimit.ByIP, httplimit.Options{Clock: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	gw := serve(t, inner.Wrap(echo), Options{Identity: v, Limits: limits(t, plenty, v, httplimit.Options{})})
	res := do(t, "GET", gw, nil)
	wantStatus(t, "1st call", res, 200)
	wantHeaders(t, "1st call", res.Header, map[string]string{
		"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1",
		"RateLimit":        `"app";r=1;t=30, "remote_address";r=999;t=60`,
		"RateLimit-Policy": `"app";q=2;w=60, "remote_address";q=1000;w=60`,
	})
	do(t, "GET", gw, nil)
	res = do(t, "GET", gw, nil)
	wantStatus(t, "the upstream's own 429", res, 429)
	if got := text(res); !strings.Contains(got, `"violated-policies":["app"]`) {
		t.Errorf("body = %s, want the upstream's own", got)
	}
	wantHeaders(t, "the upstream's own 429", res.Header, map[string]string{"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "Retry-After": "30"})
}

func TestC92HeldCallWhoseClientHangsUpFreesItsTurn(t *testing.T) {
	// A call a minute, so that the test waits for nobody's turn: what is seen is
	// the delay that the next call would get.
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: newClock()}), caudal.PerMinute(1).WithQueue(5, 0)))
	m, err := httplimit.New(limiter, httplimit.ByIP, httplimit.Options{Clock: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	remaining := func() uint64 {
		d, err := limiter.Peek(context.Background(), "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}
	until := func(want uint64) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(10 * time.Second); remaining() != want; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("remaining = %d, want %d", remaining(), want)
			}
		}
	}
	gw := serve(t, echo, Options{Limits: m})
	wantStatus(t, "1st call", do(t, "GET", gw, nil), 200)
	for _, body := range []string{"", "a body"} {
		ctx, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				r, _ := http.NewRequestWithContext(ctx, "POST", gw, strings.NewReader(body))
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				if res, err := client.Do(r); err == nil {
					t.Errorf("a call whose turn comes in a minute was answered: %d", res.StatusCode)
					res.Body.Close()
				}
			})
		}
		until(2) // all three hold a turn
		hangUp()
		wg.Wait()
		until(5) // and gave it back
	}
}

func TestUpstreamFailures(t *testing.T) {
	v := who(t, identity.Options{})
	nobody, _ := url.Parse("http://127.0.0.1:1")
	gw := start(t, Options{Upstream: nobody, Limits: limits(t, plenty, v, httplimit.Options{})})
	res := do(t, "GET", gw, nil)
	wantStatus(t, "nobody there", res, 502)
	wantHeaders(t, "nobody there", res.Header, map[string]string{"Content-Type": "application/problem+json", "X-RateLimit-Remaining": "999"})

	release := make(chan struct{})
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	gw = serve(t, slow, Options{Timeouts: Timeouts{ResponseHeader: 20 * time.Millisecond}})
	t.Cleanup(func() { close(release) }) // before the upstream is closed
	wantStatus(t, "no answer in time", do(t, "GET", gw, nil), 504)

	gw = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/whole" {
			return
		}
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "short")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}), Options{})
	r, _ := http.NewRequestWithContext(t.Context(), "GET", gw, nil)
	res, err := http.DefaultClient.Do(r)
	if err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	if err == nil {
		t.Error("a response that was cut off arrived as if whole")
	}
	wantStatus(t, "the gateway after an abort", do(t, "GET", gw+"/whole", nil), 200)
}

func TestNewRefuses(t *testing.T) {
	for want, raw := range map[string]string{
		"scheme must be": "ftp://x", "has no host": "http:///x", "carries credentials": "http://u:p@x", "query or fragment": "http://x/?a=1",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Upstream: u}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ":p@") {
			t.Errorf("New(upstream %s) error = %v, want one with %q", raw, err, want)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("New without an upstream gave no error")
	}
	u, _ := url.Parse("http://x")
	if _, err := New(Options{Upstream: u, Upgrades: []string{"H2C"}}); err == nil {
		t.Error("New with upgrades to h2c gave no error")
	}
}
