package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
)

// limited serves a gateway that limits, and never denies.
func limited(t testing.TB, upstream http.Handler) string {
	t.Helper()
	return serve(t, upstream, Options{Limits: limits(t, plenty, who(t, identity.Options{}), httplimit.Options{})})
}

// both runs a test behind the gateway and behind the middleware alone.
func both(t *testing.T, h http.Handler, test func(t *testing.T, url string)) {
	t.Run("gateway", func(t *testing.T) { test(t, limited(t, h)) })
	t.Run("middleware", func(t *testing.T) {
		m, err := httplimit.New(caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: newClock()}), caudal.PerMinute(1000), caudal.WithName("remote_address"))), httplimit.ByIP, httplimit.Options{Clock: newClock()})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(m.Wrap(h))
		t.Cleanup(srv.Close)
		test(t, srv.URL)
	})
}

func TestC75WebSocket(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, msg, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if c.Write(r.Context(), kind, append([]byte("echo "), msg...)) != nil {
				return
			}
		}
	})
	both(t, h, func(t *testing.T, url string) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, res, err := websocket.Dial(ctx, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		for i := range 3 {
			if err := c.Write(ctx, websocket.MessageText, fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			_, msg, err := c.Read(ctx)
			if want := fmt.Sprint("echo ", i); err != nil || string(msg) != want {
				t.Fatalf("message %d came back as %q, %v, want %q", i, msg, err, want)
			}
		}
		if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
		// Messages are not calls: the connection was charged 1.
		wantHeaders(t, "upgrade", res.Header, map[string]string{"X-RateLimit-Remaining": "999"})
		res = do(t, "GET", url, nil)
		wantHeaders(t, "the next call", res.Header, map[string]string{"X-RateLimit-Remaining": "998"})
	})
}

func TestUpgradesThatWouldPassTheLimitsAreNotOffered(t *testing.T) {
	gw := limited(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "upgrade=%q connection=%q settings=%q", r.Header["Upgrade"], r.Header["Connection"], r.Header["Http2-Settings"])
	}))
	res := raw(t, gw, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	if got := text(res); res.StatusCode != 200 || got != "upgrade=[] connection=[] settings=[]" {
		t.Errorf("Upgrade: h2c = %d, upstream saw %s, want none of it", res.StatusCode, got)
	}
}

func TestC75EventStream(t *testing.T) {
	next := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 2 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("Flush: %v", err)
			}
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	both(t, h, func(t *testing.T, url string) {
		for _, method := range []string{"GET", "POST"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r, _ := http.NewRequestWithContext(ctx, method, url, strings.NewReader(map[string]string{"POST": "question"}[method]))
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(res.Body)
			for i := range 2 { // each event is read before the next is sent
				got, err := lines.ReadString('\n')
				if want := fmt.Sprintf("data: %d\n", i); err != nil || got != want {
					t.Fatalf("%s event %d = %q, %v, want %q before the stream goes on", method, i, got, err, want)
				}
				_, _ = lines.ReadString('\n')
				next <- struct{}{}
			}
			res.Body.Close()
		}
	})
}

func TestC75TrailersAndEarlyHints(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
		w.Header().Set(http.TrailerPrefix+"X-Sent", r.Trailer.Get("X-Sent"))
	})
	both(t, h, func(t *testing.T, url string) {
		var hints []string
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, h["Link"], h["Ratelimit"]))
			return nil
		}})
		r, _ := http.NewRequestWithContext(ctx, "POST", url, io.MultiReader(strings.NewReader("hello")))
		r.Trailer = http.Header{"X-Sent": {"by the client"}}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || string(b) != "hello" {
			t.Errorf("body = %q, %v, want hello", b, err)
		}
		if len(hints) != 1 || !strings.HasPrefix(hints[0], "103 [</style.css>; rel=preload]") {
			t.Errorf("1xx responses = %q, want the 103", hints)
		}
		for name, want := range map[string]string{"X-Sum": "42", "X-Late": "yes", "X-Sent": "by the client"} {
			if got := res.Trailer.Get(name); got != want {
				t.Errorf("trailer %s = %q, want %q", name, got, want)
			}
		}
		if res.Header.Get("RateLimit") == "" {
			t.Error("no RateLimit header on the final response")
		}
	})
}

func TestC75ResponseControllerAndHijack(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("SetReadDeadline: %v", err)
		}
		if err := rc.EnableFullDuplex(); err != nil {
			t.Errorf("EnableFullDuplex: %v", err)
		}
		conn, buf, err := rc.Hijack()
		if err != nil {
			t.Errorf("Hijack: %v", err)
			return
		}
		defer conn.Close()
		_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		_ = buf.Flush()
	})
	both(t, h, func(t *testing.T, url string) {
		if got := text(do(t, "GET", url, nil)); got != "hi" {
			t.Errorf("hijacked response = %q, want hi", got)
		}
	})
}

func TestHTTP2AndGRPC(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("X-Upstream-Proto", r.Proto)
		w.Header().Set("X-Te", r.Header.Get("Te"))
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("Grpc-Status", "0")
	})
	v := who(t, identity.Options{})
	gw := serve(t, h, Options{Limits: limits(t, "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n", v, httplimit.Options{})})
	client := h2c(t)
	post := func() *http.Response {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", gw+"/pkg.Service/Method", strings.NewReader("message"))
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return withBody(t, res)
	}
	res := post()
	if got := text(res); got != "message" || res.Proto != "HTTP/2.0" || res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("gRPC call = %s %q, trailer %v, want the echo over HTTP/2 and grpc-status 0", res.Proto, got, res.Trailer)
	}
	wantHeaders(t, "gRPC call", res.Header, map[string]string{"X-Upstream-Proto": "HTTP/2.0", "X-Te": "trailers"})
	res = post()
	wantStatus(t, "gRPC denial", res, 200)
	wantHeaders(t, "gRPC denial", res.Header, map[string]string{"Grpc-Status": "8", "Grpc-Retry-Pushback-Ms": "60000", "Content-Type": "application/grpc"})
	if got := text(res); got != "" || len(res.Trailer) != 0 {
		t.Errorf("gRPC denial has body %q and trailers %v, want headers only", got, res.Trailer)
	}
}

