package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const shopRules = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { name: address, unit: minute, requests_per_unit: 600, burst: 200 }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { name: login, unit: minute, requests_per_unit: 5, algorithm: sliding_log }
  - key: api_key
    rate_limit: { name: key, unit: minute, requests_per_unit: 100 }
`

// another gives a client with another address. Only Linux has more than one
// address of the machine itself from the start.
func another(t *testing.T) *http.Client {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs 127.0.0.2, which this system does not have by itself")
	}
	return client(t, "127.0.0.2")
}

func TestSixthLoginInAMinuteIsDenied(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	c := client(t, "127.0.0.1")
	for i := range 5 {
		f.ask(c, http.MethodPost, "/login").want(t, fmt.Sprintf("POST /login number %d", i+1), http.StatusOK,
			"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", strconv.Itoa(4-i))
	}
	f.clock.advance(10 * time.Second)
	a := f.ask(c, http.MethodPost, "/login")
	reset := f.clock.now.Add(50 * time.Second).Unix()
	a.want(t, "POST /login number 6", http.StatusTooManyRequests,
		"Retry-After", "50",
		"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", strconv.FormatInt(reset, 10),
		"RateLimit-Policy", `"address";q=200;w=20, "login";q=5;w=60, "key";q=100;w=60`,
		"Content-Type", "application/problem+json", "Cache-Control", "no-store")
	if got := a.header.Get("RateLimit"); !strings.Contains(got, `"login";r=0;t=50`) {
		t.Errorf("POST /login number 6: RateLimit = %q, want it to hold %q", got, `"login";r=0;t=50`)
	}
	var problem struct {
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Violated []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(a.body), &problem); err != nil || problem.Status != 429 || problem.Title == "" ||
		len(problem.Violated) != 1 || problem.Violated[0] != "login" {
		t.Errorf("POST /login number 6: body = %s (%v), want a problem with status 429 that names login", a.body, err)
	}
	f.wantCount(`caudal_decisions_total{domain="shop",outcome="allowed",rule="login"} 5`)
	f.wantCount(`caudal_decisions_total{domain="shop",outcome="denied",rule="login"} 1`)
	f.wantCount(`caudal_decisions_total{domain="shop",outcome="allowed",rule="address"} 5`)

	f.clock.advance(50*time.Second - time.Microsecond)
	f.ask(c, http.MethodPost, "/login").want(t, "POST /login 1 us before the minute is over", http.StatusTooManyRequests)
	f.clock.advance(time.Microsecond)
	f.ask(c, http.MethodPost, "/login").want(t, "POST /login when the minute is over", http.StatusOK)
}

func TestAnotherClientsFirstLoginPasses(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	other, c := another(t), client(t, "127.0.0.1")
	for range 6 {
		f.ask(c, http.MethodPost, "/login")
	}
	f.ask(c, http.MethodPost, "/login").want(t, "the first client's 7th POST /login", http.StatusTooManyRequests)
	f.ask(other, http.MethodPost, "/login").want(t, "the other client's first POST /login", http.StatusOK,
		"X-RateLimit-Remaining", "4")
}

func TestTrustedProxySpeaksForClients(t *testing.T) {
	f := start(t, shopRules, Config{TrustedProxies: localNetworks()}, Deps{})
	c := client(t, "127.0.0.1")
	for range 5 {
		f.ask(c, http.MethodPost, "/login", "X-Forwarded-For", "203.0.113.7")
	}
	f.ask(c, http.MethodPost, "/login", "X-Forwarded-For", "203.0.113.7").want(t, "the 6th of 203.0.113.7", http.StatusTooManyRequests)
	f.ask(c, http.MethodPost, "/login", "X-Forwarded-For", "198.51.100.7").want(t, "the first of 198.51.100.7", http.StatusOK)
}

func TestAnotherKeyKeepsItsFullCount(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	c := client(t, "127.0.0.1")
	for range 6 {
		f.ask(c, http.MethodPost, "/login")
	}
	for i := range 30 {
		f.ask(c, http.MethodGet, "/items", "X-API-Key", "alice").want(t, "GET by alice", http.StatusOK,
			"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", strconv.Itoa(99-i))
	}
	f.ask(c, http.MethodGet, "/items", "X-API-Key", "bob").want(t, "bob's first GET", http.StatusOK,
		"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "99")
}

func TestThousandMadeUpKeysStayUnderTheAddressCeiling(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	c := client(t, "127.0.0.1")
	passed := 0
	for i := range 1000 {
		switch a := f.ask(c, http.MethodGet, "/items", "X-API-Key", "made-up-"+strconv.Itoa(i)); a.status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("GET with made-up key %d = %d", i, a.status)
		}
	}
	if passed != 200 {
		t.Errorf("of 1000 made-up keys from one address at one instant %d passed, want 200", passed)
	}
}

// publicAPI is a whole configuration: a limit per key, and one for a path.
const publicAPI = `domain: public-api
descriptors:
  - key: api_key
    rate_limit:
      unit: minute
      requests_per_unit: 100
  - key: path
    value: /login
    rate_limit:
      unit: minute
      requests_per_unit: 5
