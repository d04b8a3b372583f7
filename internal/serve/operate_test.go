package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/admin"
)

const operateRules = `
domain: shop
descriptors:
  - key: api_key
    rate_limit: { name: per-key, unit: hour, requests_per_unit: 2, algorithm: fixed_window }
  - key: remote_address
    rate_limit: { name: per-address, unit: hour, requests_per_unit: 100 }
`

// operate asks the admin API as an operator on this machine does.
func (f *fixture) operate(method, path string, body any, into any, edit ...func(*http.Request)) int {
	f.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			f.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+f.AdminAddr()+path, bytes.NewReader(text))
	if err != nil {
		f.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edit {
		e(r)
	}
	res, err := client(f.t, "127.0.0.1").Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			f.t.Fatalf("%s %s = %d, %s: %v", method, path, res.StatusCode, answer, err)
		}
	}
	return res.StatusCode
}

func (f *fixture) call(key string) *http.Response {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+f.Addr()+"/", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	res, err := client(f.t, "127.0.0.1").Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res
}

func TestOperatorLooksAtAKeyAndResetsIt(t *testing.T) {
	f := start(t, operateRules, Config{}, Deps{})
	for _, want := range []int{200, 200, 429} {
		if got := f.call("k-1").StatusCode; got != want {
			t.Fatalf("call = %d, want %d", got, want)
		}
	}
	ask := admin.CountersRequest{Attributes: map[string]string{"api_key": "k-1", "remote_address": "127.0.0.1"}}
	var got admin.Counters
	f.operate("POST", "/v1/counters", ask, &got)
	if len(got.Counters) != 2 {
		t.Fatalf("counters = %+v, want two", got.Counters)
	}
	key, address := got.Counters[0], got.Counters[1]
	if key.Rule != "per-key" || key.Used != 2 || key.Remaining != 0 || key.RetryAfter <= 0 || !strings.Contains(key.Denies, "used up: 2 of 2") {
		t.Errorf("the key's counter = %+v, want 2 of 2 used, and why it denies", key)
	}
	if address.Rule != "per-address" || address.Used != 2 || address.Denies != "" {
		t.Errorf("the address's counter = %+v, want 2 of 100 used", address)
	}
	refund := admin.CountersRequest{Key: "api_key=k-1", N: 1}
	f.operate("POST", "/v1/counters/refund", refund, &got)
	if len(got.Counters) != 1 || got.Counters[0].Used != 1 {
		t.Errorf("after a refund of 1 = %+v, want 1 used", got.Counters)
	}
	f.operate("POST", "/v1/counters/reset", admin.CountersRequest{Key: "api_key=k-1"}, &got)
	if len(got.Counters) != 1 || got.Counters[0].Used != 0 {
		t.Errorf("after a reset = %+v, want nothing used", got.Counters)
	}
	if got := f.call("k-1").StatusCode; got != 200 {
		t.Errorf("call after the reset = %d, want 200", got)
	}
	if log := f.log.String(); !strings.Contains(log, "counter reset") || strings.Contains(log, "k-1") {
		t.Errorf("the log does not name the reset, or names the key in clear:\n%s", log)
	} else if want := "api_key=sha256:" + identity.HashKey("k-1").String(); !strings.Contains(log, want) {
		t.Errorf("the log names the key otherwise than caudal hash prints it, want %s:\n%s", want, log)
	}
}

func TestBlockDeniesUntilItsEnd(t *testing.T) {
	f := start(t, operateRules, Config{}, Deps{})
	f.operate("POST", "/v1/block", admin.BlockRequest{Key: "api_key=k-1", For: "15m"}, nil)
	res := f.call("k-1")
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "900" {
		t.Errorf("call of a blocked key = %d, Retry-After %q, want 429 and 900", res.StatusCode, res.Header.Get("Retry-After"))
	}
	if got := f.call("k-2").StatusCode; got != 200 {
		t.Errorf("call of another key = %d, want 200", got)
	}
	var blocks admin.Blocks
	f.operate("GET", "/v1/blocks", nil, &blocks)
	if len(blocks.Blocks) != 1 || !strings.HasPrefix(blocks.Blocks[0].Key, "api_key=sha256:") {
		t.Errorf("blocks = %+v, want one, its key hashed", blocks)
	}
	f.clock.advance(15 * time.Minute)
	if got := f.call("k-1").StatusCode; got != 200 {
		t.Errorf("call at the end of the block = %d, want 200", got)
	}
	f.operate("POST", "/v1/block", admin.BlockRequest{Key: "127.0.0.1", For: "15m"}, nil)
	if got := f.call("").StatusCode; got != 429 {
		t.Errorf("call of a blocked address = %d, want 429", got)
	}
	f.operate("POST", "/v1/unblock", admin.BlockRequest{Key: "127.0.0.1"}, nil)
	if got := f.call("").StatusCode; got != 200 {
		t.Errorf("call after unblock = %d, want 200", got)
	}
	if got := f.operate("POST", "/v1/unblock", admin.BlockRequest{Key: "127.0.0.1"}, nil); got != 404 {
		t.Errorf("unblock of what is not blocked = %d, want 404", got)
	}
}

