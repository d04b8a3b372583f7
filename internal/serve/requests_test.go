package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestObservedRequestsPassUntouched: upgrades, streams and trailers go through a
// request log and traces as they do without.
func TestObservedRequestsPassUntouched(t *testing.T) {
	collected := collectHTTP(t)
	streamed := make(chan struct{})
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/upgrade":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, io.LimitReader(conn, 5))
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			<-streamed // until the client has read that much
		default:
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.Copy(w, r.Body)
			w.Header().Set("X-Sum", r.Trailer.Get("X-Given"))
		}
	}))
	f := start(t, "", Config{Limit: "1000/h", Upstream: up, RequestLog: RequestLog{Which: LogAll}}, Deps{})

	conn, err := net.Dial("tcp", f.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade = %v, %v; want 101", res, err)
	}
	_, _ = io.WriteString(conn, "hello") // what comes of it shows
	echo, err := io.ReadAll(reader)
	if string(echo) != "hello" || err != nil {
		t.Errorf("the upgraded connection echoes %q, %v; want hello", echo, err)
	}
	_ = conn.Close() // or it would be a call under way

	c := client(t, "127.0.0.1")
	if res, err = c.Get("http://" + f.Addr() + "/stream"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if line != "data: 1\n" || err != nil {
		t.Errorf("the stream begins with %q, %v; want data: 1", line, err)
	}
	close(streamed)
	_ = res.Body.Close()

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.Addr()+"/", struct{ io.Reader }{strings.NewReader("body")})
	if err != nil {
		t.Fatal(err)
	}
	r.Trailer = http.Header{"X-Given": {"seven"}}
	if res, err = c.Do(r); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if string(body) != "body" || err != nil || res.Trailer.Get("X-Sum") != "seven" {
		t.Errorf("answer %q, %v, trailer %v; want body and X-Sum: seven", body, err, res.Trailer)
	}

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Join(f.requestLines(), "\n")
	for _, want := range []string{"path=/upgrade status=101", "path=/stream status=200", "method=POST"} {
		if !strings.Contains(lines, want) {
			t.Errorf("the request log has no %s:\n%s", want, lines)
		}
	}
	if n := len(collected.allNamed("caudal.decide")); n != 3 {
		t.Errorf("%d decisions are traced, want 3", n)
	}
}

// TestDenialByConcurrencyIsTold: what denies after the decision is what the log and
// the request's span say.
func TestDenialByConcurrencyIsTold(t *testing.T) {
	collected := collectHTTP(t)
	began, end := make(chan struct{}, 8), make(chan struct{})
	up := upstream(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began <- struct{}{}; <-end }))
	const rules = `domain: shop
descriptors:
- key: remote_address
  concurrency: {max: 1, lease: 1m}
`
	f := start(t, rules, Config{Upstream: up, RequestLog: RequestLog{Which: LogDenied}}, Deps{})
	c := client(t, "127.0.0.1")
	done := make(chan error, 1)
	go func() {
		res, err := c.Get("http://" + f.Addr() + "/first")
		if err == nil {
			err = res.Body.Close()
		}
		done <- err
	}()
	<-began
	f.ask(c, http.MethodPut, "/second").want(t, "a second call at once", http.StatusTooManyRequests)
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	lines := f.requestLines()
	if len(lines) != 1 || !strings.Contains(lines[0], "path=/second status=429 outcome=denied domain=shop rule=") {
		t.Errorf("lines = %q, want the denial of /second", lines)
	}
	request := collected.named(t, http.MethodPut)
	wantAttributes(t, request, "caudal.outcome", "denied", "http.response.status_code", "429")
	if rule := attributesOf(request.Attributes)["caudal.rule"]; !strings.Contains(rule, "remote_address") {
		t.Errorf("caudal.rule = %q, want the concurrency limit", rule)
	}
	if n := len(collected.allNamed("caudal.store acquire")); n != 2 {
		t.Errorf("%d spans of permits, want 2: %v", n, collected.names())
	}
}

// TestTraceOfADegradedDecision: the store is gone, and the span says so.
func TestTraceOfADegradedDecision(t *testing.T) {
	collected := collectHTTP(t)
	f := start(t, perAddress, Config{Store: "redis://" + deadAddress(t)}, Deps{})
	f.ask(client(t, "127.0.0.1"), http.MethodGet, "/").want(t, "a request", http.StatusOK)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantAttributes(t, collected.named(t, "caudal.decide"), "caudal.store", "redis", "caudal.degraded", "true", "caudal.rule", "per_address")
	wantAttributes(t, collected.named(t, "caudal.store take"), "caudal.store", "redis", "caudal.degraded", "true")
}
