package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// clock is a clock that stands still until it is advanced.
type clock struct {
	mu  sync.Mutex
	now caudal.Instant
}

func newClock() *clock {
	return &clock{now: caudal.At(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))}
}

func (c *clock) Now() caudal.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func who(t testing.TB, o identity.Options, trusted ...string) *identity.Resolver {
	t.Helper()
	var err error
	if o.TrustedProxies, err = identity.ParsePrefixes(trusted); err != nil {
		t.Fatal(err)
	}
	v, err := identity.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// limits makes a decider of a rule file whose clock stands still.
func limits(t testing.TB, yaml string, v *identity.Resolver, o httplimit.Options) *httplimit.Decider {
	t.Helper()
	set, _, err := rule.Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	if o.Clock == nil {
		o.Clock = newClock()
	}
	o.Logger = quiet()
	d, err := httplimit.NewDecider(domain, memstore.New(memstore.Options{Clock: o.Clock, MaxKeys: 10_000}), v, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// plenty limits, and never denies.
const plenty = "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 1000 }\n"

// serve puts a gateway with these options before an upstream handler, both on
// real sockets, and gives the gateway's URL.
func serve(t testing.TB, upstream http.Handler, o Options) string {
	t.Helper()
	up := httptest.NewUnstartedServer(upstream)
	up.Config.Protocols = new(http.Protocols)
	up.Config.Protocols.SetHTTP1(true)
	up.Config.Protocols.SetUnencryptedHTTP2(true)
	up.Start()
	t.Cleanup(up.Close)
	if o.Upstream == nil {
		u, err := url.Parse(up.URL)
		if err != nil {
			t.Fatal(err)
		}
		o.Upstream = u
	}
	return start(t, o)
}

// start serves a gateway on a real socket.
func start(t testing.TB, o Options) string {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(g, ServerOptions{Logger: quiet()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

// raw sends bytes as they are and reads one response.
func raw(t testing.TB, gateway, request string) *http.Response {
	t.Helper()
	u, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("response to %q: %v", request, err)
	}
	return withBody(t, res)
}

// line is a whole request with this request line.
func line(method, target string, header ...string) string {
	s := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: api.example\r\n", method, target)
	for _, h := range header {
		s += h + "\r\n"
	}
	return s + "Connection: close\r\n\r\n"
}

// withBody reads a response's body in, so that its connection can be closed.
func withBody(t testing.TB, res *http.Response) *http.Response {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	res.Body = &readBody{b: b}
	return res
}

type readBody struct {
	b []byte
	n int
}

func (r *readBody) Read(p []byte) (int, error) {
	if r.n == len(r.b) {
		return 0, io.EOF
	}
	n := copy(p, r.b[r.n:])
	r.n += n
	return n, nil
}

func (r *readBody) Close() error { return nil }

func text(res *http.Response) string {
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

// do sends a request by a client that keeps nothing.
func do(t testing.TB, method, target string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return withBody(t, res)
}

// h2c is a client that speaks HTTP/2 without TLS.
func h2c(t testing.TB) *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

func wantStatus(t testing.TB, what string, res *http.Response, want int) {
	t.Helper()
	if res.StatusCode != want {
		t.Errorf("%s = %d %s, want %d", what, res.StatusCode, text(res), want)
	}
}

func wantHeaders(t testing.TB, what string, h http.Header, want map[string]string) {
	t.Helper()
	for name, v := range want {
		if got := h.Values(name); len(got) > 1 || h.Get(name) != v {
			t.Errorf("%s: %s = %q, want %q", what, name, got, v)
		}
	}
}
