package identity

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func attribute(t *testing.T, v *Resolver, r *http.Request, name string) (string, bool) {
	t.Helper()
	var q Request
	q.Reset(v, r)
	return q.Attribute(name)
}

func TestAttributes(t *testing.T) {
	v := resolver(t, Options{FoldPathCase: true})
	r := httptest.NewRequest("POST", "http://API.Example.:8443//V1/./Items/?a=1&b=x%20y&c=&d=1&d=1&bad=%zz&sem=1;semi=2&%61b=q+r", nil)
	r.RemoteAddr = "203.0.113.7:1"
	r.Header.Set("User-Agent", "curl/8")
	r.Header.Set("X-Tenant", "Acme")
	r.Header.Set("X-Empty", "")
	r.Header.Set("X-Api-Key", "k1")
	r.Header.Set("Cookie", "session=s1; theme=dark; twice=1; twice=2")
	for name, want := range map[string]string{
		"api_key": "k1", "remote_address": "203.0.113.7", "path": "/v1/items", "method": "POST",
		"host": "api.example", "user_agent": "curl/8", "header:X-Tenant": "Acme", "header:x-tenant": "Acme",
		"header:X-Empty": "", "header:Host": "API.Example.:8443", "cookie:session": "s1",
		"query:a": "1", "query:b": "x y", "query:c": "", "query:d": "1", "query:bad": "%zz",
		"query:sem": "1", "query:semi": "2", "query:ab": "q r",
		"cookie:twice": "\x00\x011\x012",
	} {
		if got, ok := attribute(t, v, r, name); !ok || got != want {
			t.Errorf("Attribute(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"user", "plan", "visitor", "body:email", "jwt:sub", "client_cert:SAN", "header:X-None",
		"cookie:none", "query:none", "header:", "query:", "cookie", "", "nonsense"} {
		if got, ok := attribute(t, v, r, name); ok {
			t.Errorf("Attribute(%q) = %q, true, want absent", name, got)
		}
	}
}

// TestMethodCase: servers that take a method in any case must not have more methods
// than the rules.
func TestMethodCase(t *testing.T) {
	v := resolver(t, Options{})
	for _, sent := range []string{"POST", "post", "Post", "pOsT"} {
		if got, ok := attribute(t, v, &http.Request{Method: sent}, "method"); !ok || got != "POST" {
			t.Errorf("Attribute(method) of %s = %q, %v, want POST", sent, got, ok)
		}
	}
	if got, _ := attribute(t, v, &http.Request{}, "method"); got != "GET" {
		t.Errorf("Attribute(method) of nothing = %q, want GET, as net/http has it", got)
	}
}

func TestHostName(t *testing.T) {
	for in, want := range map[string]string{
		"Example.COM": "example.com", "example.com:80": "example.com", "example.com.": "example.com",
		"[2001:DB8::1]:443": "2001:db8::1", "[::1]": "::1", "::1": "::1", ":80": "", "": "", "a:b:c": "a:b:c",
	} {
		if got := HostName(in); got != want {
			t.Errorf("HostName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestC67DuplicateAPIKeys(t *testing.T) {
	v := resolver(t, Options{})
	for _, c := range []struct {
		keys []string
		want string // "" when there is none
	}{
		{[]string{"a"}, "a"},
		{[]string{"a", "a"}, "a"},
		{[]string{"a", "b"}, ""},
		{[]string{"a", ""}, ""},
		{[]string{""}, ""},
		{[]string{"a:b|{c}\"\xff"}, "a:b|{c}\"\xff"},
		{[]string{strings.Repeat("k", 10<<10)}, strings.Repeat("k", 10<<10)},
	} {
		r := request("203.0.113.7:1")
		r.Header["X-Api-Key"] = c.keys
		if got, ok := attribute(t, v, r, "api_key"); got != c.want || ok != (c.want != "") {
			t.Errorf("api_key of %q = %q, %v, want %q", c.keys, got, ok, c.want)
		}
	}
}

func TestC67DuplicatesOfOthersEqualNoSingleValue(t *testing.T) {
	v := resolver(t, Options{})
	seen := map[string]string{}
	for _, query := range []string{"k=a&k=b", "k=ab", "k=a,b", "k=%00%01a%01b", "k=b&k=a", "k=a&k=b&k=", "k=%00", "k="} {
		got, ok := attribute(t, v, httptest.NewRequest("GET", "/?"+query, nil), "query:k")
		if other, dup := seen[got]; dup || !ok {
			t.Errorf("query:k of %q = %q, %v, the same as of %q", query, got, ok, other)
		}
		seen[got] = query
	}
}

func TestBearerAPIKey(t *testing.T) {
	bearer := resolver(t, Options{BearerAPIKey: true, APIKeyHeader: "x-token"})
	for _, c := range []struct {
		v      *Resolver
		header []string
		want   string
	}{
		{bearer, []string{"Authorization", "Bearer tok"}, "tok"},
		{bearer, []string{"Authorization", "bearer  tok"}, "tok"},
		{bearer, []string{"Authorization", "Basic abc"}, ""},
		{bearer, []string{"Authorization", "Bearer a", "Authorization", "Bearer b"}, ""},
		{bearer, []string{"X-Token", "k"}, "k"},
		{bearer, []string{"X-Token", "k", "X-Token", "other"}, ""},
		{bearer, []string{"Authorization", "Bearer tok", "X-Token", "tok"}, "tok"},
		{bearer, []string{"Authorization", "Basic abc", "X-Token", "k"}, "k"},
		// The API may read the one, and count nothing by the other.
		{bearer, []string{"Authorization", "Bearer tok", "X-Token", "made-up"}, ""},
		{bearer, []string{"Authorization", "Bearer tok", "Authorization", "Basic abc"}, "tok"},
		{resolver(t, Options{}), []string{"Authorization", "Bearer tok"}, ""},
	} {
		if got, _ := attribute(t, c.v, request("203.0.113.7:1", c.header...), "api_key"); got != c.want {
			t.Errorf("api_key of %q = %q, want %q", c.header, got, c.want)
		}
	}
}

func TestCommonAttributesDoNotAllocate(t *testing.T) {
	v := resolver(t, Options{}, "10.0.0.0/8")
	r := request("10.0.0.9:1", "X-Forwarded-For", "203.0.113.7", "X-Api-Key", "k", "User-Agent", "x", "X-Tenant", "t")
	r.URL.RawQuery = "a=1&page=2"
	var q Request
	if n := testing.AllocsPerRun(100, func() {
		q.Reset(v, r)
		for _, name := range []string{"api_key", "path", "method", "host", "user_agent", "header:X-Tenant", "query:page"} {
			if _, ok := q.Attribute(name); !ok {
				t.Fatalf("Attribute(%q) is absent", name)
			}
		}
		q.Address()
	}); n != 0 {
		t.Errorf("reading the common attributes allocates %v times, want 0", n)
	}
}
