package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAdminPages(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{Version: "v1.2.3"})
	index := f.readAdmin("/")
	index.want(t, "GET /", http.StatusOK, "Content-Type", "text/html; charset=utf-8")
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/debug/pprof/"} {
		f.readAdmin(path).want(t, "GET "+path, http.StatusOK)
		if !strings.Contains(index.body, `href="`+path+`"`) {
			t.Errorf("the index does not list %s", path)
		}
	}
	f.readAdmin("/nothing").want(t, "GET /nothing", http.StatusNotFound)
	for _, name := range []string{"caudal_keys 0", "caudal_evictions_total 0", "caudal_decision_duration_seconds_count", "go_goroutines", "process_cpu_seconds_total", "caudal_config_loaded_timestamp_seconds"} {
		if !strings.Contains(f.readAdmin("/metrics").body, "\n"+name) {
			t.Errorf("metrics have no %s", name)
		}
	}
}

func TestHealthTellsTheState(t *testing.T) {
	f := start(t, publicAPI, Config{}, Deps{Version: "v1.2.3"})
	f.ask(client(t, "127.0.0.1"), http.MethodGet, "/")
	var h health
	a := f.readAdmin("/healthz")
	if err := json.Unmarshal([]byte(a.body), &h); err != nil {
		t.Fatalf("/healthz = %s: %v", a.body, err)
	}
	if h.State != "ok" || h.Version != "v1.2.3" || h.Rules.Domain != "public-api" || h.Rules.Limits != 2 ||
		h.Rules.Warnings == 0 || h.Rules.Hash == "" || h.Store.Kind != "memory" || h.Store.Keys != 1 || h.Gateway.Address != f.Addr() {
		t.Errorf("/healthz = %s", a.body)
	}
}

func TestReadyzSendsCallsAwayWhileDraining(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	f.readAdmin("/readyz").want(t, "GET /readyz", http.StatusOK)
	f.draining.Store(true)
	f.readAdmin("/readyz").want(t, "GET /readyz while draining", http.StatusServiceUnavailable)
	f.readAdmin("/healthz").want(t, "GET /healthz while draining", http.StatusOK)
}

func TestProfilesAreForThisMachine(t *testing.T) {
	for _, tc := range []struct {
		peer, host string
		status     int
	}{
		{"127.0.0.1:4000", "127.0.0.1:6070", http.StatusOK},
		{"[::1]:4000", "localhost:6070", http.StatusOK},
		{"127.0.0.1:4000", "localhost", http.StatusOK},
		{"192.0.2.1:4000", "192.0.2.9:6070", http.StatusForbidden},
		{"127.0.0.1:4000", "rebound.example:6070", http.StatusForbidden},
		{"127.0.0.1:4000", "rebound.example", http.StatusForbidden},
		{"", "127.0.0.1", http.StatusForbidden},
	} {
		h := fromHere(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r := httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil)
		r.RemoteAddr, r.Host = tc.peer, tc.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.status {
			t.Errorf("profile for peer %q and host %q = %d, want %d", tc.peer, tc.host, w.Code, tc.status)
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	f := start(t, shopRules, Config{MaxBodyBytes: 10}, Deps{})
	c := client(t, "127.0.0.1")
	for _, tc := range []struct {
		name, body string
		chunked    bool
		status     int
	}{
		{"just fits", "0123456789", false, http.StatusOK},
		{"too long", "0123456789a", false, http.StatusRequestEntityTooLarge},
		{"fits, without length", "0123456789", true, http.StatusOK},
		{"too long, without length", strings.Repeat("a", 100_000), true, http.StatusRequestEntityTooLarge},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.Addr()+"/items", strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		if tc.chunked {
			r.ContentLength = -1
		}
		res, err := c.Do(r)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode != tc.status {
			t.Errorf("POST of a body that %s = %d, want %d", tc.name, res.StatusCode, tc.status)
		}
	}
}
