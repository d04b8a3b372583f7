package identity

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func resolver(t *testing.T, o Options, trusted ...string) *Resolver {
	t.Helper()
	prefixes, err := ParsePrefixes(trusted)
	if err != nil {
		t.Fatal(err)
	}
	o.TrustedProxies = prefixes
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func request(peer string, header ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = peer
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func TestC60LeftmostForwardedFor(t *testing.T) {
	const xff = "X-Forwarded-For"
	for _, c := range []struct {
		name, peer string
		header     []string
		want       string
	}{
		{"right-most untrusted hop", "10.0.0.9:1", []string{xff, "1.1.1.1, 203.0.113.7"}, "203.0.113.7"},
		{"past trusted hops", "10.0.0.9:1", []string{xff, "1.1.1.1, 203.0.113.7, 10.0.0.3,10.0.0.4"}, "203.0.113.7"},
		{"untrusted peer is not believed", "198.51.100.5:1", []string{xff, "1.1.1.1, 203.0.113.7"}, "198.51.100.5"},
		{"junk ends the walk", "10.0.0.9:1", []string{xff, "junk, 10.0.0.3"}, "10.0.0.3"},
		{"only junk", "10.0.0.9:1", []string{xff, "junk"}, "10.0.0.9"},
		{"junk right of an address", "10.0.0.9:1", []string{xff, "203.0.113.7, unknown"}, "10.0.0.9"},
		{"no header", "10.0.0.9:1", nil, "10.0.0.9"},
		{"all lines joined", "10.0.0.9:1", []string{xff, "1.1.1.1", xff, "203.0.113.7", xff, "10.0.0.3"}, "203.0.113.7"},
		{"a later line wins", "10.0.0.9:1", []string{xff, "203.0.113.7", xff, "198.51.100.9"}, "198.51.100.9"},
		{"all hops trusted: the first", "10.0.0.9:1", []string{xff, "10.1.1.1, 10.0.0.3"}, "10.1.1.1"},
		{"one header only", "10.0.0.9:1", []string{"X-Real-Ip", "203.0.113.7", "Forwarded", "for=203.0.113.8"}, "10.0.0.9"},
		{"mapped peer is unmapped before it is trusted", "[::ffff:10.0.0.9]:1", []string{xff, "203.0.113.7"}, "203.0.113.7"},
		{"mapped hop", "10.0.0.9:1", []string{xff, "203.0.113.7, ::ffff:10.0.0.3"}, "203.0.113.7"},
	} {
		got := resolver(t, Options{}, "10.0.0.0/8").Client(request(c.peer, c.header...))
		if got.String() != c.want {
			t.Errorf("%s: Client(peer %s, %q) = %s, want %s", c.name, c.peer, c.header, got, c.want)
		}
	}
}

func TestC62PortBracketsSpaces(t *testing.T) {
	for _, c := range []struct {
		hop, want string // want "" when it is no address
	}{
		{"203.0.113.7", "203.0.113.7"},
		{"203.0.113.7:51234", "203.0.113.7"},
		{" 203.0.113.7\t", "203.0.113.7"},
		{"[2001:db8::1]:443", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
		{"2001:db8::1", "2001:db8::1"},
		{"fe80::1%eth0", "fe80::1"},
		{"[fe80::1%eth0]:1", "fe80::1"},
		{"::ffff:203.0.113.7", "203.0.113.7"},
		{"[::ffff:203.0.113.7]:9", "203.0.113.7"},
		{"203.0.113.007", ""}, {"", ""}, {"unknown", ""}, {"_hidden", ""}, {"[203.0.113.7]", ""},
		{"203.0.113.7:", ""}, {"203.0.113.7:99999", ""}, {"203.0.113.7:x", ""}, {"[::1", ""}, {"::1]:1", ""},
		{"203.0.113.7 203.0.113.8", ""}, {"0x7f.1", ""}, {"localhost:80", ""}, {"[]", ""}, {":80", ""},
	} {
		got, ok := parseHop(c.hop)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("parseHop(%q) = %v, %v, want %q", c.hop, got, ok, c.want)
		}
	}
}

func TestClientIPHeader(t *testing.T) {
	v := resolver(t, Options{ClientIPHeader: "cf-connecting-ip"}, "10.0.0.0/8")
	r := request("10.0.0.9:1", "Cf-Connecting-Ip", "203.0.113.7", "X-Forwarded-For", "1.1.1.1")
	if got := v.Client(r); got != netip.MustParseAddr("203.0.113.7") {
		t.Errorf("Client with client_ip_header = %s, want 203.0.113.7", got)
	}
}

func TestUnixPeerIsLoopback(t *testing.T) {
	r := request("@", "X-Forwarded-For", "203.0.113.7")
	if got := resolver(t, Options{}, "127.0.0.1").Client(r); got.IsValid() {
		t.Errorf("Client of a peer without address on no known socket = %s, want none", got)
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.UnixAddr{Name: "/run/x", Net: "unix"})))
	for trusted, want := range map[string]string{"127.0.0.0/8": "203.0.113.7", "10.0.0.0/8": "127.0.0.1"} {
		if got := resolver(t, Options{}, trusted).Client(r); got.String() != want {
			t.Errorf("Client of a unix peer, trusting %s = %s, want %s", trusted, got, want)
		}
	}
}

