package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// named is an upstream that answers with its name and what it was asked for.
func named(t *testing.T, name string) *url.URL {
	t.Helper()
	return mustURL(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", name, r.RequestURI)
	})))
}

func TestRoutes(t *testing.T) {
	a, b, c, d := named(t, "a"), named(t, "b"), named(t, "c"), named(t, "d")
	gw := start(t, Options{Routes: []Route{
		{Upstream: a},
		{Path: "/api", Upstream: b},
		{Path: "/api/v2", Upstream: c, StripPath: true},
		{Host: "*.example.com", Path: "/api", Upstream: d},
		{Host: "*.eu.example.com", Upstream: c},
		{Host: "shop.example.com", Path: "/cart", Upstream: b},
	}})
	for _, row := range []struct{ host, target, want, why string }{
		{"x", "/", "a /", "nothing else takes it"},
		{"x", "/apis", "a /apis", "whole segments"},
		{"x", "/api", "b /api", "the prefix itself"},
		{"x", "/api/", "b /api/", "a trailing slash is kept"},
		{"x", "/api/v1?q=1", "b /api/v1?q=1", ""},
		{"x", "/api/v2", "c /", "stripped to nothing"},
		{"x", "/api/v2/", "c /", ""},
		{"x", "/api/v2/users?q=/api/v2", "c /users?q=/api/v2", "the longest path, stripped"},
		{"x", "/api/v1/../v2/%75sers", "c /users", "compared as it is forwarded"},
		{"x", "//api//v2/a%2Fb", "c /a%2Fb", ""},
		{"x", "/API/v2", "a /API/v2", "letter case counts unless it is folded"},
		{"www.example.com", "/api/v2", "d /api/v2", "the host comes before the path"},
		{"WWW.Example.COM.:8000", "/api", "d /api", "hosts in any spelling"},
		{"example.com", "/api", "b /api", "a wildcard needs a name below"},
		{"evilexample.com", "/api", "b /api", ""},
		{"a.eu.example.com", "/api", "c /api", "the longest suffix"},
		{"shop.example.com", "/cart/1", "b /cart/1", "an exact host"},
		{"shop.example.com", "/api", "d /api", "a host without a route for the path gives way to the next"},
		{"shop.example.com", "/", "a /", ""},
	} {
		res := raw(t, gw, strings.Replace(line("GET", row.target), "api.example", row.host, 1))
		if got := text(res); got != row.want {
			t.Errorf("GET %s of %s reached %q, want %q: %s", row.target, row.host, got, row.want, row.why)
		}
	}
}

// TestC88RoutesAreNotEvaded: a route with tighter limits than the one beside it
// takes every spelling that its upstream may understand as its own.
func TestC88RoutesAreNotEvaded(t *testing.T) {
	const strict = "domain: strict\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 1, algorithm: sliding_log }\n"
	for _, target := range []string{"/login", "/login/", "//login", "/x/../login", "/%6cogin", "/login;v=1", "/login;v=1/", "/login%2F", "/%2Flogin", "/LOGIN", "/login/a"} {
		v := who(t, identity.Options{FoldPathCase: true})
		up := named(t, "u")
		gw := start(t, Options{Identity: v, Limits: limits(t, plenty, v, httplimit.Options{}), Routes: []Route{
			{Upstream: up}, {Path: "/login", Upstream: up, Limits: limits(t, strict, v, httplimit.Options{})}}})
		wantStatus(t, "1st "+target, raw(t, gw, line("GET", target)), 200)
		wantStatus(t, "2nd "+target, raw(t, gw, line("GET", "/login")), 429)
		wantStatus(t, "3rd "+target, raw(t, gw, line("GET", target)), 429)
	}
}

func TestC88AmbiguousPathsHaveNoRoute(t *testing.T) {
	v := who(t, identity.Options{})
	routed := start(t, Options{Identity: v, Routes: []Route{{Upstream: named(t, "a")}, {Path: "/api", Upstream: named(t, "b"), StripPath: true}}})
	base := named(t, "c")
	base.Path = "/base"
	based := start(t, Options{Identity: v, Upstream: base})
	for _, target := range []string{"/api/..%2Fadmin", "/api/..;/admin", "/x/..%2f..%2f"} {
		wantStatus(t, "routes by path, "+target, raw(t, routed, line("GET", target)), 400)
		wantStatus(t, "an upstream with a path, "+target, raw(t, based, line("GET", target)), 400)
	}
	// What is to be stripped does not stand there as such.
	wantStatus(t, "/api;v=1/x", raw(t, routed, line("GET", "/api;v=1/x")), 400)
	wantStatus(t, "/api%2Fx", raw(t, routed, line("GET", "/api%2Fx")), 400)
}

