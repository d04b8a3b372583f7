package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

const countFailures = `
domain: d
descriptors:
  - key: remote_address
    count_when: { status: [401, 403, 5xx] }
    rate_limit: { unit: day, requests_per_unit: 20, algorithm: fixed_window }
`

// TestCountWhen: the status that reaches the client says whether a call counts, be
// it the upstream's or the gateway's own.
func TestCountWhen(t *testing.T) {
	v := who(t, identity.Options{})
	d := limits(t, countFailures, v, httplimit.Options{Clock: newClock()})
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch do := r.URL.Query().Get("do"); do {
		case "hang up":
			panic(http.ErrAbortHandler)
		case "break off":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "hints":
			w.WriteHeader(103)
			w.WriteHeader(401)
		default:
			status, err := strconv.Atoi(do)
			if err != nil {
				status = 200
			}
			w.WriteHeader(status)
		}
	}), Options{Limits: d, Identity: v})
	for _, step := range []struct {
		do, remaining string
		status        int
	}{
		{"200", "20", 200}, {"404", "20", 404}, {"401", "19", 401}, {"403", "18", 403}, {"204", "18", 204}, {"503", "17", 503},
		{"hang%20up", "16", 502}, // the gateway answers 502, which is one of 5xx
		{"hints", "15", 401}, {"302", "15", 302},
	} {
		res := do(t, "GET", url+"/?do="+step.do, nil)
		wantStatus(t, step.do, res, step.status)
		wantHeaders(t, step.do, res.Header, map[string]string{"X-Ratelimit-Remaining": step.remaining})
	}
	// A body that breaks off comes after the status: the call is settled already.
	if res, err := http.Get(url + "/?do=break%20off"); err == nil {
		_ = res.Body.Close() // whether the header got through is a matter of time
	}
	res := do(t, "GET", url+"/?do=200", nil)
	wantHeaders(t, "after a body that broke off", res.Header, map[string]string{"X-Ratelimit-Remaining": "15"})
}

// TestCountWhenUpgradeAndStream: both are settled when they begin, not when they
// end.
func TestCountWhenUpgradeAndStream(t *testing.T) {
	v := who(t, identity.Options{})
	d := limits(t, countFailures, v, httplimit.Options{Clock: newClock()})
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, "first")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = conn.Read(make([]byte, 1)) // until the client leaves
		_ = conn.Close()
	}), Options{Limits: d, Identity: v})
	for _, c := range []struct {
		header string
		status int
	}{{"Upgrade: websocket\r\nConnection: Upgrade\r\n", 101}, {"", 200}} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+c.header+"\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != c.status {
			t.Errorf("status %d, want %d", res.StatusCode, c.status)
		}
		wantHeaders(t, strconv.Itoa(c.status), res.Header, map[string]string{"X-Ratelimit-Remaining": "20"})
	}
}

// TestCountWhenClientGone: hanging up before the response is no way to guess for
// nothing.
func TestCountWhenClientGone(t *testing.T) {
	v := who(t, identity.Options{})
	d := limits(t, countFailures, v, httplimit.Options{Clock: newClock()})
	arrived, finished := make(chan struct{}), make(chan struct{})
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			return
		}
		close(arrived)
		<-r.Context().Done()
		close(finished)
	}), Options{Limits: d, Identity: v})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-arrived
		cancel()
	}()
	if res, err := http.DefaultClient.Do(r); err == nil {
		_ = res.Body.Close()
		t.Fatal("the slow call was answered")
	}
	<-finished
	res := do(t, "GET", url+"/", nil)
	wantHeaders(t, "after a call whose client left", res.Header, map[string]string{"X-Ratelimit-Remaining": "19"})
}
