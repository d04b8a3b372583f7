package httplimit

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

// TestBlockedClientIsToldWhenItEnds asks through the middleware.
func TestBlockedClientIsToldWhenItEnds(t *testing.T) {
	set, _, err := rule.Options{}.Parse("r.yaml", []byte("domain: d\ndescriptors:\n  - key: api_key\n    rate_limit: { unit: hour, requests_per_unit: 1 }\n"))
	if err != nil {
		t.Fatal(err)
	}
	domain, _ := set.Default()
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	controls := control.New(control.Options{Logger: slog.New(slog.DiscardHandler)})
	d, err := NewDecider(domain, memstore.New(memstore.Options{}), who, Options{Controls: controls})
	if err != nil {
		t.Fatal(err)
	}
	target, err := control.ParseTarget("api_key=k-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := controls.Block(t.Context(), target, time.Hour); err != nil {
		t.Fatal(err)
	}
	handler := d.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(contentType string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-API-Key", "k-1")
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	w := ask("text/plain")
	var p Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if w.Code != 429 || p.Type != typeAbnormalUsage || w.Header().Get("Retry-After") != "3600" {
		t.Errorf("a blocked key gets %d, Retry-After %q, %+v, want 429, 3600 and the type of abnormal usage", w.Code, w.Header().Get("Retry-After"), p)
	}
	if got := ask("application/grpc").Header().Get("Grpc-Status"); got != "8" {
		t.Errorf("a blocked gRPC call gets status %s, want 8", got)
	}
	if n := controls.Requests(); n != 2 {
		t.Errorf("Requests() = %d, want 2", n)
	}
	if err := controls.Enforce(t.Context(), false, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if w := ask("text/plain"); w.Code != 200 {
			t.Errorf("with enforcement off = %d, want 200", w.Code)
		}
	}
}
