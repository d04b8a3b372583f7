package decisionapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/decisionapi"
)

// ask asks authorize from a peer; headers are name, value, name, value.
func (f *fixture) ask(peer, query string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/v1/authorize"+query, nil)
	r.RemoteAddr = peer
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.mux.ServeHTTP(w, r)
	return w
}

func wantStatus(t *testing.T, what string, w *httptest.ResponseRecorder, status int, caudalStatus string) {
	t.Helper()
	if got := w.Header().Get(decisionapi.StatusHeader); w.Code != status || got != caudalStatus {
		t.Errorf("%s = %d, Caudal-Status %q, %s; want %d, %q", what, w.Code, got, w.Body, status, caudalStatus)
	}
}

const proxy = "127.0.0.1:4000"

func TestAuthorizeDecidesAboutTheOriginalRequest(t *testing.T) {
	f := start(t, decisionapi.Options{})
	for i, headers := range [][]string{
		{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/login?a=b"},
		{"X-Original-Method", "POST", "X-Original-URI", "//login"},
		{"X-Forwarded-Uri", "http://shop.example/x/../login"},
		{"X-Forwarded-Uri", "/login", "X-Original-URI", "/login"},
	} {
		w := f.ask(proxy, "", append(headers, "X-Forwarded-For", "203.0.113.7")...)
		if i == 3 {
			wantStatus(t, "login 4", w, http.StatusTooManyRequests, "429")
			if w.Header().Get("Retry-After") != "60" || w.Header().Get("X-RateLimit-Limit") != "3" {
				t.Errorf("login 4: headers = %v", w.Header())
			}
			continue
		}
		wantStatus(t, "login", w, http.StatusOK, "200")
		if got := w.Header().Get("X-RateLimit-Remaining"); got != strconv.Itoa(2-i) {
			t.Errorf("login %d: X-RateLimit-Remaining = %s", i+1, got)
		}
	}
	w := f.ask(proxy, "?deny_status=403", "X-Forwarded-Uri", "/login", "X-Forwarded-For", "203.0.113.7")
	wantStatus(t, "login with deny_status", w, http.StatusForbidden, "429")
	if w.Header().Get("Retry-After") != "60" {
		t.Errorf("login with deny_status: headers = %v", w.Header())
	}
	wantStatus(t, "another's login", f.ask(proxy, "", "X-Forwarded-Uri", "/login", "X-Forwarded-For", "203.0.113.8"), 200, "200")
	wantStatus(t, "private", f.ask(proxy, "", "X-Forwarded-Uri", "/private"), 401, "401")
	wantStatus(t, "on_deny", f.ask(proxy, "", "X-Forwarded-Uri", "/busy"), 503, "503")
	wantStatus(t, "a gRPC call is told by status", f.ask(proxy, "", "X-Forwarded-Uri", "/closed", "Content-Type", "application/grpc"), 429, "429")
	wantStatus(t, "a preflight", f.ask(proxy, "", "X-Forwarded-Method", "OPTIONS", "X-Forwarded-Uri", "/closed",
		"Origin", "https://a.example", "Access-Control-Request-Method", "GET"), 200, "200")
}

func TestAuthorizeBelievesOnlyTrustedPeers(t *testing.T) {
	f := start(t, decisionapi.Options{})
	for range 5 {
		wantStatus(t, "a peer that is not trusted", f.ask("198.51.100.5:4000", "", "X-Forwarded-Uri", "/login", "X-Forwarded-For", "203.0.113.7"), 500, "")
	}
	if n := strings.Count(f.log.String(), "trusted_proxies"); n != 1 {
		t.Errorf("the log has the hint %d times, want once:\n%s", n, f.log)
	}
	wantStatus(t, "after them", f.ask(proxy, "", "X-Forwarded-Uri", "/login", "X-Forwarded-For", "203.0.113.7"), 200, "200")
	if got := f.ask(proxy, "", "X-Forwarded-Uri", "/login", "X-Forwarded-For", "203.0.113.7").Header().Get("X-RateLimit-Remaining"); got != "1" {
		t.Errorf("X-RateLimit-Remaining = %s, want 1: who is not trusted charges nothing", got)
	}
	f = start(t, decisionapi.Options{}, netip.MustParsePrefix("10.0.0.0/8"))
	wantStatus(t, "a proxy that is named", f.ask("10.0.0.9:4000", "", "X-Forwarded-Uri", "/"), 200, "200")
	wantStatus(t, "this machine, when others are named", f.ask(proxy, "", "X-Forwarded-Uri", "/"), 500, "")
}

func TestAuthorizeCannotBeToldTwoThings(t *testing.T) {
	f := start(t, decisionapi.Options{})
	both := []string{"X-Forwarded-Uri", "/free", "X-Original-URI", "/closed"}
	wantStatus(t, "both", f.ask(proxy, "", both...), 403, "403")
	wantStatus(t, "forwarded", f.ask(proxy, "?headers=forwarded", both...), 200, "200")
	wantStatus(t, "original", f.ask(proxy, "?headers=original", both...), 429, "429")
	wantStatus(t, "one header twice", f.ask(proxy, "", "X-Forwarded-Uri", "/free", "X-Forwarded-Uri", "/closed"), 403, "403")
	wantStatus(t, "the method of the other family", f.ask(proxy, "?headers=original", "X-Original-URI", "/closed",
		"X-Forwarded-Method", "OPTIONS", "Origin", "https://a.example", "Access-Control-Request-Method", "GET"), 429, "429")
	// The client adds the other family, with the URI that the proxy names as well.
	preflight := []string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET", "X-Forwarded-Uri", "/closed", "X-Original-URI", "/closed"}
	wantStatus(t, "another's method with the same URI", f.ask(proxy, "", append(preflight, "X-Original-Method", "GET", "X-Forwarded-Method", "OPTIONS")...), 403, "403")
	wantStatus(t, "a method where the other says none", f.ask(proxy, "", append(preflight, "X-Original-Method", "OPTIONS")...), 403, "403")
	wantStatus(t, "another's host with the same URI", f.ask(proxy, "", "X-Forwarded-Uri", "/closed", "X-Original-URI", "/closed", "X-Forwarded-Host", "free.example"), 403, "403")
	for _, query := range []string{"?deny_status=200", "?deny_status=x", "?max_hold=soon", "?max_hold=1h", "?headers=all", "?denystatus=403", "?a=%zz"} {
		wantStatus(t, query, f.ask(proxy, query, "X-Forwarded-Uri", "/closed"), 500, "")
	}
	wantStatus(t, "neither", f.ask(proxy, ""), 500, "")
}

func TestAuthorizeHoldsNoLongerThanToldTo(t *testing.T) {
	f := start(t, decisionapi.Options{})
	legacy := []string{"X-Forwarded-Uri", "/legacy"}
	wantStatus(t, "the first", f.ask(proxy, "", legacy...), 200, "200")
	w := f.ask(proxy, "", legacy...) // its turn is in 500 ms
	wantStatus(t, "the second", w, 429, "429")
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("the second: Retry-After = %q, want 1", got)
	}
	wantStatus(t, "with room", f.ask(proxy, "?max_hold=600ms", legacy...), 200, "200")
}

// TestC64AProxyThatNamesNoClientIsNoticed: else all its clients share one counter
// and nobody knows why.
func TestC64AProxyThatNamesNoClientIsNoticed(t *testing.T) {
	f := start(t, decisionapi.Options{})
	f.ask(proxy, "", "X-Forwarded-Uri", "/", "X-Forwarded-For", "203.0.113.7")
	if f.log.Len() != 0 {
		t.Errorf("a proxy that names its client: the log has\n%s", f.log)
	}
	for range 3 {
		f.ask(proxy, "", "X-Forwarded-Uri", "/")
	}
	if n := strings.Count(f.log.String(), "does not name its client"); n != 1 {
		t.Errorf("a proxy that names no client: the log has the hint %d times, want once:\n%s", n, f.log)
	}
}
