// Package gateway is a reverse proxy that limits before it forwards.
//
// Two names suffice: [New], which makes a [Gateway], an http.Handler, and
// [NewServer], which makes an http.Server for it that speaks HTTP/1.1, HTTP/2 and
// unencrypted HTTP/2 and gives slow clients no room.
//
// # Where requests go
//
// To Options.Upstream, or by host and path to one of Options.Routes, each with
// limits, timeouts and bounds of its own. Paths are compared in the form that
// rules use, so that no spelling of a path leads past a route; a path that servers
// read in two ways is refused with 400 where the path has a say in the route.
// Calls that the upstream fails are tried again where [Retries] say so, below the
// limits: the client is charged once.
//
// # What is forwarded
//
// The path in its normalised form (identity.ForwardPath), so that the upstream
// routes by what the limits were matched on; the query as sent; the client's
// Host, unless Options.UpstreamHost says otherwise. X-Forwarded-For, -Host, -Proto
// and X-Real-IP are set by the gateway. What a client sends under such names is
// dropped, unless the peer is a trusted proxy.
//
// Bodies stream in both directions. WebSocket upgrades, server-sent events,
// trailers, 1xx responses and gRPC pass as they are; an upgrade to anything else
// than the protocols of Options.Upgrades is not offered to the upstream, for it
// would open a tunnel in which nothing is limited (HTTP/2 over "Upgrade: h2c").
//
// # What is limited
//
// Each request once, except those of Options.Exempt; an upgraded connection and a stream as one request. A call
// with a delay is held until its turn. The headers of package httplimit are added
// to the upstream's response; where it carries the same, the lists are joined and
// the three older headers come from the tighter. An upstream's own 429 passes.
//
// # What the package does not do
//
// It does not cache, compress or balance.
package gateway