`

func TestPublicAPIFileWorksUnchanged(t *testing.T) {
	f := start(t, publicAPI, Config{}, Deps{})
	c := client(t, "127.0.0.1")
	for i := range 100 {
		f.ask(c, http.MethodGet, "/items", "X-API-Key", "alice").want(t, fmt.Sprintf("GET %d by alice", i+1), http.StatusOK)
	}
	f.ask(c, http.MethodGet, "/items", "X-API-Key", "alice").want(t, "GET 101 by alice", http.StatusTooManyRequests)
	f.ask(c, http.MethodGet, "/items", "X-API-Key", "bob").want(t, "GET 1 by bob", http.StatusOK, "X-RateLimit-Remaining", "99")
	for i := range 5 {
		f.ask(c, http.MethodPost, "/login", "X-API-Key", "client-"+strconv.Itoa(i)).want(t, "a login", http.StatusOK)
	}
	f.ask(c, http.MethodPost, "/login", "X-API-Key", "client-6").want(t, "the 6th login, by yet another client", http.StatusTooManyRequests)
	if !strings.Contains(f.log.String(), "shared-counter-lockout") {
		t.Errorf("start does not warn that one client can lock out all:\n%s", f.log)
	}
}

func TestQuickForm(t *testing.T) {
	for _, tc := range []struct {
		limit, by string
		headers   []string // of a client's calls
		other     []string // of a client that has its own count
	}{
		{"3/m", "ip", nil, nil},
		{"3/m sliding_log", "api_key", []string{"X-API-Key", "alice"}, []string{"X-API-Key", "bob"}},
		{"3/2m", "header:X-Tenant", []string{"X-Tenant", "a"}, []string{"X-Tenant", "b"}},
		{"3/m", "header:x-tenant", nil, []string{"X-Tenant", "b"}},
		{"3/day fixed_window timezone Europe/Madrid", "query:team", nil, nil},
	} {
		t.Run(tc.limit+" by "+tc.by, func(t *testing.T) {
			f := start(t, "", Config{Limit: tc.limit, By: tc.by}, Deps{})
			c := client(t, "127.0.0.1")
			for i := range 3 {
				f.ask(c, http.MethodGet, "/", tc.headers...).want(t, fmt.Sprintf("call %d", i+1), http.StatusOK)
			}
			f.ask(c, http.MethodGet, "/", tc.headers...).want(t, "call 4", http.StatusTooManyRequests)
			if tc.other != nil {
				f.ask(c, http.MethodGet, "/", tc.other...).want(t, "the other's call", http.StatusOK)
			}
		})
	}
}

func TestQuickFormRefuses(t *testing.T) {
	for _, tc := range []struct{ limit, by, what string }{
		{"100", "ip", `limit "100": no period`},
		{"100/fortnight", "ip", `unit "fortnight" is not known`},
		{"100/week fixed_window epoch", "ip", "windows from the epoch"},
		{"100/m", "user", `by: "user" is nothing to count by`},
		{"100/m", "header:", `by: "header:" is nothing to count by`},
		{"100/m", "jwt:sub", `by: "jwt:sub" is nothing to count by`},
	} {
		_, err := Start(Config{Limit: tc.limit, By: tc.by, Upstream: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}}, Deps{})
		if err == nil || !strings.Contains(err.Error(), tc.what) {
			t.Errorf("Start(limit %q, by %q) = %v, want %q", tc.limit, tc.by, err, tc.what)
		}
	}
}

// TestDryRunCountsAndLetsPass also shows that clients are told nothing.
func TestDryRunCountsAndLetsPass(t *testing.T) {
	f := start(t, "", Config{Limit: "3/m", By: "ip", DryRun: true}, Deps{})
	c := client(t, "127.0.0.1")
	for i := range 5 {
		f.ask(c, http.MethodGet, "/").want(t, fmt.Sprintf("call %d", i+1), http.StatusOK, "X-RateLimit-Limit", "", "RateLimit", "")
	}
	f.wantCount(`caudal_decisions_total{domain="default",outcome="allowed",rule="remote_address"} 3`)
	f.wantCount(`caudal_decisions_total{domain="default",outcome="shadow_denied",rule="remote_address"} 2`)
}

func TestNotesAreNoWarnings(t *testing.T) {
	path := t.TempDir() + "/rules.yaml"
	rewrite(t, path, `domain: shop
descriptors:
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { unit: minute, requests_per_unit: 5, algorithm: sliding_log }
`)
	loaded, err := loadRules(&Config{Rules: []string{path}, Upstream: &url.URL{Scheme: "http", Host: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.warnings) == 0 || loaded.warned() != 0 {
		t.Errorf("%d notes count as %d warnings, want some notes and no warning", len(loaded.warnings), loaded.warned())
	}
}