func TestH2CUpstream(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	up := httptest.NewUnstartedServer(h)
	up.Config.Protocols = new(http.Protocols)
	up.Config.Protocols.SetUnencryptedHTTP2(true)
	up.Start()
	t.Cleanup(up.Close)
	u, _ := url.Parse(up.URL)
	u.Scheme = "h2c"
	if got := text(do(t, "GET", start(t, Options{Upstream: u}), nil)); got != "HTTP/2.0" {
		t.Errorf("upstream h2c:// was spoken to in %s, want HTTP/2.0", got)
	}
}

func TestForwardingHeaders(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-Ip", "Forwarded", "True-Client-Ip",
			"X_forwarded_for", "X-Original-Url", "X-Tenant", "Connection", "Keep-Alive", "X-Hop", "Proxy-Authorization", "Accept-Encoding", "User-Agent"} {
			if v := r.Header[name]; v != nil {
				fmt.Fprintf(w, "%s: %s\n", name, strings.Join(v, " | "))
			}
		}
		fmt.Fprintf(w, "Host: %s\n", r.Host)
	})
	sent := []string{
		"X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "X-Forwarded-Port: 1",
		"X-Real-IP: 203.0.113.8", "Forwarded: for=203.0.113.9", "True-Client-IP: 203.0.113.9", "X_Forwarded_For: 203.0.113.9", "X-Original-URL: /admin",
		"X-Tenant: acme", "X-Hop: 1", "Connection: X-Hop, X-Forwarded-For", "Keep-Alive: timeout=5", "Proxy-Authorization: Basic x",
	}
	for _, c := range []struct{ trusted, want string }{
		{"192.0.2.0/24", "X-Forwarded-For: 127.0.0.1\nX-Forwarded-Host: api.example\nX-Forwarded-Proto: http\nX-Real-Ip: 127.0.0.1\nX-Tenant: acme\nHost: api.example\n"},
		{"127.0.0.1", "X-Forwarded-For: 203.0.113.7, 127.0.0.1\nX-Forwarded-Host: evil.example\nX-Forwarded-Proto: https\nX-Forwarded-Port: 1\nX-Real-Ip: 203.0.113.7\nTrue-Client-Ip: 203.0.113.9\nX-Original-Url: /admin\nX-Tenant: acme\nHost: api.example\n"},
	} {
		gw := serve(t, h, Options{Identity: who(t, identity.Options{}, c.trusted)})
		if got := text(raw(t, gw, line("GET", "/", sent...))); got != c.want {
			t.Errorf("trusting %s, the upstream saw\n%swant\n%s", c.trusted, got, c.want)
		}
	}
}

func TestUpstreamHostAndBasePath(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host, " ", r.RequestURI) }))
	t.Cleanup(up.Close)
	u, _ := url.Parse(up.URL + "/base%2Fpath/")
	for own, want := range map[bool]string{false: "api.example", true: u.Host} {
		gw := start(t, Options{Upstream: u, UpstreamHost: own})
		if got := text(raw(t, gw, line("GET", "/a%2fb/../c?q="))); got != want+" /base%2Fpath/c?q=" {
			t.Errorf("UpstreamHost %v: the upstream saw %s, want %s /base%%2Fpath/c?q=", own, got, want)
		}
	}
}

func TestServerSpeaksBothVersions(t *testing.T) {
	srv := NewServer(echo, ServerOptions{})
	if srv.ReadHeaderTimeout != 10*time.Second || srv.IdleTimeout != 2*time.Minute || srv.WriteTimeout != 0 || srv.MaxHeaderBytes != 64<<10 {
		t.Errorf("NewServer's defaults: %+v", srv)
	}
	if srv := NewServer(echo, ServerOptions{ReadHeader: -1, Write: time.Second}); srv.ReadHeaderTimeout != 0 || srv.WriteTimeout != time.Second {
		t.Errorf("NewServer's settings: %+v", srv)
	}
	gw := limited(t, echo)
	res, err := h2c(t).Get(gw + "/x")
	if err != nil {
		t.Fatal(err)
	}
	if res = withBody(t, res); res.Proto != "HTTP/2.0" || text(res) != "GET /x " {
		t.Errorf("h2c request = %s, want HTTP/2.0", res.Proto)
	}
	if res := do(t, "GET", gw+"/x", nil); res.Proto != "HTTP/1.1" {
		t.Errorf("usual request = %s, want HTTP/1.1", res.Proto)
	}
}

func TestUnixSocketPeerIsLoopback(t *testing.T) {
	v := who(t, identity.Options{}, "127.0.0.1")
	g, err := New(Options{Upstream: mustURL(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["X-Forwarded-For"], r.Header["X-Real-Ip"])
	}))), Identity: v, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/gw.sock"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(g, ServerOptions{Logger: quiet()})
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close() })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://gw/", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(withBody(t, res)); got != "[203.0.113.7] [203.0.113.7]" {
		t.Errorf("a trusted proxy on a unix socket: the upstream saw %s, want the client it names", got)
	}
}

func mustURL(t *testing.T, srv *httptest.Server) *url.URL {
	t.Helper()
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
