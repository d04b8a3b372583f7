package gateway

import (
	"net"
	"net/http"
	"strings"
)

// setForwarding sets the headers that tell the upstream who asked and how. What
// the client sent under such names is dropped; what a trusted proxy sent is kept
// and added to.
func (g *Gateway) setForwarding(in, out *http.Request) {
	trusted := g.who.TrustedPeer(in)
	for name := range out.Header {
		if g.mustDrop(name, trusted) {
			delete(out.Header, name)
		}
	}
	var forwardedFor []string
	host, proto := in.Host, "http"
	if in.TLS != nil {
		proto = "https"
	}
	if trusted { // ReverseProxy has removed these from out
		forwardedFor = in.Header["X-Forwarded-For"]
		host = orSent(in, "X-Forwarded-Host", host)
		proto = orSent(in, "X-Forwarded-Proto", proto)
	}
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		forwardedFor = append(forwardedFor[:len(forwardedFor):len(forwardedFor)], peer)
	}
	if len(forwardedFor) > 0 {
		out.Header["X-Forwarded-For"] = []string{strings.Join(forwardedFor, ", ")}
	}
	if host != "" {
		out.Header["X-Forwarded-Host"] = []string{host}
	}
	out.Header["X-Forwarded-Proto"] = []string{proto}
	if client := g.who.Client(in); client.IsValid() {
		out.Header["X-Real-Ip"] = []string{client.String()}
	}
}

// orSent gives what a header says, if it says something.
func orSent(r *http.Request, name, fallback string) string {
	if v := r.Header.Get(name); v != "" {
		return v
	}
	return fallback
}

// mustDrop reports whether a header must not reach the upstream. One with an
// underscore is dropped from everybody where servers that turn dashes into
// underscores would take it for a forwarding header.
func (g *Gateway) mustDrop(name string, trusted bool) bool {
	if strings.IndexByte(name, '_') >= 0 {
		return g.isForwarding(http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")))
	}
	return !trusted && g.isForwarding(name)
}

// isForwarding reports whether a header speaks for a proxy: who the client is, or
// which path it asked for. Servers and frameworks believe them.
func (g *Gateway) isForwarding(name string) bool {
	switch name {
	case "Forwarded", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip",
		"Cf-Connecting-Ip", "Fastly-Client-Ip", "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url":
		return true
	}
	return g.who.SpeaksForProxy(name) || strings.HasPrefix(name, "X-Forwarded")
}
