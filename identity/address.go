package identity

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// ParsePrefixes reads a list of networks: addresses (10.0.0.9) and prefixes
// (10.0.0.0/8, 2001:db8::/32). IPv4 written as IPv6 is read as IPv4.
func ParsePrefixes(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		p, err := parsePrefix(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("identity: %q is no network: write an address such as 10.0.0.9 or a prefix such as 10.0.0.0/8", s)
	}
	return unmapPrefix(p).Masked(), nil
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p
}

// loopback stands for a peer on this machine that has no address.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// peer gives the address of the other end of the connection. A peer on a unix
// socket counts as loopback. It is the zero Addr when RemoteAddr is no address.
func peer(r *http.Request) netip.Addr {
	if a, ok := parseHop(r.RemoteAddr); ok {
		return a
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return loopback
	}
	return netip.Addr{}
}

// parseHop reads an address as proxies write it: alone, with a port, in
// brackets, with a zone. Everything else is no address: names, leading zeros,
// "unknown", "_hidden", nothing.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	// The form is told first, for a parse that fails makes an error value.
	switch n := len(s); {
	case n == 0:
		return netip.Addr{}, false
	case s[0] == '[' && s[n-1] == ']':
		a, err := netip.ParseAddr(s[1 : n-1])
		return plain(a), err == nil && a.Is6()
	case s[0] == '[' || strings.Count(s, ":") == 1:
		ap, err := netip.ParseAddrPort(s)
		return plain(ap.Addr()), err == nil
	}
	a, err := netip.ParseAddr(s)
	return plain(a), err == nil
}

// plain takes off what does not identify: the zone, and IPv6's way to write
// IPv4.
func plain(a netip.Addr) netip.Addr { return a.WithZone("").Unmap() }

// Trusted reports whether an address belongs to a trusted proxy.
func (v *Resolver) Trusted(a netip.Addr) bool {
	for _, p := range v.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Peer gives the address of the other end of the connection; the zero Addr when it
// has none.
func (v *Resolver) Peer(r *http.Request) netip.Addr { return peer(r) }

// TrustedPeer reports whether the request comes straight from a trusted proxy,
// so that its forwarding headers may be believed.
func (v *Resolver) TrustedPeer(r *http.Request) bool {
	return len(v.trusted) > 0 && v.Trusted(peer(r))
}

// Client gives the address of the client: the peer, or the right-most untrusted
// hop of the configured header when the peer is a trusted proxy. When every hop
// is trusted it is the first of them. The zero Addr means that there is none.
func (v *Resolver) Client(r *http.Request) netip.Addr {
	last := peer(r)
	if len(v.trusted) == 0 || !v.Trusted(last) {
		return last
	}
	lines := r.Header[v.clientIPHeader]
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; {
			var hop string
			hop, rest, more = cutLast(rest)
			a, ok := parseHop(hop)
			if !ok {
				return last
			}
			last = a
			if !v.Trusted(a) {
				return a
			}
		}
	}
	return last
}

// cutLast splits off what stands behind the last comma.
func cutLast(s string) (last, rest string, more bool) {
	if i := strings.LastIndexByte(s, ','); i >= 0 {
		return s[i+1:], s[:i], true
	}
	return s, "", false
}

// group gives the text of an address as a key: an IPv4 address as it is, an IPv6
// address as the network that one customer usually has.
func (v *Resolver) group(a netip.Addr) string {
	bits := v.ipv4Bits
	if a.Is6() {
		bits = v.ipv6Bits
	}
	if bits == a.BitLen() {
		return a.String()
	}
	p, _ := a.Prefix(bits) // bits were checked by New
	return p.String()
}
