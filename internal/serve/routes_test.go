package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/gateway"
)

// perMinute is a domain that lets one address through so many times.
func perMinute(domain string, n int) string {
	return fmt.Sprintf("domain: %s\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: %d }\n", domain, n)
}

func says(t *testing.T, name string) *url.URL {
	return upstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
}

// startRoutes is start for routes, with one file for each domain.
func startRoutes(t *testing.T, c Config, rules ...string) *fixture {
	t.Helper()
	for _, text := range rules {
		c.Rules = append(c.Rules, writeRules(t, text))
	}
	return start(t, "", c, Deps{})
}

func TestRoutesHaveDomains(t *testing.T) {
	shop, api := says(t, "shop"), says(t, "api")
	f := startRoutes(t, Config{Routes: []Route{
		{Route: gateway.Route{Upstream: shop}, Domain: "shop"},
		{Route: gateway.Route{Path: "/api", Upstream: api}, Domain: "api"},
	}}, perMinute("shop", 1), perMinute("api", 2))
	c := client(t, "127.0.0.1")
	for i, want := range []struct {
		path   string
		status int
		body   string
	}{{"/", 200, "shop"}, {"/", 429, ""}, {"/api", 200, "api"}, {"/api/x", 200, "api"}, {"/api", 429, ""}, {"/", 429, ""}} {
		got := f.ask(c, "GET", want.path)
		got.want(t, fmt.Sprintf("call %d of %s", i, want.path), want.status)
		if want.body != "" && got.body != want.body {
			t.Errorf("call %d of %s reached %q, want %q", i, want.path, got.body, want.body)
		}
	}
	f.wantCount(`caudal_decisions_total{domain="api",outcome="denied",rule="remote_address"} 1`)

	// A changed limit of a route's domain comes in force.
	rewrite(t, f.config.Rules[1], perMinute("api", 3))
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	f.ask(c, "GET", "/api").want(t, "the third call after the reload", 200)
	f.ask(c, "GET", "/api").want(t, "the fourth", 429)

	// Rules without the domain of a route are refused, and the last good ones stay.
	rewrite(t, f.config.Rules[1], perMinute("other", 3))
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), `routes: domain "api" is not among the rules: they hold other, shop`) {
		t.Errorf("Reload without the domain of a route = %v", err)
	}
	f.ask(c, "GET", "/api").want(t, "the fifth, under the last good rules", 429)
}

func TestRouteWithoutDomainNeedsOne(t *testing.T) {
	routes := []Route{{Route: gateway.Route{Upstream: says(t, "a")}, Domain: "shop"}, {Route: gateway.Route{Path: "/api", Upstream: says(t, "b")}}}
	c := Config{Routes: routes, Rules: []string{writeRules(t, perMinute("shop", 1)), writeRules(t, perMinute("api", 1))}, Listen: "127.0.0.1:0", AdminListen: Off}
	if s, err := Start(c, Deps{}); err == nil || !strings.Contains(err.Error(), "hold 2 domains and none is named") {
		t.Errorf("Start = %v, want it to ask for a domain", err)
		_ = s.Close()
	}
	c.Domain = "api"
	f := startRoutes(t, c)
	f.ask(client(t, "127.0.0.1"), "GET", "/api").want(t, "the usual domain", 200)
	f.ask(client(t, "127.0.0.1"), "GET", "/").want(t, "the route's own", 200)
	f.ask(client(t, "127.0.0.1"), "GET", "/api").want(t, "the usual domain, used up", 429)
}

// TestC78ProbesOnBothPorts: probes come every 10 s for 10 minutes under a limit that
// would let five of them through.
func TestC78ProbesOnBothPorts(t *testing.T) {
	f := start(t, perMinute("d", 5), Config{}, Deps{})
	c := client(t, "127.0.0.1")
	for range 60 {
		f.ask(c, "GET", "/healthz").want(t, "probe through the gateway", 200, "RateLimit", "")
		f.readAdmin("/readyz").want(t, "probe of the admin listener", 200)
	}
	for range 5 {
		f.ask(c, "GET", "/").want(t, "call", 200)
	}
	f.ask(c, "GET", "/").want(t, "6th call", 429)
	f = start(t, perMinute("d", 1), Config{ExemptPaths: []string{}}, Deps{})
	f.ask(c, "GET", "/healthz").want(t, "with nothing exempt", 200)
	f.ask(c, "GET", "/healthz").want(t, "with nothing exempt, again", 429)
}

// TestGatewayOnASocket: it serves there as on a port, and leaves nothing behind.
func TestGatewayOnASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "gateway.sock")
	s, err := Start(Config{Text: perMinute("d", 1), TextName: "rules", Upstream: says(t, "here"), Listen: "unix:" + socket, AdminListen: Off},
		Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	if got := do(t, c, "GET", "http://gateway/"); got.status != 200 || got.body != "here" {
		t.Errorf("a call on the socket = %d %q, want 200 here", got.status, got.body)
	}
	do(t, c, "GET", "http://gateway/").want(t, "the second", 429)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}
