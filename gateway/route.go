package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/shed"
)

// Route leads the requests of some hosts and paths to an upstream. What it leaves
// zero is as Options say for all routes.
type Route struct {
	// Host is a name such as api.example.com, or *.example.com for all names under
	// one. Empty takes every host. Ports are not looked at.
	Host string
	// Path begins the paths that the route takes, by whole segments: /api takes /api
	// and /api/users, and not /apis. Empty takes every path. It is compared in the
	// form that rules use (identity.MatchPath), so that no spelling gets past it.
	Path string
	// StripPath takes Path away from what the upstream is asked for.
	StripPath bool

	// Upstream is where the requests go, as Options.Upstream says. Required.
	Upstream *url.URL
	// UpstreamHost sends the host of Upstream instead of the client's.
	UpstreamHost bool
	// Limits decide instead of those of Options.
	Limits Decider
	// Timeouts towards the upstream. A zero field is that of Options.
	Timeouts Timeouts
	// MaxBody bounds the body of a request, in bytes; a negative one is no bound.
	MaxBody int64
	// Retries say when a call that the upstream failed is tried again.
	Retries Retries
	// Exempt are paths that are never limited; see Options.Exempt. Nil is those of
	// Options, an empty list none.
	Exempt []string
	// Shed says whether load is shed.
	Shed Shed
}

// Shed are the settings of load shedding on a route. Each route that sheds finds a
// limit of its own.
type Shed struct {
	// Enabled turns it on. On a Route, Disabled turns it off where Options turn it on.
	Enabled, Disabled bool
	// Options say how; see package shed.
	Options shed.Options
	// PlanWeights says how much more than others the clients of a plan may have.
	PlanWeights map[string]uint32
}

// or gives the settings with those that are zero taken from others.
func (s Shed) or(others Shed) Shed {
	s.Enabled = (s.Enabled || others.Enabled) && !s.Disabled
	if reflect.ValueOf(s.Options).IsZero() {
		s.Options = others.Options
	}
	if s.PlanWeights == nil {
		s.PlanWeights = others.PlanWeights
	}
	return s
}

// maxRoutes bounds how many routes are looked through for a request.
const maxRoutes = 1000

// CheckHost says what is wrong with the host of a route.
func CheckHost(host string) error {
	name := strings.TrimPrefix(host, "*.")
	switch {
	case host == "":
		return nil
	case name == "" || strings.ContainsAny(name, "*/:@?# \t"):
		return fmt.Errorf("%q is no host: write a name such as api.example.com, or *.example.com for all under it, without a port", host)
	case name != identity.HostName(name):
		return fmt.Errorf("%q is not how hosts are compared: write it as %q", host, strings.TrimSuffix(host, name)+identity.HostName(name))
	}
	return nil
}

// CheckPath says what is wrong with the path of a route.
func CheckPath(path string) error {
	switch {
	case path == "":
		return nil
	case path[0] != '/' || strings.ContainsAny(path, "?#*"):
		return fmt.Errorf("%q begins no path: write it as /api; it takes what is below, too", path)
	case path != identity.MatchPath(path, false):
		return fmt.Errorf("%q is not how paths are compared: write it as %q", path, identity.MatchPath(path, false))
	}
	return nil
}

// CheckExempt says what is wrong with a path that is not to be limited.
func CheckExempt(path string) error {
	switch {
	case path == "" || path[0] != '/' || strings.ContainsAny(path, "?#*"):
		return fmt.Errorf("%q is no path: write one whole path, such as /healthz; it takes nothing below", path)
	case path != identity.NormalizePath(path):
		return fmt.Errorf("%q is not how paths are forwarded: write it as %q", path, identity.NormalizePath(path))
	}
	return nil
}

func (r *Route) validate() error {
	return errors.Join(checkUpstream(r.Upstream), CheckHost(r.Host), CheckPath(r.Path), r.Retries.validate(), checkEach(r.Exempt, CheckExempt))
}

func checkEach(all []string, check func(string) error) error {
	for _, one := range all {
		if err := check(one); err != nil {
			return err
		}
	}
	return nil
}

