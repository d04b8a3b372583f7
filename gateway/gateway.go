package gateway

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// Gateway limits requests and forwards those that may pass. Make it with New. It
// is safe for concurrent use.
type Gateway struct {
	routes     table
	transports map[transportKey]http.RoundTripper
	who        *identity.Resolver
	newcomers  *caudal.Limiter
	upgrades   []string
	body, send time.Duration // for a client to go on with a body, and to take a response
	decided    func(*http.Request, *httplimit.Outcome)
	log        *slog.Logger
	errorLog   *log.Logger // the same, for net/http
}

// New makes a gateway. The error names the option and a mend.
func New(o Options) (*Gateway, error) {
	settings, err := o.routes()
	if err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Gateway{transports: map[transportKey]http.RoundTripper{}, who: o.Identity, newcomers: o.NewVisitors, upgrades: o.Upgrades, decided: o.Decided, log: o.Logger,
		body: orDefault(o.BodyTimeout, DefaultStall), send: orDefault(o.SendTimeout, DefaultStall)}
	if g.who == nil {
		g.who, _ = identity.New(identity.Options{}) // the zero Options are valid
	}
	if g.upgrades == nil {
		g.upgrades = []string{"websocket"}
	}
	if g.log == nil {
		g.log = slog.Default()
	}
	g.errorLog = slog.NewLogLogger(g.log.Handler(), slog.LevelWarn)
	routes := make([]*route, len(settings))
	for i, r := range settings {
		if routes[i], err = g.newRoute(r, g.transport(&o, &r)); err != nil {
			return nil, err
		}
	}
	g.routes = newTable(routes, g.who.FoldsPathCase())
	return g, nil
}

// Close closes the connections to the upstream that nobody uses. Requests under
// way go on; shut the server down first.
func (g *Gateway) Close() error {
	for _, t := range g.transports {
		closeIdle(t)
	}
	return nil
}

// ServeHTTP decides about a request and forwards it or answers it.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.URL.Path == "*" && r.Method != http.MethodOptions {
		g.hurry(w, r)
		problem(http.StatusBadRequest, "the gateway forwards requests for paths only").Write(w, r)
		return
	}
	c := &call{Context: r.Context(), client: r, route: g.routes.find(r)}
	if p, ok := g.turnAway(c); !ok {
		if p.Status == http.StatusRequestEntityTooLarge {
			w.Header().Set("Connection", "close") // nobody will read what follows
		}
		g.hurry(w, r)
		p.Write(w, r)
		return
	}
	body, send := g.body, g.send
	if isGRPC(r) && r.ProtoMajor > 1 { // both sides may be still for as long as they like
		body, send = 0, 0
	}
	c.body = boundBody(w, r, c.route.MaxBody, body)
	c.writer = clientWriter{ResponseWriter: w, patience: patience{bound: send, client: w, giveUp: stopWriting}}
	c.writer.continues = c.body != nil && asksFirst(r)
	if c.route.Limits != nil && !c.route.exempts(r) {
		o := c.route.decide(r)
		defer o.Release()
		if g.decided != nil {
			defer g.decided(r, o)
		}
		if !o.Hold(r) {
			g.hurry(w, r)
			o.Refuse(w, r)
			return
		}
		c.outcome, c.writer.limits = o, o
	}
	if c.route.shedding != nil && !c.route.exempts(r) {
		if !c.admit(w, r) {
			return
		}
		defer c.slot.Release()
	}
	if d := c.route.Timeouts.Total; d > 0 && !isGRPC(r) {
		defer c.boundTime(d)()
	}
	c.route.proxy.ServeHTTP(&c.writer, r.WithContext(c))
}

// turnAway gives the answer for a request that is forwarded nowhere and costs
// nothing; ok says that there is none, and that it may go on.
func (g *Gateway) turnAway(c *call) (p httplimit.Problem, ok bool) {
	if c.route == nil {
		return problem(http.StatusNotFound, "nothing is served under this host and path"), false
	}
	if most := c.route.MaxBody; most > 0 && c.client.ContentLength > most {
		return tooLong(most), false
	}
	var literal bool
	c.path, literal = c.route.strip(identity.ForwardPath(c.client.URL), g.routes.foldCase)
	if !literal || g.routes.ambiguous(c.route, c.client) {
		return problem(http.StatusBadRequest, "the path can be read in two ways: write it without escapes, semicolons and dots"), false
	}
	return p, true
}