func TestEnforcementOffCountsAndDeniesNobody(t *testing.T) {
	f := start(t, operateRules, Config{}, Deps{})
	f.operate("POST", "/v1/block", admin.BlockRequest{Key: "api_key=k-2", For: "15m"}, nil)
	f.operate("POST", "/v1/enforcement", admin.Enforcement{On: false}, nil)
	for range 3 {
		if got := f.call("k-1").StatusCode; got != 200 {
			t.Errorf("call while enforcement is off = %d, want 200", got)
		}
	}
	if got := f.call("k-2").StatusCode; got != 200 {
		t.Errorf("call of a blocked key while enforcement is off = %d, want 200", got)
	}
	if body := f.readAdmin("/healthz").body; !strings.Contains(body, `"enforcing": false`) {
		t.Errorf("/healthz does not say that enforcement is off: %s", body)
	}
	metrics := f.readAdmin("/metrics").body
	for _, line := range []string{"caudal_enforcing 0", "caudal_blocks 1", `caudal_decisions_total{domain="shop",outcome="shadow_denied",rule="per-key"} 1`} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("metrics have no line %s", line)
		}
	}
	if !strings.Contains(f.log.String(), "enforcement is off") {
		t.Errorf("the log does not say that enforcement is off")
	}
	f.operate("POST", "/v1/enforcement", admin.Enforcement{On: true}, nil)
	if got := f.call("k-1").StatusCode; got != 429 {
		t.Errorf("call with enforcement on = %d, want 429", got)
	}
}

// operatorPaths are all paths of the admin API that change something or show keys.
var operatorPaths = []string{"GET /v1/status", "GET /v1/stream", "GET /v1/blocks", "GET /v1/enforcement", "POST /v1/counters", "POST /v1/counters/reset",
	"POST /v1/counters/refund", "POST /v1/block", "POST /v1/unblock", "POST /v1/enforcement"}

// TestNoAdminActionWithoutItsToken asks each path as somebody who may not.
func TestNoAdminActionWithoutItsToken(t *testing.T) {
	const token = "0123456789abcdef0123"
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	elsewhere := func(r *http.Request) { r.RemoteAddr = "192.0.2.1:4000" }
	for _, test := range []struct {
		name, token string
		edit        func(*http.Request)
		want        int
	}{
		{"another address", "", elsewhere, 403},
		{"this machine through a proxy", "", header("X-Forwarded-For", "127.0.0.1"), 403},
		{"another address that says it is this machine", "", func(r *http.Request) { elsewhere(r); r.Header.Set("X-Forwarded-For", "127.0.0.1") }, 403},
		{"a proxy that hides its client behind Forwarded", "", header("Forwarded", "for=127.0.0.1"), 403},
		{"a name that was made to lead here", "", func(r *http.Request) { r.Host = "rebound.example:6070" }, 403},
		{"another site's page", "", func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}, 403},
		{"no token from another address", token, elsewhere, 401},
		{"no token from this machine", token, func(*http.Request) {}, 401},
		{"a wrong token", token, header("Authorization", "Bearer "+token+"x"), 401},
		{"the beginning of the token", token, header("Authorization", "Bearer "+token[:19]), 401},
		{"the token as a password", token, func(r *http.Request) { r.SetBasicAuth("admin", token) }, 401},
	} {
		f := start(t, operateRules, Config{AdminToken: []byte(test.token)}, Deps{})
		handler := f.adminHandler()
		for _, path := range operatorPaths {
			method, target, _ := strings.Cut(path, " ")
			r := httptest.NewRequest(method, "http://127.0.0.1:6070"+target, strings.NewReader(`{"key":"user=eve","for":"1h"}`))
			r.RemoteAddr = "127.0.0.1:4000"
			r.Header.Set("Content-Type", "application/json")
			test.edit(r)
			if method == http.MethodGet && strings.Contains(test.name, "page") {
				continue // it can be asked, and cannot be read: no header allows it
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != test.want {
				t.Errorf("%s from %s = %d, want %d", path, test.name, w.Code, test.want)
			}
		}
		if n := len(f.controls.Blocks()); n != 0 {
			t.Errorf("%s: %d blocks were made", test.name, n)
		}
	}
}

func TestTokenLetsIn(t *testing.T) {
	const token = "0123456789abcdef0123"
	f := start(t, operateRules, Config{AdminToken: []byte(token)}, Deps{})
	r := httptest.NewRequest("POST", "http://caudal.example/v1/block", strings.NewReader(`{"key":"user=eve","for":"1h"}`))
	r.RemoteAddr = "192.0.2.1:4000"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	f.adminHandler().ServeHTTP(w, r)
	if w.Code != 200 || len(f.controls.Blocks()) != 1 {
		t.Errorf("block with the token from another address = %d, %s", w.Code, w.Body)
	}
}

// TestFormsOfOtherPagesChangeNothing is what a page can send without asking first.
func TestFormsOfOtherPagesChangeNothing(t *testing.T) {
	f := start(t, operateRules, Config{}, Deps{})
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
		got := f.operate("POST", "/v1/block", admin.BlockRequest{Key: "user=eve", For: "1h"}, nil, func(r *http.Request) { r.Header.Set("Content-Type", kind) })
		if got != http.StatusUnsupportedMediaType {
			t.Errorf("block with Content-Type %q = %d, want 415", kind, got)
		}
	}
	for _, body := range []string{"", "[]", `{"key":"user=eve","for":"1h"}{}`, `{"colour":1}`, `{"key":"` + strings.Repeat("a", 70_000) + `"}`, `{"key":"user=eve","for":"soon"}`, `{"key":"eve","for":"1h"}`} {
		r := httptest.NewRequest("POST", "http://127.0.0.1:6070/v1/block", strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:4000"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		f.adminHandler().ServeHTTP(w, r)
		if w.Code != 400 && w.Code != 413 {
			t.Errorf("block with body %.40q = %d, want 400", body, w.Code)
		}
	}
}
