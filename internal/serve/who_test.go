package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/caudal-dev/caudal/identity"
)

func keyLine(key, user, plan string) string {
	return fmt.Sprintf(`{"hash":%q,"user":%q,"plan":%q}`+"\n", identity.HashKey(key), user, plan)
}

// byKey allows each key 3 calls a minute, pro ones 5; whoever has no key counts by
// address.
const byKey = `domain: shop
descriptors:
  - key: api_key
    rate_limit: { unit: minute, requests_per_unit: 3 }
  - key: plan
    value: pro
    descriptors:
      - key: user
        rate_limit: { unit: minute, requests_per_unit: 2 }
`

func withKeys(t *testing.T, rules, text string) (*fixture, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.jsonl")
	rewrite(t, file, text)
	return start(t, rules, Config{Who: Who{Keys: file}}, Deps{}), file
}

// TestC65MadeUpKeysShareTheAddress: with a keys file, 30 requests that each bring
// another key count as requests without one.
func TestC65MadeUpKeysShareTheAddress(t *testing.T) {
	f, _ := withKeys(t, byKey, keyLine("k1", "acme", "free"))
	c := client(t, "127.0.0.1")
	passed := 0
	for i := range 30 {
		if f.ask(c, "GET", "/", "X-Api-Key", fmt.Sprint("made-up-", i)).status == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d of 30 requests with made-up keys passed, want the 3 of the address", passed)
	}
	for range 3 {
		f.ask(c, "GET", "/", "X-Api-Key", "k1").want(t, "a known key", 200)
	}
	f.ask(c, "GET", "/", "X-Api-Key", "k1").want(t, "a known key", 429)
	if strings.Contains(f.log.String(), "no-address-ceiling") {
		t.Errorf("the log warns of made-up keys although none count:\n%s", f.log)
	}
	f.wantCount("caudal_api_keys 1")
}

// TestPlanAndUserFollowFromTheKey: two keys of one user share what the user has.
func TestPlanAndUserFollowFromTheKey(t *testing.T) {
	f, _ := withKeys(t, byKey, keyLine("k1", "acme", "pro")+keyLine("k2", "acme", "pro"))
	c := client(t, "127.0.0.1")
	f.ask(c, "GET", "/", "X-Api-Key", "k1").want(t, "the first key", 200)
	f.ask(c, "GET", "/", "X-Api-Key", "k2").want(t, "the second key", 200)
	f.ask(c, "GET", "/", "X-Api-Key", "k1").want(t, "the first key again", 429)
}

// TestNumbersOfOneKey: a key has more than the rules give, in the same counter.
func TestNumbersOfOneKey(t *testing.T) {
	const rules = `domain: shop
descriptors:
  - key: api_key
    rate_limits:
      - { name: rate, unit: minute, requests_per_unit: 2, burst: 1 }
      - { name: day, unit: day, requests_per_unit: 4, algorithm: fixed_window }
  - key: path
    value: /all
    rate_limit: { name: all, unit: hour, requests_per_unit: 100, algorithm: fixed_window }
`
	line := func(key, limits string) string {
		return fmt.Sprintf(`{"hash":%q,"limits":%s}`+"\n", identity.HashKey(key), limits)
	}
	f, file := withKeys(t, rules, line("k1", `{"rate":20,"day":3}`)+line("k2", `{}`)+line("k3", `{"all":1,"nobody":1,"day":5}`))
	c := client(t, "127.0.0.1")
	passed := func(key string) int {
		n := 0
		for range 20 {
			if f.ask(c, "GET", "/", "X-Api-Key", key).status == 200 {
				n++
			}
		}
		return n
	}
	if n := passed("k2"); n != 1 {
		t.Errorf("%d of 20 calls of a key without numbers pass, want the burst of 1", n)
	}
	if n := passed("k1"); n != 3 {
		t.Errorf("%d of 20 calls of a key with numbers pass, want its 3 of the day", n)
	}
	for _, what := range []string{"limit=all", "limit=nobody"} {
		f.wantLogged("does not act\" "+what, 1)
	}
	f.wantLogged("does not act", 2)
	rewrite(t, file, line("k1", `{"rate":20,"day":5}`))
	if err := f.reloadWho(); err != nil {
		t.Fatal(err)
	}
	if n := passed("k1"); n != 2 {
		t.Errorf("%d of 20 calls pass when the day becomes 5, want the 2 that are left", n)
	}
	f.wantCount(`caudal_decisions_total{domain="shop",outcome="allowed",rule="day"} 6`)
}