func (g *Gateway) modify(res *http.Response) error {
	c := callOf(res.Request.Context())
	c.letStream(res)
	if len(res.Trailer) > 0 && c.client.ProtoMajor == 1 { // net/http drops trailers beside a length there
		res.Header.Del("Content-Length")
		res.ContentLength = -1
	}
	c.answered(res)
	if c.body != nil && c.client.ProtoMajor == 2 && res.ProtoMajor == 2 {
		res.Body = &lastWord{res.Body, c.body}
	}
	c.body.spare(c.client, res.Header)
	c.settle(res.StatusCode, res.Header)
	if res.StatusCode == http.StatusSwitchingProtocols && c.outcome != nil { // its headers go out past clientWriter
		c.outcome.SetHeaders(res.Header)
	}
	g.setVisitor(c, res.Header)
	return nil
}

// upstreamFailed answers when the upstream does not: 504 when it took too long,
// 413 when the client's body was cut off at its bound, 400 when it broke off by
// itself, else 502.
func (r *route) upstreamFailed(w http.ResponseWriter, out *http.Request, err error) {
	c, log := callOf(out.Context()), r.g.log
	if c.body != nil && c.body.patience.cutShort() { // net/http takes it for a client that has gone
		err = &bodyError{err, true}
	} else if errors.Is(err, context.Canceled) && c.client.Context().Err() != nil {
		// The client has gone; nobody reads this. What it was charged stays: hanging up
		// before the response must not be a way to pay less.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	p := problem(http.StatusBadGateway, "the server behind the gateway cannot be reached or gave no proper answer")
	var timeout net.Error
	var grown *http.MaxBytesError
	var broken *bodyError
	var slow *slowError
	switch {
	case errors.As(err, &broken) && !errors.As(err, &grown):
		p = broken.problem()
		if broken.slow {
			w.Header().Set("Connection", "close") // what may still come is not waited for
		}
		log.Debug("client's body cannot be read", "method", out.Method, "error", err)
		p.Write(w, out)
		return
	case errors.As(err, &grown): // who bounds the body wrapped it; the upstream is not to blame
		p = tooLong(grown.Limit)
	case errors.As(err, &slow) || errors.As(err, &timeout) && timeout.Timeout() || errors.Is(context.Cause(c), context.DeadlineExceeded):
		p = problem(http.StatusGatewayTimeout, "the server behind the gateway took too long to answer")
	}
	log.Warn("upstream failed", "upstream", r.Upstream.Host, "method", out.Method, "status", p.Status, "error", err)
	if p.Status == http.StatusGatewayTimeout {
		c.slot.Answered() // too slow is how overload shows
	}
	c.settle(p.Status, nil)
	r.g.hurry(w, c.client)
	p.Write(w, out)
}

func problem(status int, detail string) httplimit.Problem {
	return httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

// rewrite makes the request for the upstream from the client's.
func (r *route) rewrite(pr *httputil.ProxyRequest) {
	g := r.g
	pr.Out.URL = r.target(pr.In.URL, callOf(pr.In.Context()).path)
	pr.Out.Host = pr.In.Host
	if r.UpstreamHost {
		pr.Out.Host = ""
	}
	if !slices.ContainsFunc(g.upgrades, func(p string) bool { return strings.EqualFold(p, pr.Out.Header.Get("Upgrade")) }) {
		pr.Out.Header.Del("Upgrade")
		pr.Out.Header.Del("Connection")
	}
	g.setForwarding(pr.In, pr.Out)
	// The map itself: net/http fills it when the body has been read.
	pr.Out.Trailer = pr.In.Trailer
}

// target gives the URL for the upstream. It is made anew from the parts that are
// known to be good, so that no odd form of the request line gets past the path
// that was limited.
func (r *route) target(in *url.URL, path string) *url.URL {
	out := &url.URL{Scheme: r.scheme, Host: r.Upstream.Host, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	if path == "*" {
		out.Path = path
		return out
	}
	out.RawPath = r.basePath + path
	out.Path = out.RawPath
	if strings.Contains(out.RawPath, "%") {
		if p, err := url.PathUnescape(out.RawPath); err == nil { // always: ForwardPath gives valid escapes
			out.Path = p
		}
	}
	return out
}

// buffers lends ReverseProxy the buffers that it copies bodies with.
type buffers struct{}

const bufferSize = 32 << 10

var bufferPool = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (buffers) Get() []byte  { return bufferPool.Get().(*[bufferSize]byte)[:] }
func (buffers) Put(b []byte) { bufferPool.Put((*[bufferSize]byte)(b)) }