func TestNoRoute(t *testing.T) {
	v := who(t, identity.Options{})
	gw := start(t, Options{Identity: v, Limits: limits(t, login, v, httplimit.Options{}), Routes: []Route{{Host: "api.example", Path: "/api", Upstream: named(t, "a")}}})
	for range 5 { // charged nothing
		wantStatus(t, "a host that nobody serves", raw(t, gw, "GET /api/login HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n"), 404)
		wantStatus(t, "a path that nobody serves", raw(t, gw, line("GET", "/other")), 404)
	}
	wantStatus(t, "the route", raw(t, gw, line("GET", "/api/login")), 200)
}

func TestRoutesRefused(t *testing.T) {
	u := &url.URL{Scheme: "http", Host: "a"}
	for want, o := range map[string]Options{
		"both Upstream and Routes":                           {Upstream: u, Routes: []Route{{Upstream: u}}},
		"route */: no upstream":                              {Routes: []Route{{}}},
		"route a/x: stands twice":                            {Routes: []Route{{Host: "a", Path: "/x", Upstream: u}, {Host: "a", Path: "/x", Upstream: u}}},
		`"A.example" is not how hosts are compared: write`:   {Routes: []Route{{Host: "A.example", Upstream: u}}},
		`"a:80" is no host`:                                  {Routes: []Route{{Host: "a:80", Upstream: u}}},
		`"*" is no host`:                                     {Routes: []Route{{Host: "*", Upstream: u}}},
		`"a.*" is no host`:                                   {Routes: []Route{{Host: "a.*", Upstream: u}}},
		`"api" begins no path`:                               {Routes: []Route{{Path: "api", Upstream: u}}},
		`"/api/*" begins no path`:                            {Routes: []Route{{Path: "/api/*", Upstream: u}}},
		`"/api/" is not how paths are compared: write it as`: {Routes: []Route{{Path: "/api/", Upstream: u}}},
		`"/a//b" is not how paths are forwarded: write`:      {Routes: []Route{{Upstream: u, Exempt: []string{"/a//b"}}}},
		`"/health/*" is no path`:                             {Upstream: u, Exempt: []string{"/health/*"}},
		"11 retries: there may be 10":                        {Upstream: u, Retries: Retries{Max: 11}},
		"retried status 429":                                 {Upstream: u, Retries: Retries{Max: 1, Statuses: []int{429}}},
		"1001 routes":                                        {Routes: make([]Route, 1001)},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "gateway: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v) error = %v, want one with %q", o, err, want)
		}
	}
}

// TestC78ProbesAreNotLimited: a probe of an exempt path always gets through, and
// nothing else does by looking like one.
func TestC78ProbesAreNotLimited(t *testing.T) {
	v := who(t, identity.Options{})
	gw := serve(t, echo, Options{Identity: v, Exempt: []string{"/healthz"},
		Limits: limits(t, "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 5 }\n", v, httplimit.Options{})})
	for i := range 60 { // every 10 s for 10 minutes, on a clock that never refills
		res := do(t, []string{"GET", "HEAD"}[i%2], gw+"/healthz", nil)
		wantStatus(t, "probe", res, 200)
		if res.Header["Ratelimit"] != nil {
			t.Fatalf("probe has RateLimit %q, want none: it was not limited", res.Header["Ratelimit"])
		}
	}
	for _, target := range []string{"/healthz/", "/healthz/../x", "/healthz;x", "/healthz%2Fx", "/HEALTHZ"} {
		wantStatus(t, target, raw(t, gw, line("GET", target)), 200)
	}
	wantStatus(t, "a 6th call that is not the probe", raw(t, gw, line("GET", "/healthz/")), 429)
	wantStatus(t, "POST", raw(t, gw, line("POST", "/healthz")), 429)
	wantStatus(t, "the probe in another spelling of what is forwarded", raw(t, gw, line("GET", "/x/..//%68ealthz?q")), 200)
}
