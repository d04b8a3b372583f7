package gateway

import (
	"cmp"
	"errors"
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

// ShedDecider is an ability of a Decider, and httplimit.Decider has it: on a route that sheds
// load, a call for which there is no room is shed before it is charged.
type ShedDecider interface {
	Decider
	DecideShedding(*http.Request, *httplimit.Shedding) *httplimit.Outcome
}

// Options are the settings of a Gateway.
type Options struct {
	// Upstream is where requests go. Required where there are no Routes. Its scheme is http, https (HTTP/2
	// where the upstream offers it) or h2c (HTTP/2 without TLS). gRPC goes by HTTP/2
	// in any case. A path is put before that of each request.
	Upstream *url.URL

	// Routes lead the requests of some hosts and paths to upstreams of their own,
	// instead of Upstream. The most exact host that has a route for the path wins,
	// then the longest path. A request that no route takes is answered 404 and
	// charged nothing.
	Routes []Route

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

	// MaxBody bounds the body of a request, in bytes; longer ones are answered 413.
	// Default no bound.
	MaxBody int64

	// BodyTimeout is how long a client may send nothing of a body that is waited for,
	// and SendTimeout how long it may take nothing of a response that waits for it.
	// Default DefaultStall; a negative one is no bound. Neither holds for gRPC and
	// upgraded connections.
	BodyTimeout, SendTimeout time.Duration

	// Retries say when a call that the upstream failed is tried again. Default never.
	Retries Retries

	// Exempt are paths that are never limited, for those who probe whether the API
	// is well: GET, HEAD and gRPC calls of exactly these paths. Default none.
	Exempt []string

	// Shed says whether load is shed.
	Shed Shed

	// MaxIdleConns is how many idle connections to the upstream are kept. Default
	// 512.
	MaxIdleConns int

	// Transport replaces the connections to the upstream; of Timeouts only Total
	// counts then, and MaxIdleConns means nothing.
	Transport http.RoundTripper

	// Decided, when set, is told of what was decided about a request that is limited,
	// when it has ended; the outcome is valid until it returns.
	Decided func(*http.Request, *httplimit.Outcome)

	// Logger gets a line for each upstream failure. Default slog.Default().
	Logger *slog.Logger
}

// DefaultStall is how long a transfer may stand still that waits for the client.
const DefaultStall = time.Minute

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
	// Total is for a whole call, to the end of the response's body; retries are
	// part of it. Upgraded connections, event streams and gRPC have none. Default no
	// bound.
	Total time.Duration
}

// or gives the timeouts with those that are zero taken from others.
func (t Timeouts) or(others Timeouts) Timeouts {
	t.Dial = cmp.Or(t.Dial, others.Dial)
	t.TLSHandshake = cmp.Or(t.TLSHandshake, others.TLSHandshake)
	t.ResponseHeader = cmp.Or(t.ResponseHeader, others.ResponseHeader)
	t.Idle = cmp.Or(t.Idle, others.Idle)
	t.Total = cmp.Or(t.Total, others.Total)
	return t
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

func checkUpstream(u *url.URL) error {
	switch {
	case u == nil:
		return errors.New("no upstream: give a URL such as http://127.0.0.1:3000")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return fmt.Errorf("upstream %q: the scheme must be http, https or h2c, as in http://127.0.0.1:3000", u.Redacted())
	case u.Host == "":
		return fmt.Errorf("upstream %q has no host: write it as http://127.0.0.1:3000", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("upstream %q carries credentials: leave them to the clients", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("upstream %q has a query or fragment: only a path can be put before requests", u.Redacted())
	}
	return nil
}

func (o *Options) validate() error {
	for _, p := range o.Upgrades {
		if strings.EqualFold(p, "h2c") {
			return fmt.Errorf("gateway: upgrades to h2c would carry requests past the limits: leave it out; clients can speak HTTP/2 with the gateway itself")
		}
	}
	return nil
}
