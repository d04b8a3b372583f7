package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// Gateway limits requests and forwards those that may pass. Make it with New. It
// is safe for concurrent use.
type Gateway struct {
	upstream  url.URL // scheme http or https
	basePath  string  // escaped, without a slash at the end
	limits    Decider
	who       *identity.Resolver
	newcomers *caudal.Limiter
	ownHost   bool
	upgrades  []string
	log       *slog.Logger
	proxy     httputil.ReverseProxy
}

// New makes a gateway. The error names the option and a mend.
func New(o Options) (*Gateway, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Gateway{upstream: *o.Upstream, limits: o.Limits, who: o.Identity, newcomers: o.NewVisitors, ownHost: o.UpstreamHost, upgrades: o.Upgrades, log: o.Logger}
	if g.who == nil {
		g.who, _ = identity.New(identity.Options{}) // the zero Options are valid
	}
	if g.upgrades == nil {
		g.upgrades = []string{"websocket"}
	}
	if g.log == nil {
		g.log = slog.Default()
	}
	transport := o.Transport
	if transport == nil {
		transport = newTransport(&o)
	}
	if g.upstream.Scheme == "h2c" {
		g.upstream.Scheme = "http" // the transport knows
	}
	g.basePath = strings.TrimSuffix(identity.ForwardPath(o.Upstream), "/")
	g.proxy = httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      transport,
		ModifyResponse: g.modify,
		ErrorHandler:   g.upstreamFailed,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
		BufferPool:     buffers{},
		// FlushInterval stays 0: ReverseProxy flushes event streams and responses of
		// unknown length at each write by itself, and others need it not.
	}
	return g, nil
}

// Close closes the connections to the upstream that nobody uses. Requests under
// way go on; shut the server down first.
func (g *Gateway) Close() error {
	if t, ok := g.proxy.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}

// outcomeKey finds the outcome of a request in its context.
type outcomeKey struct{}

// ServeHTTP decides about a request and forwards it or answers it.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.URL.Path == "*" && r.Method != http.MethodOptions {
		problem(http.StatusBadRequest, "the gateway forwards requests for paths only").Write(w, r)
		return
	}
	watchBody(r)
	if g.limits == nil {
		g.proxy.ServeHTTP(w, r)
		return
	}
	o := g.limits.Decide(r)
	defer o.Release()
	if !o.Hold(r) {
		o.Refuse(w, r)
		return
	}
	ctx := context.WithValue(g.withClient(r.Context(), r), outcomeKey{}, o)
	g.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// setLimits adds the limits' headers to those of a response. It is done on the
// response and not before the call, so that they meet the upstream's own, and do
// not go out with its 1xx responses.
func setLimits(ctx context.Context, h http.Header) {
	if o, ok := ctx.Value(outcomeKey{}).(*httplimit.Outcome); ok {
		o.SetHeaders(h)
	}
}

// settle credits calls whose cost the response tells, or that it tells not to
// count, before the headers say what remains. The gateway's own answer for an
// upstream that gave none is a response without headers.
func settle(ctx context.Context, status int, h http.Header) {
	if o, ok := ctx.Value(outcomeKey{}).(*httplimit.Outcome); ok && o.PaysLater() {
		o.Settle(ctx, status, h)
	}
}

func (g *Gateway) modify(res *http.Response) error {
	settle(res.Request.Context(), res.StatusCode, res.Header)
	setLimits(res.Request.Context(), res.Header)
	g.setVisitor(res.Request.Context(), res.Header)
	return nil
}

// upstreamFailed answers when the upstream does not: 504 when it took too long,
// 413 when the client's body was cut off at its bound, 400 when it broke off by
// itself, else 502.
func (g *Gateway) upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		// The client has gone; nobody reads this. What it was charged stays: hanging up
		// before the response must not be a way to pay less.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	p := problem(http.StatusBadGateway, "the server behind the gateway cannot be reached or gave no proper answer")
	var timeout net.Error
	var tooLong *http.MaxBytesError
	var broken *bodyError
	switch {
	case errors.As(err, &broken) && !errors.As(err, &tooLong):
		p = problem(http.StatusBadRequest, "the body cannot be read to its end")
		g.log.Debug("client's body cannot be read", "method", r.Method, "error", err)
		setLimits(r.Context(), w.Header())
		p.Write(w, r)
		return
	case errors.As(err, &tooLong): // who bounds the body wrapped it; the upstream is not to blame
		p = problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than the %d bytes that the gateway takes", tooLong.Limit))
	case errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded):
		p = problem(http.StatusGatewayTimeout, "the server behind the gateway took too long to answer")
	}
	g.log.Warn("upstream failed", "upstream", g.upstream.Host, "method", r.Method, "status", p.Status, "error", err)
	settle(r.Context(), p.Status, nil)
	setLimits(r.Context(), w.Header())
	p.Write(w, r)
}

func problem(status int, detail string) httplimit.Problem {
	return httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

// rewrite makes the request for the upstream from the client's.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	pr.Out.URL = g.target(pr.In.URL)
	pr.Out.Host = pr.In.Host
	if g.ownHost {
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
func (g *Gateway) target(in *url.URL) *url.URL {
	out := &url.URL{Scheme: g.upstream.Scheme, Host: g.upstream.Host, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	path := identity.ForwardPath(in)
	if path == "*" {
		out.Path = path
		return out
	}
	out.RawPath = g.basePath + path
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