func TestKeysReload(t *testing.T) {
	f, file := withKeys(t, byKey, keyLine("k1", "acme", "free"))
	c := client(t, "127.0.0.1")
	for range 4 {
		f.ask(c, "GET", "/") // the address has nothing left
	}
	known := func(key string) bool { return f.ask(c, "GET", "/", "X-Api-Key", key).status == 200 }
	if !known("k1") || known("k2") {
		t.Fatal("want k1 known and k2 not")
	}
	rewrite(t, file, keyLine("k2", "globex", "free"))
	if err := f.reloadWho(); err != nil {
		t.Fatal(err)
	}
	if known("k1") || !known("k2") {
		t.Error("after a reload: want k2 known and k1 revoked")
	}
	rewrite(t, file, "{}")
	if err := f.reloadWho(); err == nil || !known("k2") {
		t.Errorf("reload of a bad file = %v, want an error and the last good keys", err)
	}
	if !strings.Contains(f.log.String(), "the last good one stays in force") {
		t.Errorf("the log does not say that keys were not reloaded:\n%s", f.log)
	}
	rewrite(t, file, "") // as a full disk leaves it
	if err := f.reloadWho(); err == nil || !known("k2") {
		t.Errorf("reload of a file with no bytes = %v, want an error and the last good keys", err)
	}
	rewrite(t, file, "# none\n")
	if err := f.reloadWho(); err != nil || known("k2") {
		t.Errorf("reload of a file that says that there are no keys = %v, want none known", err)
	}
}

// TestKeysAreWatched: a changed file is read once it looks the same twice.
func TestKeysAreWatched(t *testing.T) {
	f, file := withKeys(t, byKey, keyLine("k1", "acme", "free"))
	rewrite(t, file+".new", keyLine("k1", "acme", "free")+keyLine("k2", "globex", "free"))
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	f.lookWho()
	if n := f.who.keys.Keys().Len(); n != 1 {
		t.Errorf("%d keys while the file may still be written, want 1", n)
	}
	f.lookWho()
	if n := f.who.keys.Keys().Len(); n != 2 {
		t.Errorf("%d keys once the file has come to rest, want 2", n)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	f.lookWho()
	if n := f.who.keys.Keys().Len(); n != 2 {
		t.Errorf("%d keys when the file is gone, want the last good 2", n)
	}
}

// byUser limits users; who is none shares what the address has.
const byUser = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 10 }
  - key: user
    missing: skip
    rate_limit: { unit: minute, requests_per_unit: 2 }
