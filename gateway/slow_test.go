package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// deadlines is a response that says when it was given up.
type deadlines struct {
	*httptest.ResponseRecorder
	gaveUp func()
}

func (d deadlines) SetReadDeadline(time.Time) error { d.gaveUp(); return nil }

// TestPatience: each wait has the whole time, and nothing is given up between waits
// or after the last.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gaveUp := 0
		p := patience{bound: time.Minute, client: deadlines{httptest.NewRecorder(), func() { gaveUp++ }}, giveUp: stopReading}
		for range 5 {
			p.begin()
			time.Sleep(59 * time.Second)
			if p.done() {
				t.Error("a wait of 59 s is cut short, want 1 m")
			}
			time.Sleep(time.Hour)
		}
		if gaveUp != 0 {
			t.Errorf("gave up %d times, want 0", gaveUp)
		}
		p.begin()
		time.Sleep(61 * time.Second)
		if !p.done() || gaveUp != 1 {
			t.Errorf("a wait of 61 s: gave up %d times, want once", gaveUp)
		}
		p = patience{client: p.client, giveUp: stopReading}
		p.begin()
		time.Sleep(time.Hour)
		if p.done() || gaveUp != 1 {
			t.Error("a wait without a bound is cut short")
		}
	})
}

// speak makes a request by each version of HTTP.
func speak(t *testing.T, test func(t *testing.T, c *http.Client)) {
	t.Run("HTTP/1.1", func(t *testing.T) {
		tr := &http.Transport{}
		t.Cleanup(tr.CloseIdleConnections)
		test(t, &http.Client{Transport: tr, Timeout: 10 * time.Second})
	})
	t.Run("HTTP/2", func(t *testing.T) { test(t, h2c(t)) })
}

func TestSlowBody(t *testing.T) {
	gone := make(chan error, 1)
	gw := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		gone <- err
	}), Options{BodyTimeout: 50 * time.Millisecond, MaxBody: 1000})
	speak(t, func(t *testing.T, c *http.Client) {
		body, rest := io.Pipe()
		go func() { _, _ = rest.Write([]byte("the beginning")) }()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", gw, io.MultiReader(body))
		res, err := c.Do(r)
		if err != nil {
			t.Fatalf("a client that sends no more gets %v, want 408", err)
		}
		_ = rest.Close()
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestTimeout {
			t.Errorf("a client that sends no more = %d, want 408", res.StatusCode)
		}
		if err := <-gone; err == nil {
			t.Error("the upstream takes a body that was cut off for a whole one")
		}
	})
}

// endless writes until nobody takes it.
func endless(gone chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for chunk := bytes.Repeat([]byte("x"), 32<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				gone <- err
				return
			}
		}
	})
}

func TestSlowReader(t *testing.T) {
	gone := make(chan error, 1)
	gw := serve(t, endless(gone), Options{SendTimeout: 50 * time.Millisecond})
	speak(t, func(t *testing.T, c *http.Client) {
		res, err := c.Get(gw)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		select { // the body is not read
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Error("a client that takes nothing of its response holds the upstream for 10 s, want it cut off")
		}
	})
}

// TestStreamsMayStandStill: a gRPC stream, an upgraded connection and an event
// stream that has nothing to say are nobody's fault.
func TestStreamsMayStandStill(t *testing.T) {
	const bound = time.Second
	stand := func() { <-time.After(bound + bound/4) }
	gw := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = buf.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_ = buf.Flush()
			_, _ = io.Copy(conn, buf)
		case isGRPC(r):
			w.Header().Set("Content-Type", "application/grpc")
			_, _ = io.Copy(w, r.Body)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			stand()
			_, _ = io.WriteString(w, "data: 2\n\n")
		}
	}), Options{BodyTimeout: bound, SendTimeout: bound, Timeouts: Timeouts{Total: bound}})

	t.Run("events", func(t *testing.T) {
		t.Parallel()
		if got := text(do(t, "GET", gw, nil)); got != "data: 1\n\ndata: 2\n\n" {
			t.Errorf("event stream = %q, want both events", got)
		}
	})
	t.Run("gRPC", func(t *testing.T) {
		t.Parallel()
		body, rest := io.Pipe()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", gw, body)
		r.Header.Set("Content-Type", "application/grpc")
		go func() {
			_, _ = io.WriteString(rest, "message")
			stand()
			_, _ = io.WriteString(rest, "message")
			rest.Close()
		}()
		res, err := h2c(t).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(withBody(t, res)); got != "messagemessage" {
			t.Errorf("gRPC stream = %q, want both messages", got)
		}
	})
	t.Run("upgrade", func(t *testing.T) {
		t.Parallel()
		conn, err := net.Dial("tcp", strings.TrimPrefix(gw, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		buf := make([]byte, 4096)
		if n, err := conn.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 101") {
			t.Fatalf("upgrade = %q, %v", buf[:n], err)
		}
		stand()
		_, _ = io.WriteString(conn, "ping")
		if n, err := conn.Read(buf); err != nil || string(buf[:n]) != "ping" {
			t.Errorf("upgraded connection after a pause = %q, %v, want the echo", buf[:n], err)
		}
	})
}

func TestTotalTimeout(t *testing.T) {
	release := make(chan struct{})
	gw := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, "the beginning")
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}), Options{Timeouts: Timeouts{Total: 30 * time.Millisecond}})
	t.Cleanup(func() { close(release) })
	res := do(t, "GET", gw, nil)
	wantStatus(t, "a call that takes too long", res, http.StatusGatewayTimeout)
	r, _ := http.NewRequestWithContext(context.Background(), "GET", gw+"/begun", nil)
	begun, err := http.DefaultClient.Do(r)
	if err == nil {
		_, err = io.ReadAll(begun.Body)
		begun.Body.Close()
	}
	if err == nil && begun.StatusCode == http.StatusOK { // or a slow machine: 504
		t.Error("a response that was cut off by the bound arrived as if whole")
	}
}

func TestBodyBounds(t *testing.T) {
	gw := start(t, Options{MaxBody: 10, Limits: limits(t, login, who(t, identity.Options{}), httplimit.Options{}), Routes: []Route{
		{Upstream: named(t, "a")}, {Path: "/big", Upstream: named(t, "b"), MaxBody: 100}, {Path: "/any", Upstream: named(t, "c"), MaxBody: -1}}})
	for _, c := range []struct {
		path   string
		length int
		want   int
	}{{"/", 10, 200}, {"/", 11, 413}, {"/big", 100, 200}, {"/big", 101, 413}, {"/any", 100_000, 200}} {
		body := strings.Repeat("x", c.length)
		res := do(t, "POST", gw+c.path, strings.NewReader(body))
		wantStatus(t, "a body of a known length", res, c.want)
		if c.want == 413 && res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("413 is of type %q, want a problem", res.Header.Get("Content-Type"))
		}
	}
	for range 5 { // refused before anything is charged
		wantStatus(t, "a long login", do(t, "POST", gw+"/api/login", strings.NewReader("01234567890")), 413)
	}
	wantStatus(t, "a login", do(t, "POST", gw+"/api/login", strings.NewReader("x")), 200)
	echoing := serve(t, echo, Options{MaxBody: 10})
	wantStatus(t, "a body that grows", do(t, "POST", echoing, io.MultiReader(strings.NewReader("01234567890"))), 413)
	wantStatus(t, "a body that ends in time", do(t, "POST", echoing, io.MultiReader(strings.NewReader("0123456789"))), 200)
}
