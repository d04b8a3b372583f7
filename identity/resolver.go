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
	// key. A request with two different keys has none, also when one of them is in
	// the header above: who can choose which of them counts has fresh counts at will.
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

	// Keys are the API keys that are known. A key that is not among them counts as
	// missing; user and plan of the others are what the keys file says. nil takes
	// keys as sent.
	Keys *KeyRing

	// Tokens verifies bearer tokens: their claims are jwt:CLAIM, and user and plan.
	// nil takes none. Not together with BearerAPIKey.
	Tokens *Tokens

	// UserHeader and PlanHeader are headers in which trusted proxies say who the
	// user is and what plan they have, once they have verified it. From other peers
	// they are not read. Default none.
	UserHeader, PlanHeader string

	// Visitors verifies the cookies by which a gateway knows visitors again. nil
	// knows none.
	Visitors *Visitors

	// MaxBody is how many bytes of a body are read, where rules ask for a field of
	// it; a longer one has no fields. Default 64 KiB.
	MaxBody int64

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

	keys                   *KeyRing
	tokens                 *Tokens
	userHeader, planHeader string
	visitors               *Visitors
	maxBody                int64
}

// defaultMaxBody is how much of a body is read for a field of it.
const defaultMaxBody = 64 << 10

// New makes a resolver. The error names the option, its value and a mend.
func New(o Options) (*Resolver, error) {
	v := &Resolver{bearer: o.BearerAPIKey, foldPath: o.FoldPathCase, ipv4Bits: 32, ipv6Bits: 64,
		keys: o.Keys, tokens: o.Tokens, visitors: o.Visitors, maxBody: defaultMaxBody}
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
	if err := v.verified(&o); err != nil {
		return nil, err
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

// verified takes the options about what counts only once it is verified.
func (v *Resolver) verified(o *Options) (err error) {
	if o.Tokens != nil && o.BearerAPIKey {
		return fmt.Errorf("identity: a bearer token cannot be both an API key and a token to verify: leave out bearer_api_key or jwt_keys")
	}
	if v.userHeader, err = headerName("user_header", o.UserHeader, ""); err != nil {
		return err
	}
	if v.planHeader, err = headerName("plan_header", o.PlanHeader, ""); err != nil {
		return err
	}
	if (v.userHeader != "" || v.planHeader != "") && len(v.trusted) == 0 {
		return fmt.Errorf("identity: user_header and plan_header are believed from trusted proxies only, and there is none: name them in trusted_proxies")
	}
	if o.MaxBody < 0 {
		return fmt.Errorf("identity: a body of %d bytes: choose 1 or more, or 0 for 64 KiB", o.MaxBody)
	}
	if o.MaxBody > 0 {
		v.maxBody = o.MaxBody
	}
	return nil
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

// SpeaksForProxy reports whether a header, by its canonical name, is one in which
// trusted proxies say who is asking. Gateways must not pass it on from others.
func (v *Resolver) SpeaksForProxy(name string) bool {
	return name == v.clientIPHeader || name != "" && (name == v.userHeader || name == v.planHeader)
}

// Visitors gives what verifies visitors' cookies, nil when there is nothing.
func (v *Resolver) Visitors() *Visitors { return v.visitors }

// FoldsPathCase reports whether letter case in paths says nothing.
func (v *Resolver) FoldsPathCase() bool { return v.foldPath }