`

// TestC90UserLimitsNeedAVerifiedUser: random tokens never get past the address's
// limit, and use up nobody's count.
func TestC90UserLimitsNeedAVerifiedUser(t *testing.T) {
	secret := strings.Repeat("secret!!", 8)
	file := filepath.Join(t.TempDir(), "jwt")
	rewrite(t, file, secret)
	f := start(t, byUser, Config{Who: Who{Tokens: identity.TokenOptions{KeyFile: file}}}, Deps{})
	sign := func(user, key string) string {
		s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": user, "exp": f.clock.now.Add(time.Hour).Unix()}).SignedString([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + s
	}
	c, other := client(t, "127.0.0.1"), client(t, "127.0.0.2")
	passed := 0
	for i := range 30 {
		if f.ask(c, "POST", "/login", "Authorization", sign("ann", strings.Repeat(fmt.Sprint("guess", i), 8))).status == 200 {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("%d of 30 requests with made-up tokens passed, want the 10 of the address", passed)
	}
	for range 2 {
		f.ask(other, "GET", "/", "Authorization", sign("ann", secret)).want(t, "a verified user", 200)
	}
	f.ask(other, "GET", "/", "Authorization", sign("ann", secret)).want(t, "a verified user", 429)
	f.ask(other, "GET", "/", "Authorization", sign("bob", secret)).want(t, "another user", 200)
}

func TestUserHeaderOfAProxy(t *testing.T) {
	var seen http.Header
	up := upstream(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }))
	f := start(t, byUser, Config{Upstream: up, TrustedProxies: localNetworks(), Who: Who{UserHeader: "X-User"}}, Deps{})
	c := client(t, "127.0.0.1")
	for range 2 {
		f.ask(c, "GET", "/", "X-User", "ann", "X-Forwarded-For", "192.0.2.1").want(t, "a user", 200)
	}
	if seen.Get("X-User") != "ann" {
		t.Errorf("the upstream sees the user %q, want ann", seen.Get("X-User"))
	}
	f.ask(c, "GET", "/", "X-User", "ann", "X-Forwarded-For", "192.0.2.2").want(t, "the user elsewhere", 429)
	if _, err := Start(Config{Upstream: up, Limit: "1/s", Who: Who{UserHeader: "X-User"}}, Deps{}); err == nil || !strings.Contains(err.Error(), "trusted proxies") {
		t.Errorf("Start with a user header and no trusted proxy = %v, want an error", err)
	}
	direct := start(t, byUser, Config{Upstream: up, TrustedProxies: localNetworks()[:0], Limit: ""}, Deps{})
	direct.ask(c, "GET", "/", "X-User", "ann").want(t, "no user header is set", 200)
}

// byVisitor gives each visitor 3 calls a minute; who is none yet shares what the
// address has for such.
const byVisitor = `domain: shop
descriptors:
  - key: visitor
    missing: ip
    rate_limit: { unit: minute, requests_per_unit: 3, algorithm: sliding_log }
`

func cookieOf(a answer) string {
	value, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return value
}

func TestVisitors(t *testing.T) {
	f := start(t, byVisitor, Config{Who: Who{Visitor: true, VisitorNew: 2}}, Deps{})
	c := client(t, "127.0.0.1")
	first := f.ask(c, "GET", "/")
	first.want(t, "a newcomer", 200)
	if got := first.header.Get("Set-Cookie"); !strings.HasPrefix(got, "caudal_visitor=") || !strings.Contains(got, "; HttpOnly; SameSite=Lax") || strings.Contains(got, "Secure") {
		t.Errorf("Set-Cookie = %q, want a visitor's", got)
	}
	second := f.ask(c, "GET", "/")
	if third := f.ask(c, "GET", "/"); cookieOf(second) == "" || cookieOf(second) == cookieOf(first) || cookieOf(third) != "" {
		t.Errorf("newcomers got %q, %q and %q, want two cookies and none", cookieOf(first), cookieOf(second), cookieOf(third))
	}
	denied := f.ask(c, "GET", "/")
	denied.want(t, "a fourth newcomer", 429)
	if got := cookieOf(denied); got != "" {
		t.Errorf("a denied newcomer got %q, want no cookie", got)
	}
	// Who has come back has a bucket of its own.
	for range 3 {
		back := f.ask(c, "GET", "/", "Cookie", cookieOf(first))
		back.want(t, "a visitor who has come back", 200)
		if got := cookieOf(back); got != "" {
			t.Errorf("a visitor with a cookie got %q, want none", got)
		}
	}
	f.ask(c, "GET", "/", "Cookie", cookieOf(first)).want(t, "the fourth time", 429)
	f.ask(c, "GET", "/", "Cookie", "caudal_visitor=made-up").want(t, "a made-up cookie", 429)
	f.ask(client(t, "127.0.0.2"), "GET", "/").want(t, "a newcomer elsewhere", 200)
	f.clock.advance(25 * time.Hour)
	renewed := f.ask(c, "GET", "/", "Cookie", cookieOf(second))
	if got := cookieOf(renewed); got == "" || got == cookieOf(second) {
		t.Errorf("a day later the cookie becomes %q, want it renewed", got)
	}
}

func TestVisitorCookieAndCaches(t *testing.T) {
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "public, max-age=60") }))
	f := start(t, byVisitor, Config{Upstream: up, TrustedProxies: localNetworks(), Who: Who{Visitor: true}}, Deps{})
	if got := cookieOf(f.ask(client(t, "127.0.0.1"), "GET", "/", "X-Forwarded-For", "192.0.2.1")); got != "" {
		t.Errorf("a response for caches sets %q, want no cookie", got)
	}
	plain := start(t, byVisitor, Config{TrustedProxies: localNetworks(), Who: Who{Visitor: true}}, Deps{})
	over := plain.ask(client(t, "127.0.0.1"), "GET", "/", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https")
	if got := over.header.Get("Set-Cookie"); !strings.Contains(got, "; Secure") {
		t.Errorf("Set-Cookie behind a proxy with TLS = %q, want it Secure", got)
	}
}

// TestManyAttemptsOnOneAccount: whoever tries passwords of one account, from however
// many addresses, is held at the account's limit; the body arrives whole.
func TestManyAttemptsOnOneAccount(t *testing.T) {
	f := start(t, `domain: shop
