package httplimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// TestMiddlewareSheds: while one call is at work another is answered 503 and not
// charged; whatever becomes of a call, its slot comes back.
func TestMiddlewareSheds(t *testing.T) {
	s, err := shed.New(shed.Options{MinLimit: 1, MaxLimit: 1, MaxWait: time.Nanosecond, Reserves: map[rule.Priority]int{}})
	if err != nil {
		t.Fatal(err)
	}
	limit := caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 100, Unit: caudal.Hour}
	limiter, err := caudal.New(memstore.New(memstore.Options{Clock: newClock()}), limit)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(limiter, ByHeader("X-Key"), Options{Shed: s, Clock: newClock()})
	if err != nil {
		t.Fatal(err)
	}
	var inner func(w http.ResponseWriter)
	h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { inner(w) }))
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Key", "k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	var nested *httptest.ResponseRecorder
	inner = func(http.ResponseWriter) { nested = ask() }
	outer := ask()
	if outer.Code != http.StatusOK || nested.Code != http.StatusServiceUnavailable {
		t.Errorf("a call within another = %d, the other %d, want 503 and 200", nested.Code, outer.Code)
	}
	if !strings.Contains(nested.Body.String(), "#temporary-reduced-capacity") || nested.Header().Get("Retry-After") == "" {
		t.Errorf("it is answered %s with %v, want the problem of reduced capacity and a Retry-After", nested.Body, nested.Header())
	}
	inner = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		inner = func(http.ResponseWriter) {}
		nested = ask()
	}
	if ask(); nested.Code != http.StatusOK {
		t.Errorf("a call beside an event stream = %d, want 200", nested.Code)
	}
	inner = func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	func() {
		defer func() { _ = recover() }()
		ask()
	}()
	if st := s.Stats(); st.Inflight != 0 {
		t.Errorf("after a panic %d calls are under way, want 0", st.Inflight)
	}
	inner = func(http.ResponseWriter) {}
	if got := ask().Header().Get("X-RateLimit-Remaining"); got != "95" {
		t.Errorf("%s remain after 5 calls that passed, want 95", got)
	}
}
