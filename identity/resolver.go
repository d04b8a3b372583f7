package identity

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Options say where to look for what. The zero value trusts no proxy and reads
// API keys from X-API-Key.
type Options struct {
	// APIKeyHeader is the header that carries the API key. Default X-API-Key.
	APIKeyHeader string

	// BearerAPIKey also takes the token of "Authorization: Bearer TOKEN" as an API
	// key, when the header above is absent.
	BearerAPIKey bool

	// TrustedProxies are the networks of proxies that are believed about the
	// address of their client. A peer on a unix socket counts as 127.0.0.1.
	// Default none.
	TrustedProxies []netip.Prefix

	// ClientIPHeader is the one header in which trusted proxies name their client.
	// Default X-Forwarded-For. The header Forwarded of RFC 7239 is not read.
	ClientIPHeader string

	// IPv4Bits and IPv6Bits are the lengths of the networks that share one bucket.
	// Defaults 32 (each address) and 64 (what one customer usually has).
	IPv4Bits, IPv6Bits int

	// FoldPathCase makes upper and lower case one in paths. Set it when the router
	// behind ignores case, and write the rules' paths in lower case then.
	FoldPathCase bool
}

// Resolver reads identities from requests. Make it with New. It does not change
// and is safe for concurrent use.
type Resolver struct {
	apiKeyHeader   string
	bearer         bool
	trusted        []netip.Prefix
	clientIPHeader string
	ipv4Bits       int
	ipv6Bits       int
	foldPath       bool
}

// New makes a resolver. The error names the option, its value and a mend.
func New(o Options) (*Resolver, error) {
	v := &Resolver{bearer: o.BearerAPIKey, foldPath: o.FoldPathCase, ipv4Bits: 32, ipv6Bits: 64}
	var err error
	if v.apiKeyHeader, err = headerName("the API key header", o.APIKeyHeader, "X-Api-Key"); err != nil {
		return nil, err
	}
	if v.clientIPHeader, err = headerName("client_ip_header", o.ClientIPHeader, "X-Forwarded-For"); err != nil {
		return nil, err
	}
	if v.clientIPHeader == "Forwarded" {
		return nil, fmt.Errorf("identity: client_ip_header Forwarded is not read: name a header of plain addresses, such as X-Forwarded-For")
	}
	for _, p := range o.TrustedProxies {
		if !p.IsValid() {
			return nil, fmt.Errorf("identity: trusted_proxies holds a network that is not valid: use ParsePrefixes to read them")
		}
		v.trusted = append(v.trusted, unmapPrefix(p).Masked())
	}
	if o.IPv4Bits != 0 {
		v.ipv4Bits = o.IPv4Bits
	}
	if o.IPv6Bits != 0 {
		v.ipv6Bits = o.IPv6Bits
	}
	if v.ipv4Bits < 1 || v.ipv4Bits > 32 || v.ipv6Bits < 1 || v.ipv6Bits > 128 {
		return nil, fmt.Errorf("identity: address networks of /%d (IPv4) and /%d (IPv6): choose 1 to 32 and 1 to 128", v.ipv4Bits, v.ipv6Bits)
	}
	return v, nil
}

func headerName(what, name, fallback string) (string, error) {
	if name == "" {
		return fallback, nil
	}
	if strings.ContainsFunc(name, notInName) {
		return "", fmt.Errorf("identity: %s %q is no header name: use letters, digits and dashes", what, name)
	}
	if strings.EqualFold(name, "Host") {
		return "", fmt.Errorf("identity: %s cannot be Host: name a header of its own", what)
	}
	return http.CanonicalHeaderKey(name), nil
}

// notInName reports whether a rune may not stand in the name of a header.
func notInName(r rune) bool {
	return r >= 0x7f || r <= ' ' || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
}

// ClientIPHeader gives the canonical name of the header in which trusted proxies
// name their client.
func (v *Resolver) ClientIPHeader() string { return v.clientIPHeader }
