package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

const withPriorities = `
domain: d
descriptors:
  - key: remote_address
    rate_limit: { name: all, unit: minute, requests_per_unit: 5 }
  - { key: path, value: /pay, priority: critical }
  - { key: path, value: /export, priority: low }
`

// one lets one call at a time through, and one more that is critical.
var one = Shed{Enabled: true, Options: shed.Options{MinLimit: 1, MaxLimit: 1, MaxWait: time.Nanosecond,
	Reserves: map[rule.Priority]int{rule.PriorityCritical: 100}}}

// shedding is a gateway in front of an upstream that answers /held and everything
// below it only when it is let go.
func shedding(t *testing.T, upstream http.HandlerFunc) (*Gateway, string) {
	t.Helper()
	behind := httptest.NewServer(upstream)
	t.Cleanup(behind.Close)
	u, _ := url.Parse(behind.URL)
	v := who(t, identity.Options{})
	g, err := New(Options{Upstream: u, Limits: limits(t, withPriorities, v, httplimit.Options{}), Identity: v, Shed: one, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	return g, front.URL
}

func get(t *testing.T, target string) (*http.Response, string) {
	t.Helper()
	res, err := http.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// free waits until no call is under way.
func free(t *testing.T, g *Gateway) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		st := g.Shedders()["*/"].Stats()
		if st.Inflight == 0 && st.Waiting == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls are under way and %d wait when all are over, want none", st.Inflight, st.Waiting)
		}
	}
}

// TestShedCallIsNotCharged: while the one slot is taken a call of normal priority
// is answered 503 and costs nothing; a critical one has the reserve; and a call that a
// limit denies takes no slot.
func TestShedCallIsNotCharged(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	g, front := shedding(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			entered <- struct{}{}
			<-leave
		}
	})
	held := make(chan struct{})
	go func() {
		defer close(held)
		if res, err := http.Get(front + "/held"); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-entered
	for _, path := range []string{"/", "/export", "/", "/", "/", "/", "/"} {
		res, body := get(t, front+path)
		after, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if res.StatusCode != http.StatusServiceUnavailable || err != nil || after < 1 || after > 10 {
			t.Fatalf("GET %s = %d, Retry-After %q, want 503 and some seconds", path, res.StatusCode, res.Header.Get("Retry-After"))
		}
		var p httplimit.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || !strings.HasSuffix(p.Type, "#temporary-reduced-capacity") || p.Status != 503 {
			t.Fatalf("GET %s is answered %s, want the problem of reduced capacity", path, body)
		}
		if got := res.Header.Get("X-RateLimit-Remaining"); got != "4" {
			t.Errorf("GET %s says that %s remain, want 4", path, got)
		}
	}
	if res, _ := get(t, front+"/pay"); res.StatusCode != http.StatusOK || res.Header.Get("X-RateLimit-Remaining") != "3" {
		t.Errorf("GET /pay = %d, %s remaining, want 200 and 3", res.StatusCode, res.Header.Get("X-RateLimit-Remaining"))
	}
	leave <- struct{}{}
	<-held
	free(t, g)
	for range 3 {
		if res, _ := get(t, front+"/"); res.StatusCode != http.StatusOK {
			t.Errorf("GET / with room = %d, want 200", res.StatusCode)
		}
		free(t, g)
	}
	st := g.Shedders()["*/"].Stats()
	if res, _ := get(t, front+"/pay"); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("GET /pay over the limit = %d, want 429", res.StatusCode)
	}
	if again := g.Shedders()["*/"].Stats(); again.Admitted[rule.PriorityCritical] != st.Admitted[rule.PriorityCritical] {
		t.Error("a call that a limit denied was let in")
	}
	if st.Shed[rule.PriorityNormal] != 6 || st.Shed[rule.PriorityLow] != 1 || st.Shed[rule.PriorityCritical] != 0 {
		t.Errorf("shed %v, want 6 normal and 1 low", st.Shed)
	}
}

// TestStreamGivesItsSlotBack: an event stream goes on, and others are let in.
func TestStreamGivesItsSlotBack(t *testing.T) {
	leave := make(chan struct{})
	g, front := shedding(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_ = http.NewResponseController(w).Flush()
			<-leave
		}
	})
	stream, err := http.Get(front + "/events")
	if err != nil {
		t.Fatal(err)
	}
	free(t, g)
	if res, _ := get(t, front+"/"); res.StatusCode != http.StatusOK {
		t.Errorf("GET / beside a stream = %d, want 200", res.StatusCode)
	}
	close(leave)
	_, _ = io.Copy(io.Discard, stream.Body)
	_ = stream.Body.Close()
	free(t, g)
}

// TestSlotIsReleasedHoweverACallEnds: broken upstreams, clients that hang up, and
// bodies that never come.
func TestSlotIsReleasedHoweverACallEnds(t *testing.T) {
	entered := make(chan struct{}, 10)
	g, front := shedding(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/half":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/forever":
			entered <- struct{}{}
			<-r.Context().Done()
		}
	})
	for _, path := range []string{"/panic", "/half"} {
		res, err := http.Get(front + path)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		free(t, g)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	go func() { <-entered; hangUp() }()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, front+"/forever", nil)
	if _, err := http.DefaultClient.Do(req); err == nil {
		t.Error("a request that was hung up has an answer, want none")
	}
	free(t, g)
}