func TestRemoteAddressIsGrouped(t *testing.T) {
	for _, c := range []struct {
		o          Options
		peer, want string
	}{
		{Options{}, "203.0.113.7:1", "203.0.113.7"},
		{Options{}, "[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2::/64"},
		{Options{}, "[::ffff:203.0.113.7]:1", "203.0.113.7"},
		{Options{IPv4Bits: 24, IPv6Bits: 48}, "203.0.113.7:1", "203.0.113.0/24"},
		{Options{IPv4Bits: 24, IPv6Bits: 48}, "[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1::/48"},
		{Options{IPv6Bits: 128}, "[2001:db8::1]:1", "2001:db8::1"},
	} {
		var q Request
		q.Reset(resolver(t, c.o), request(c.peer))
		if got, ok := q.Attribute("remote_address"); !ok || got != c.want {
			t.Errorf("remote_address of %s with %+v = %q, %v, want %q", c.peer, c.o, got, ok, c.want)
		}
	}
	var q Request
	q.Reset(resolver(t, Options{}), request("nonsense"))
	if got, ok := q.Attribute("remote_address"); ok || q.Address().IsValid() {
		t.Errorf("remote_address of a peer that is no address = %q, %v, want none", got, ok)
	}
}

func TestNewRefuses(t *testing.T) {
	for want, o := range map[string]Options{
		"API key header":              {APIKeyHeader: "X Key"},
		"plain addresses":             {ClientIPHeader: "forwarded"},
		"cannot be Host":              {APIKeyHeader: "host"},
		"1 to 32 and 1 to 128":        {IPv6Bits: 129},
		"use ParsePrefixes":           {TrustedProxies: []netip.Prefix{{}}},
		"client_ip_header \"a:b\" is": {ClientIPHeader: "a:b"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v) error = %v, want one with %q", o, err, want)
		}
	}
	if _, err := ParsePrefixes([]string{"10.0.0.0/8", "10.0.0.0/33"}); err == nil || !strings.Contains(err.Error(), "10.0.0.0/33") {
		t.Errorf("ParsePrefixes error = %v, want one that names the bad entry", err)
	}
	p, err := ParsePrefixes([]string{" 10.1.2.3/8 ", "::ffff:192.0.2.0/120", "2001:db8::1"})
	if err != nil || p[0].String() != "10.0.0.0/8" || p[1].String() != "192.0.2.0/24" || p[2].String() != "2001:db8::1/128" {
		t.Errorf("ParsePrefixes = %v, %v", p, err)
	}
}

func FuzzClient(f *testing.F) {
	f.Add("1.1.1.1, 203.0.113.7", "10.0.0.9:1")
	f.Add("[::1%eth0]:1,,\x00", "@")
	prefixes, _ := ParsePrefixes([]string{"10.0.0.0/8", "fe80::/10"})
	v, err := New(Options{TrustedProxies: prefixes})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header, peer string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {header}}}
		got := v.Client(r)
		if got.Zone() != "" || got.Is4In6() {
			t.Errorf("Client(peer %q, %q) = %s, want a plain address", peer, header, got)
		}
		if p, ok := parseHop(peer); ok && !v.Trusted(p) && got != p {
			t.Errorf("Client(peer %q, %q) = %s, want the untrusted peer", peer, header, got)
		}
	})
}
