package gateway

import (
	"context"
	"net/http"
	"strings"

	"github.com/caudal-dev/caudal/identity"
)

// setVisitor gives a visitor a cookie by which it is known again. It is called for
// calls that were let through only: a client that is denied must not get a new
// identity for its trouble. Newcomers of one address get no more than NewVisitors
// allows; the others go on sharing what the address has.
func (g *Gateway) setVisitor(c *call, h http.Header) {
	r, visitors := c.client, g.who.Visitors()
	if visitors == nil || g.newcomers == nil || c.outcome == nil || cachedByOthers(h) {
		return
	}
	fresh, renew := visitors.Due(r)
	if fresh && !g.mayCome(c, r) || !fresh && !renew {
		return
	}
	h.Add("Set-Cookie", visitors.Cookie(r, g.secure(r)).String())
}

// mayCome reports whether the address may have one more newcomer.
func (g *Gateway) mayCome(ctx context.Context, r *http.Request) bool {
	var q identity.Request
	q.Reset(g.who, r)
	address, ok := q.Attribute("remote_address")
	if !ok {
		return false
	}
	d, err := g.newcomers.Allow(ctx, address)
	return err == nil && d.Allowed
}

// secure reports whether the client speaks TLS, with the gateway or with a trusted
// proxy in front of it.
func (g *Gateway) secure(r *http.Request) bool {
	return r.TLS != nil || g.who.TrustedPeer(r) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// cachedByOthers reports whether a cache may hand a response to other clients, who
// would all be one visitor then.
func cachedByOthers(h http.Header) bool {
	for _, line := range h["Cache-Control"] {
		line = strings.ToLower(line)
		if strings.Contains(line, "public") || strings.Contains(line, "s-maxage") {
			return true
		}
	}
	return false
}