// routes gives the routes with what Options say for all of them: the ones that
// Options name, or the one that its Upstream makes.
func (o *Options) routes() ([]Route, error) {
	routes := slices.Clone(o.Routes)
	switch {
	case o.Upstream != nil && len(routes) > 0:
		return nil, errors.New("gateway: both Upstream and Routes are set: make the upstream a route without host and path")
	case o.Upstream != nil || len(routes) == 0:
		routes = []Route{{Upstream: o.Upstream}}
	case len(routes) > maxRoutes:
		return nil, fmt.Errorf("gateway: %d routes: there may be %d", len(routes), maxRoutes)
	}
	seen := map[[2]string]bool{}
	for i := range routes {
		r := &routes[i]
		r.inherit(o)
		if err := r.validate(); err != nil {
			return nil, fmt.Errorf("gateway: %s%w", r.label(len(o.Routes) > 0), err)
		}
		place := [2]string{r.Host, strings.TrimSuffix(r.Path, "/")}
		if seen[place] {
			return nil, fmt.Errorf("gateway: %sstands twice: keep one of them", r.label(true))
		}
		seen[place] = true
	}
	return routes, nil
}

// label names a route where there may be several.
func (r *Route) label(named bool) string {
	if !named {
		return ""
	}
	host, path := r.Host, r.Path
	if host == "" {
		host = "*"
	}
	if path == "" {
		path = "/"
	}
	return fmt.Sprintf("route %s%s: ", host, path)
}

func (r *Route) inherit(o *Options) {
	r.UpstreamHost = r.UpstreamHost || o.UpstreamHost
	if r.Limits == nil {
		r.Limits = o.Limits
	}
	r.Timeouts = r.Timeouts.or(o.Timeouts)
	if r.MaxBody == 0 {
		r.MaxBody = o.MaxBody
	}
	r.Retries = r.Retries.or(o.Retries)
	if r.Exempt == nil {
		r.Exempt = o.Exempt
	}
	r.Shed = r.Shed.or(o.Shed)
}

// route is a Route at work.
type route struct {
	Route
	g        *Gateway
	suffix   string // of Host, with its dot, for a wildcard
	scheme   string // http or https
	basePath string // escaped, without a slash at the end
	proxy    httputil.ReverseProxy
	shedding *httplimit.Shedding // nil where nothing is shed
}

func (g *Gateway) newRoute(settings Route, transport http.RoundTripper) (*route, error) {
	r := &route{Route: settings, g: g, scheme: settings.Upstream.Scheme}
	if r.Path == "/" {
		r.Path = "" // the same
	}
	if strings.HasPrefix(r.Host, "*.") {
		r.suffix = r.Host[1:]
	}
	if r.scheme == "h2c" {
		r.scheme = "http" // the transport knows
	}
	r.basePath = strings.TrimSuffix(identity.ForwardPath(settings.Upstream), "/")
	if r.Shed.Enabled {
		shedder, err := shed.New(r.Shed.Options)
		if err != nil {
			return nil, err
		}
		r.shedding = &httplimit.Shedding{Shedder: shedder, PlanWeights: r.Shed.PlanWeights}
	}
	transport, err := r.Retries.wrap(transport)
	if err != nil {
		return nil, err
	}
	r.proxy = httputil.ReverseProxy{
		Rewrite:        r.rewrite,
		Transport:      transport,
		ModifyResponse: g.modify,
		ErrorHandler:   r.upstreamFailed,
		ErrorLog:       g.errorLog,
		BufferPool:     buffers{},
		// FlushInterval stays 0: ReverseProxy flushes event streams and responses of
		// unknown length at each write by itself, and others need it not.
	}
	return r, nil
}

// decide decides about a request; if it can, with a look at the room first.
func (r *route) decide(in *http.Request) *httplimit.Outcome {
	if d, ok := r.Limits.(ShedDecider); ok && r.shedding != nil {
		return d.DecideShedding(in, r.shedding)
	}
	return r.Limits.Decide(in)
}

// exempts reports whether a request is for a path that is never limited. Only the
// exact path counts, in the form in which it is forwarded, and only for methods
// that probes use: so that exempting a path opens no other.
func (r *route) exempts(in *http.Request) bool {
	if len(r.Exempt) == 0 || in.Method != http.MethodGet && in.Method != http.MethodHead && !isGRPC(in) {
		return false
	}
	return slices.Contains(r.Exempt, identity.ForwardPath(in.URL))
}

func isGRPC(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}
