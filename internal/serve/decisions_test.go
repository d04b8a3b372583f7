package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// askAPI sends a JSON body to the decision API.
func (f *fixture) askAPI(path, body string) answer {
	f.t.Helper()
	res, err := client(f.t, "127.0.0.1").Post("http://"+f.APIAddrs()[0]+path, "application/json", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(data)}
}

const oneLogin = `{"attributes": {"path": "/login", "remote_address": "127.0.0.1"}}`

// TestOneCountForGatewayAndDecisionAPI: the same rules and the same store, whoever
// asks, also after a reload.
func TestOneCountForGatewayAndDecisionAPI(t *testing.T) {
	f := start(t, publicAPI, Config{HTTPListen: []string{"127.0.0.1:0"}}, Deps{})
	c := client(t, "127.0.0.1")
	for range 2 {
		f.ask(c, http.MethodPost, "/login").want(t, "a login at the gateway", http.StatusOK)
	}
	checked := f.askAPI("/v1/check", oneLogin)
	var decision struct {
		Limits  []struct{ Remaining int }
		Receipt json.RawMessage
	}
	if err := json.Unmarshal([]byte(checked.body), &decision); err != nil || len(decision.Limits) != 2 || decision.Limits[1].Remaining != 2 {
		t.Fatalf("check = %d %s (%v), want 2 remaining", checked.status, checked.body, err)
	}
	authorize := "http://" + f.APIAddrs()[0] + "/v1/authorize"
	do(t, c, http.MethodHead, authorize, "X-Forwarded-Uri", "//login").want(t, "authorize", http.StatusOK, "X-RateLimit-Remaining", "1")
	f.ask(c, http.MethodPost, "/login").want(t, "a login at the gateway", http.StatusOK, "X-RateLimit-Remaining", "0")
	do(t, c, http.MethodGet, authorize, "X-Forwarded-Uri", "/login").want(t, "authorize", http.StatusTooManyRequests)
	f.askAPI("/v1/refund", `{"receipt": `+string(decision.Receipt)+`}`).want(t, "refund", http.StatusOK)
	f.ask(c, http.MethodPost, "/login").want(t, "a login after the refund", http.StatusOK, "X-RateLimit-Remaining", "0")

	rewrite(t, f.config.Rules[0], strings.Replace(publicAPI, "requests_per_unit: 5", "requests_per_unit: 7", 1))
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := do(t, c, http.MethodGet, authorize, "X-Forwarded-Uri", "/login"); got.status != want {
			t.Errorf("authorize %d after 2 more were allowed = %d, want %d", i+1, got.status, want)
		}
	}
}

func TestDecisionAPIWithoutAGateway(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	s, err := Start(Config{Limit: "2/m", HTTPListen: []string{"127.0.0.1:0", socket}, RLS: RLS{Listen: []string{Off}}, AdminListen: Off}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.APIAddrs(); len(got) != 2 || s.Addr() != "" {
		t.Errorf("addresses = %q and gateway %q, want two and none", got, s.Addr())
	}
	do(t, client(t, "127.0.0.1"), http.MethodGet, "http://"+s.APIAddrs()[0]+"/healthcheck").want(t, "healthcheck", http.StatusOK)
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if _, err := Start(Config{Limit: "2/m", HTTPListen: []string{Off}, RLS: RLS{Listen: []string{Off}}, AdminListen: Off}, Deps{}); err == nil {
		t.Error("Start with everything off = nil error")
	}
}

func TestSocketInUseIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := listen("http_listen", "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := listen("http_listen", "unix:"+path); err == nil || !strings.Contains(err.Error(), "another process listens on "+path) {
		t.Errorf("listen on a socket in use = %v", err)
	}
	file := filepath.Join(t.TempDir(), "f")
	rewrite(t, file, "a file")
	if _, err := listen("http_listen", "unix:"+file); err == nil {
		t.Error("listen on a file = nil error")
	}
}

// TestCostsInResponsesAreWarnedOf: only where others ask.
func TestCostsInResponsesAreWarnedOf(t *testing.T) {
	const text = `domain: shop
descriptors:
  - key: remote_address
    cost: { response_header: X-Cost, max: 10 }
    rate_limit: { unit: minute, requests_per_unit: 100 }
`
	const code = "response-not-seen"
	asked := start(t, text, Config{HTTPListen: []string{"127.0.0.1:0"}}, Deps{})
	if !strings.Contains(asked.log.String(), code) {
		t.Errorf("with a decision API the log has no %s:\n%s", code, asked.log)
	}
	alone := start(t, text, Config{}, Deps{})
	if strings.Contains(alone.log.String(), code) {
		t.Errorf("with a gateway alone the log has %s:\n%s", code, alone.log)
	}
}

// TestConcurrencyIsWarnedOf: only where others ask.
func TestConcurrencyIsWarnedOf(t *testing.T) {
	const text = `domain: shop
descriptors:
  - key: remote_address
    concurrency: { max: 2 }
`
	const what = "concurrency of remote_address"
	asked := start(t, text, Config{HTTPListen: []string{"127.0.0.1:0"}}, Deps{})
	if !strings.Contains(asked.log.String(), what) {
		t.Errorf("with a decision API the log has no %q:\n%s", what, asked.log)
	}
	alone := start(t, text, Config{}, Deps{})
	if strings.Contains(alone.log.String(), what) {
		t.Errorf("with a gateway alone the log has %q:\n%s", what, alone.log)
	}
}

// TestCountWhenIsWarnedOf: only where others ask, over HTTP or gRPC.
func TestCountWhenIsWarnedOf(t *testing.T) {
	const text = `domain: shop
descriptors:
  - key: remote_address
    count_when: { status: [401] }
    rate_limit: { unit: minute, requests_per_unit: 100 }
`
	const code = "response-not-seen"
	for name, c := range map[string]Config{"http": {HTTPListen: []string{"127.0.0.1:0"}}, "grpc": {RLS: RLS{Listen: []string{"127.0.0.1:0"}}}} {
		if f := start(t, text, c, Deps{}); !strings.Contains(f.log.String(), code) {
			t.Errorf("%s: the log has no %s:\n%s", name, code, f.log)
		}
	}
	alone := start(t, text, Config{}, Deps{})
	if strings.Contains(alone.log.String(), code) {
		t.Errorf("with a gateway alone the log has %s:\n%s", code, alone.log)
	}
}
