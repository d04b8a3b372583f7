package serve

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/identity"
)

func (f *fixture) wantLogged(what string, times int) {
	f.t.Helper()
	if n := strings.Count(f.log.String(), what); n != times {
		f.t.Errorf("the log says %d times %q, want %d:\n%s", n, what, times, f.log)
	}
}

const byAddress = "domain: shop\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 100000 }\n"

func TestC60UntrustedForwardedForIsNoticed(t *testing.T) {
	f := start(t, byAddress, Config{}, Deps{})
	c := client(t, "127.0.0.1")
	f.ask(c, "GET", "/")
	f.wantLogged("a peer that is not trusted names a client", 0)
	for range 3 {
		f.ask(c, "GET", "/", "X-Forwarded-For", "192.0.2.1")
	}
	f.wantLogged("a peer that is not trusted names a client", 1)
}

// TestC64OneAddressForAllIsNoticed: a proxy that does not name its clients makes one
// of them all, and so does one that nobody trusts.
func TestC64OneAddressForAllIsNoticed(t *testing.T) {
	f := start(t, byAddress, Config{TrustedProxies: localNetworks()}, Deps{})
	c := client(t, "127.0.0.1")
	f.ask(c, "GET", "/", "X-Forwarded-For", "192.0.2.1")
	f.wantLogged("a trusted proxy", 0)
	for range 2 {
		f.ask(c, "GET", "/", "Forwarded", "for=192.0.2.1")
		f.ask(c, "GET", "/")
	}
	f.wantLogged("names its client in the header Forwarded", 1)
	f.wantLogged("a trusted proxy does not name its client", 1)

	alone := start(t, byAddress, Config{}, Deps{})
	for range oneClientAfter {
		alone.ask(c, "GET", "/")
	}
	alone.wantLogged("all requests so far count as one client's", 1)
	several := start(t, byAddress, Config{}, Deps{})
	several.ask(client(t, "127.0.0.2"), "GET", "/")
	for range oneClientAfter {
		several.ask(c, "GET", "/")
	}
	several.wantLogged("all requests so far count as one client's", 0)
}

func TestC62PortInAHeaderIsNoticed(t *testing.T) {
	f := start(t, "domain: shop\ndescriptors:\n  - key: 'header:X-Client'\n    rate_limit: { unit: minute, requests_per_unit: 100 }\n", Config{}, Deps{})
	c := client(t, "127.0.0.1")
	for _, value := range []string{"192.0.2.1", "2001:db8::1", "ann", "a:1", ""} {
		f.ask(c, "GET", "/", "X-Client", value, "X-Other", "192.0.2.1:70")
	}
	f.wantLogged("an address with a port", 0)
	for i := range 3 {
		f.ask(c, "GET", "/", "X-Client", fmt.Sprint("192.0.2.1:", 70+i))
	}
	f.wantLogged("an address with a port", 1)
}

func TestAttributesThatNobodyHasAreNoticed(t *testing.T) {
	rules := "domain: shop\ndescriptors:\n"
	for _, key := range []string{"user", "plan", "jwt:sub", "visitor", "client_cert:san", "body:email", "api_key"} {
		rules += fmt.Sprintf("  - key: '%s'\n    rate_limit: { unit: minute, requests_per_unit: 100 }\n", key)
	}
	f := start(t, rules, Config{}, Deps{})
	f.wantLogged("no request to the gateway has", 5)
	g := start(t, rules, Config{TrustedProxies: localNetworks(), Who: Who{UserHeader: "X-User", PlanHeader: "X-Plan", Visitor: true}}, Deps{})
	g.wantLogged("no request to the gateway has", 2)
}

// TestHintsShowNoPersonsAddress: caudal hash finds it.
func TestHintsShowNoPersonsAddress(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.9": "10.0.0.9", "127.0.0.1": "127.0.0.1", "fd00::1": "fd00::1",
		"203.0.113.7": "hash:" + identity.HashKey("203.0.113.7").String()[:16],
	} {
		if got := shown(netip.MustParseAddr(address)); got != want {
			t.Errorf("shown(%s) = %s, want %s", address, got, want)
		}
	}
}
