package decisionapi_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/decisionapi"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

const shop = `domain: shop
descriptors:
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { name: login, unit: minute, requests_per_unit: 3, algorithm: sliding_log }
  - key: api_key
    missing: skip
    rate_limit: { name: key, unit: minute, requests_per_unit: 10, burst: 10 }
  - key: path
    value: /legacy
    rate_limit: { name: legacy, unit: second, requests_per_unit: 2, algorithm: leaky_bucket, queue: 3 }
  - key: header:X-Tenant
    rate_limit: { name: tenant, unit: hour, requests_per_unit: 4, algorithm: fixed_window }
  - key: path
    value: /private
    descriptors:
      - key: api_key
        missing: reject
        rate_limit: { name: private, unit: minute, requests_per_unit: 5 }
  - key: path
    value: /closed
    rate_limit: { name: closed, unit: minute, requests_per_unit: 0 }
  - key: path
    value: /report
    concurrency: { max: 2, lease: 30s }
    rate_limit: { name: reports, unit: hour, requests_per_unit: 10, algorithm: fixed_window }
  - key: path
    value: /busy
    on_deny: { status: 503, body: "busy", content_type: text/plain }
    rate_limit: { name: busy, unit: minute, requests_per_unit: 0 }
`

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() caudal.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return caudal.At(c.now)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is an API with its store. Others can share both clock and store.
type fixture struct {
	t     *testing.T
	clock *clock
	store caudal.Store
	log   *bytes.Buffer
	mux   *http.ServeMux
}

func start(t *testing.T, o decisionapi.Options, trusted ...netip.Prefix) *fixture {
	c := &clock{now: time.Date(2026, 3, 4, 10, 5, 30, 0, time.UTC)}
	store := memstore.New(memstore.Options{Clock: c})
	t.Cleanup(func() { _ = store.Close() })
	return startOn(t, c, store, o, trusted...)
}

func startOn(t *testing.T, c *clock, store caudal.Store, o decisionapi.Options, trusted ...netip.Prefix) *fixture {
	t.Helper()
	return startRules(t, c, store, shop, o, trusted...)
}

func startRules(t *testing.T, c *clock, store caudal.Store, rules string, o decisionapi.Options, trusted ...netip.Prefix) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: c, store: store, log: new(bytes.Buffer), mux: http.NewServeMux()}
	set, _, err := rule.Parse("shop.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	if trusted == nil {
		trusted = decisionapi.Local()
	}
	who, err := identity.New(identity.Options{TrustedProxies: trusted})
	if err != nil {
		t.Fatal(err)
	}
	o.Clock, o.Logger = c, slog.New(slog.NewTextHandler(f.log, nil))
	decider, err := httplimit.NewDecider(domain, store, who, httplimit.Options{Clock: c, Logger: o.Logger})
	if err != nil {
		t.Fatal(err)
	}
	api, err := decisionapi.New(decider, who, o)
	if err != nil {
		t.Fatal(err)
	}
	api.SetRules(set, domain)
	api.Register(f.mux)
	return f
}

// answer is a response with its JSON.
type answer struct {
	*httptest.ResponseRecorder
	json map[string]any
}

func (f *fixture) post(path, body string) answer {
	f.t.Helper()
	w := httptest.NewRecorder()
	f.mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	a := answer{w, nil}
	if err := json.Unmarshal(w.Body.Bytes(), &a.json); err != nil {
		f.t.Fatalf("POST %s %s = %d %s: no JSON: %v", path, body, w.Code, w.Body, err)
	}
	return a
}

func (f *fixture) check(body string) answer {
	f.t.Helper()
	a := f.post("/v1/check", body)
	if a.Code != http.StatusOK {
		f.t.Fatalf("check %s = %d %s, want 200", body, a.Code, a.Body)
	}
	return a
}

// want compares one field, named by the path to it.
func (a answer) want(t *testing.T, what string, want any, path ...any) {
	t.Helper()
	var got any = a.json
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := got.(map[string]any)
			got = m[s]
		case int:
			list, _ := got.([]any)
			if s >= len(list) {
				t.Errorf("%s: %v is not there in %s", what, path, a.Body)
				return
			}
			got = list[s]
		}
	}
	if got != want {
		t.Errorf("%s: %v = %v, want %v", what, path, got, want)
	}
}

// refundBody is a refund of the answer's receipt; more begins with a comma.
func (a answer) refundBody(t *testing.T, more string) string {
	t.Helper()
	receipt, err := json.Marshal(a.json["receipt"])
	if err != nil || a.json["receipt"] == nil {
		t.Fatalf("no receipt in %s (%v)", a.Body, err)
	}
	return `{"receipt": ` + string(receipt) + more + `}`
}
