package rule

import (
	"net/netip"
	"net/textproto"
	"strings"
)

// remoteAddress is the one attribute that is an address and not text.
const remoteAddress = "remote_address"

// attributes are those of a request that have no name after a colon, with
// whether they say who the client is.
var attributes = map[string]bool{
	"api_key": true, "user": true, "visitor": true, remoteAddress: true,
	"plan": false, "path": false, "method": false, "host": false, "user_agent": false,
}

// attributeFamilies are those that take a name after a colon.
var attributeFamilies = map[string]bool{
	"jwt": true, "client_cert": true,
	"header": false, "cookie": false, "query": false, "body": false,
}

// isAttribute reports whether a request matched by attributes can have the key.
func isAttribute(key string) bool {
	if family, name, ok := strings.Cut(key, ":"); ok {
		_, known := attributeFamilies[family]
		return known && name != ""
	}
	_, known := attributes[key]
	return known
}

// isIdentity reports whether the key names the client. An empty value of such an
// attribute counts as absent: an empty X-API-Key is how many clients send none,
// and nobody's name must not become a counter of its own.
func isIdentity(key string) bool {
	if family, _, ok := strings.Cut(key, ":"); ok {
		return attributeFamilies[family]
	}
	return attributes[key]
}

// isMadeUp reports whether the client can write any value it likes there, and so
// get a fresh counter with each call.
func isMadeUp(key string) bool {
	if family, _, ok := strings.Cut(key, ":"); ok {
		known, exists := attributeFamilies[family]
		return exists && !known
	}
	return key == "api_key" || key == "user_agent"
}

// defaultMissing is what an absent attribute means on a descriptor that does not
// say.
func defaultMissing(key string) Missing {
	if key == "api_key" || key == "user" || strings.HasPrefix(key, "jwt:") {
		return MissingIP
	}
	return MissingSkip
}

// normalKey writes header names in the one spelling that net/http uses, as they
// are compared without regard to letter case.
func normalKey(key string) string {
	if name, ok := strings.CutPrefix(key, "header:"); ok {
		return "header:" + textproto.CanonicalMIMEHeaderKey(name)
	}
	return key
}

// checkCIDR says what is wrong with a CIDR prefix; what is empty when nothing is.
func checkCIDR(s string) (hint, what string) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return "write an address, a slash and the bits, such as 203.0.113.0/24", "value " + clip(s) + " is not a CIDR prefix"
	case p.Addr().Is4In6():
		return "write it as an IPv4 prefix", "value " + clip(s) + " is an IPv4-mapped prefix, which no address matches"
	case p != p.Masked():
		return "write " + p.Masked().String() + ", or the address without bits", "value " + clip(s) + " has bits set beyond its prefix"
	}
	return "", ""
}

func isCIDR(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// cleanAddr is an address as rules compare it: IPv4-mapped ones unmapped, no
// zone. It is invalid when there is none.
func cleanAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// parseAddr reads an address that stands in a rule or a descriptor.
func parseAddr(s string) (netip.Addr, bool) {
	if s == "" || len(s) > 64 || s[0] != ':' && (s[0] < '0' || s[0] > 'f') {
		return netip.Addr{}, false // cheap: a failing parse makes an error value
	}
	a, err := netip.ParseAddr(s)
	return cleanAddr(a), err == nil
}
