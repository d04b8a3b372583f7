package identity

import (
	"crypto/x509"
	"strings"
)

// clientCert gives names of the certificate that the client has shown, when it was
// verified: san for all, or dns, email, uri, ip for those of one kind. Several
// names become a list, as several headers do.
func (q *Request) clientCert(kind string) (string, bool) {
	if q.r.TLS == nil || len(q.r.TLS.VerifiedChains) == 0 || len(q.r.TLS.VerifiedChains[0]) == 0 {
		return "", false // none, or one that nobody vouches for
	}
	names := certNames(q.r.TLS.VerifiedChains[0][0], strings.ToLower(kind))
	if len(names) > 1 {
		return list(names), true
	}
	return single(names)
}

func certNames(c *x509.Certificate, kind string) []string {
	var names []string
	all := kind == "san"
	if all || kind == "dns" {
		names = append(names, c.DNSNames...)
	}
	if all || kind == "email" {
		names = append(names, c.EmailAddresses...)
	}
	if all || kind == "uri" {
		for _, u := range c.URIs {
			names = append(names, u.String())
		}
	}
	if all || kind == "ip" {
		for _, a := range c.IPAddresses {
			names = append(names, a.String())
		}
	}
	return names
}
