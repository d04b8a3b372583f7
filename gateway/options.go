package gateway

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// Decider decides about a request: an httplimit.Decider for rules, an
// httplimit.Middleware for one limit.
type Decider interface {
	Decide(*http.Request) *httplimit.Outcome
}

// Options are the settings of a Gateway.
type Options struct {
	// Upstream is where requests go. Required. Its scheme is http, https (HTTP/2
	// where the upstream offers it) or h2c (HTTP/2 without TLS). gRPC goes by HTTP/2
	// in any case. A path is put before that of each request.
	Upstream *url.URL

	// Limits decide. nil limits nothing.
	Limits Decider

	// Identity says which proxies are believed about forwarding headers. nil
	// believes none.
	Identity *identity.Resolver

	// NewVisitors bounds how many cookies the newcomers of one address get: its keys
	// are addresses. nil gives no cookies. It needs an Identity with Visitors.
	NewVisitors *caudal.Limiter

	// UpstreamHost sends the host of Upstream instead of the client's. For
	// upstreams that are somebody else's and know only their own name.
	UpstreamHost bool

	// Upgrades are the protocols that a client may switch to. nil means websocket.
	Upgrades []string

	// Timeouts towards the upstream.
	Timeouts Timeouts

	// MaxIdleConns is how many idle connections to the upstream are kept. Default
	// 512.
	MaxIdleConns int

	// Transport replaces the connections to the upstream; Timeouts and
	// MaxIdleConns mean nothing then.
	Transport http.RoundTripper

	// Logger gets a line for each upstream failure. Default slog.Default().
	Logger *slog.Logger
}

// Timeouts bound the waiting for an upstream. A zero field means its default; a
// negative one no bound.
type Timeouts struct {
	// Dial is for making a connection. Default 5s.
	Dial time.Duration
	// TLSHandshake is for securing it. Default 5s.
	TLSHandshake time.Duration
	// ResponseHeader is from the end of the request to the response's header; the
	// body may take as long as it likes. Default 60s.
	ResponseHeader time.Duration
	// Idle is how long an unused connection is kept. Default 90s.
	Idle time.Duration
}

func orDefault(d, fallback time.Duration) time.Duration {
	switch {
	case d == 0:
		return fallback
	case d < 0:
		return 0 // what net and net/http take for no bound
	}
	return d
}

func (o *Options) validate() error {
	u := o.Upstream
	switch {
	case u == nil:
		return fmt.Errorf("gateway: no upstream: give a URL such as http://127.0.0.1:3000")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return fmt.Errorf("gateway: upstream %q: the scheme must be http, https or h2c, as in http://127.0.0.1:3000", u.Redacted())
	case u.Host == "":
		return fmt.Errorf("gateway: upstream %q has no host: write it as http://127.0.0.1:3000", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("gateway: upstream %q carries credentials: leave them to the clients", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("gateway: upstream %q has a query or fragment: only a path can be put before requests", u.Redacted())
	}
	for _, p := range o.Upgrades {
		if strings.EqualFold(p, "h2c") {
			return fmt.Errorf("gateway: upgrades to h2c would carry requests past the limits: leave it out; clients can speak HTTP/2 with the gateway itself")
		}
	}
	return nil
}
