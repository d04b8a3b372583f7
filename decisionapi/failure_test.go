package decisionapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/decisionapi"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// broken is a store that is gone.
type broken struct{}

func (broken) Take(context.Context, caudal.Instant, []caudal.Call, []caudal.Decision) error {
	return fmt.Errorf("%w: gone", caudal.ErrStore)
}

func (broken) Refund(context.Context, caudal.Instant, []caudal.Refund) error {
	return fmt.Errorf("%w: gone", caudal.ErrStore)
}

// TestC80NoDecisionIsNoDenial: a caller is told, a proxy lets the request pass.
func TestC80NoDecisionIsNoDenial(t *testing.T) {
	secret := []byte("sixteen bytes and more")
	c := &clock{now: time.Date(2026, 3, 4, 10, 5, 30, 0, time.UTC)}
	f := startOn(t, c, broken{}, decisionapi.Options{Secret: secret})
	if a := f.post("/v1/check", login); a.Code != http.StatusServiceUnavailable || !strings.Contains(a.Body.String(), "no decision was made") {
		t.Errorf("check without a store = %d %s, want 503", a.Code, a.Body)
	}
	batch := f.check(`{"checks": [` + login + `, {"attributes": {"path": "/free"}}]}`)
	batch.want(t, "batch without a store", "no decision was made: the store of the limits failed", "results", 0, "error")
	batch.want(t, "batch without a store", true, "results", 1, "allowed")
	wantStatus(t, "authorize without a store", f.ask(proxy, "", "X-Forwarded-Uri", "/closed", "X-Forwarded-For", "203.0.113.7"), 200, "200")

	well := start(t, decisionapi.Options{Secret: secret})
	if a := f.post("/v1/refund", well.check(login).refundBody(t, "")); a.Code != http.StatusServiceUnavailable {
		t.Errorf("refund without a store = %d %s, want 503", a.Code, a.Body)
	}
}

func TestEveryDecisionIsTimed(t *testing.T) {
	timed := 0
	f := start(t, decisionapi.Options{Took: func(d time.Duration) {
		if d < 0 {
			t.Errorf("a decision took %s", d)
		}
		timed++
	}})
	f.check(`{"checks": [` + login + `,` + login + `]}`)
	f.ask(proxy, "", "X-Forwarded-Uri", "/")
	if timed != 3 {
		t.Errorf("%d decisions were timed, want 3", timed)
	}
}

func TestNewRefuses(t *testing.T) {
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func() (*decisionapi.API, error){
		"no decider": func() (*decisionapi.API, error) { return decisionapi.New(nil, who, decisionapi.Options{}) },
		"no resolver": func() (*decisionapi.API, error) {
			return decisionapi.New(new(httplimit.Decider), nil, decisionapi.Options{})
		},
		"a short secret": func() (*decisionapi.API, error) {
			return decisionapi.New(new(httplimit.Decider), who, decisionapi.Options{Secret: []byte("short")})
		},
	} {
		if _, err := f(); err == nil {
			t.Errorf("New with %s = nil error", what)
		}
	}
}

// FuzzHostileInput: nothing that is sent panics or gives 5xx, except for what is
// no decision.
func FuzzHostileInput(f *testing.F) {
	f.Add(login, "/login?a=b", "203.0.113.7")
	f.Add(`{"checks": [{"descriptors": [{"entries": [{"key": "a"}]}]}]}`, "http://a/%zz", "x, 1.2.3.4")
	f.Add(`{"receipt": {"id": "AQ", "mac": "AQ"}}`, "://", "")
	f.Add(`{"attributes": {"header:a": "", "host": "[::1", "remote_address": "1.2.3.4"}}`, "*", "[::1]:1")
	f.Fuzz(func(t *testing.T, body, uri, address string) {
		api := start(t, decisionapi.Options{})
		for _, path := range []string{"/v1/check", "/v1/refund"} {
			w := httptest.NewRecorder()
			api.mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
			if w.Code >= 500 {
				t.Errorf("POST %s %q = %d %s", path, body, w.Code, w.Body)
			}
		}
		if w := api.ask(proxy, "", "X-Forwarded-Uri", uri, "X-Forwarded-For", address); w.Code >= 500 && w.Header().Get(decisionapi.StatusHeader) == "" {
			t.Errorf("authorize of %q = %d %s", uri, w.Code, w.Body)
		}
	})
}