descriptors:
  - key: path
    value: /login
    descriptors:
      - key: 'body:email'
        missing: ip
        rate_limit: { unit: hour, requests_per_unit: 5, algorithm: sliding_log }
`, Config{TrustedProxies: localNetworks()}, Deps{})
	c := client(t, "127.0.0.1")
	login := func(from, email string) (int, string) {
		t.Helper()
		body := fmt.Sprintf(`{"email":%q,"password":"guess"}`, email)
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+f.Addr()+"/login", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-For", from)
		a := send(t, c, r)
		if a.status == 200 && a.body != body {
			t.Errorf("the upstream got %q, want %q", a.body, body)
		}
		return a.status, a.body
	}
	passed := 0
	for i := range 40 {
		if status, _ := login(fmt.Sprintf("198.51.100.%d", i), "ann@id.example"); status == 200 {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d of 40 attempts on one account passed, want 5", passed)
	}
	if status, _ := login("198.51.100.1", "bob@id.example"); status != 200 {
		t.Errorf("another account = %d, want 200", status)
	}
}

// TestC62OneClientHoweverItIsWritten: a port, brackets and spaces make no new client.
func TestC62OneClientHoweverItIsWritten(t *testing.T) {
	f := start(t, "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 3 }\n",
		Config{TrustedProxies: localNetworks()}, Deps{})
	c := client(t, "127.0.0.1")
	for i, from := range []string{"203.0.113.7", "203.0.113.7:51234", " 203.0.113.7 ", "::ffff:203.0.113.7", "[::ffff:203.0.113.7]:9"} {
		want := 200
		if i >= 3 {
			want = 429
		}
		f.ask(c, "GET", "/", "X-Forwarded-For", from).want(t, from, want)
	}
	for i := range 4 {
		from := fmt.Sprintf("[2001:db8::%d]:44%d", i+1, i)
		want := 200
		if i >= 3 {
			want = 429
		}
		f.ask(c, "GET", "/", "X-Forwarded-For", from).want(t, from, want)
	}
	// What is no address is nobody new: the proxy itself counts.
	for i, from := range []string{"unknown", "_hidden", "203.0.113.007", "junk:1"} {
		want := 200
		if i >= 3 {
			want = 429
		}
		f.ask(c, "GET", "/", "X-Forwarded-For", from).want(t, from, want)
	}
}

// TestC67OddKeys: keys of any form are told apart, also long ones that begin alike.
func TestC67OddKeys(t *testing.T) {
	long := strings.Repeat("k", 10<<10)
	keys := []string{"a:b", "a|b", "{a}", "a b", "a\xff", "A:B", long + "1", long + "2"}
	text := ""
	for _, k := range keys {
		text += keyLine(k, "ann", "free")
	}
	f, _ := withKeys(t, "domain: d\ndescriptors:\n  - key: api_key\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n", text)
	c := client(t, "127.0.0.1")
	for _, k := range keys {
		f.ask(c, "GET", "/", "X-Api-Key", k).want(t, fmt.Sprintf("the first call of %.20q", k), 200)
		f.ask(c, "GET", "/", "X-Api-Key", k).want(t, fmt.Sprintf("the second call of %.20q", k), 429)
	}
}
