package gateway

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// TestPlansOfAKeysFile: the rules of examples/plans over real sockets, with plans,
// users and one key's own number from a keys file.
func TestPlansOfAKeysFile(t *testing.T) {
	rules, err := os.ReadFile("../examples/plans/rules/plans.yaml")
	if err != nil {
		t.Fatal(err)
	}
	line := func(key, rest string) string { return fmt.Sprintf("{\"hash\":%q%s}\n", identity.HashKey(key), rest) }
	keys, err := identity.ReadKeys("keys.jsonl", strings.NewReader(line("k-free", `,"user":"f","plan":"free"`)+
		line("k-pro", `,"user":"p","plan":"pro"`)+line("k-own", `,"user":"o","plan":"pro","limits":{"pro-day":3}`)+
		line("k-acme", `,"user":"acme","plan":"pro"`)+line("k-gold", `,"user":"g","plan":"gold"`)))
	if err != nil {
		t.Fatal(err)
	}
	ring := new(identity.KeyRing)
	ring.Set(keys)
	v := who(t, identity.Options{Keys: ring})
	c := newClock() // 12:00 UTC, 11 hours before midnight in Madrid
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		Options{Limits: limits(t, string(rules), v, httplimit.Options{Clock: c}), Identity: v})
	names := regexp.MustCompile(`"([^"]+)";q=`)
	for _, step := range []struct{ key, want string }{
		{"k-free", "address-ceiling free-rate free-day free-month"},
		{"k-pro", "address-ceiling pro-rate pro-day pro-month"},
		{"k-acme", "address-ceiling pro-day acme-rate acme-month"},
		{"k-gold", "address-ceiling default-rate default-day default-month"},
		{"made-up", "address-ceiling default-rate default-day default-month"},
		{"", "address-ceiling default-rate default-day default-month"},
	} {
		res := do(t, "GET", url+"/v1/items", nil, "X-Api-Key", step.key)
		wantStatus(t, "a call with key "+step.key, res, 200)
		var got []string
		for _, m := range names.FindAllStringSubmatch(res.Header.Get("Ratelimit-Policy"), -1) {
			got = append(got, m[1])
		}
		if s := strings.Join(got, " "); s != step.want {
			t.Errorf("key %q meets %s, want %s", step.key, s, step.want)
		}
	}
	// Made-up keys and none share what their address has: two calls of it are used.
	res := do(t, "GET", url+"/v1/items", nil, "X-Api-Key", "another")
	wantHeaders(t, "another made-up key", res.Header, map[string]string{"X-Ratelimit-Limit": "10", "X-Ratelimit-Remaining": "7"})
	for i := range 3 {
		res := do(t, "GET", url+"/v1/items", nil, "X-Api-Key", "k-own")
		wantStatus(t, "a call within a key's own number", res, 200)
		wantHeaders(t, "a key's own number", res.Header, map[string]string{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": fmt.Sprint(2 - i)})
	}
	res = do(t, "GET", url+"/v1/items", nil, "X-Api-Key", "k-own")
	wantStatus(t, "the call after", res, 429)
	wantHeaders(t, "the call after", res.Header, map[string]string{"Retry-After": "39600"})
	c.set(time.Date(2026, 3, 10, 23, 0, 0, 0, time.UTC))
	wantStatus(t, "the day after in Madrid", do(t, "GET", url+"/v1/items", nil, "X-Api-Key", "k-own"), 200)
}
