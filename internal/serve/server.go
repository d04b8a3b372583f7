package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/admin"
	"github.com/caudal-dev/caudal/internal/metrics"
	"github.com/caudal-dev/caudal/internal/tracing"
	"github.com/caudal-dev/caudal/rule"
)

// Deps are what a server is given beside its settings. The zero value is usable.
type Deps struct {
	// Logger gets what happens. Default slog.Default().
	Logger *slog.Logger
	// Version is shown by /healthz.
	Version string
	// Clock tells the time for decisions. Default caudal.NewSystemClock.
	Clock caudal.Clock
	// WrapStore puts something in front of the store, such as a fault.
	WrapStore func(caudal.Store) caudal.Store
}

// Server is a caudal that listens. Make it with Start.
type Server struct {
	config Config
	deps   Deps
	log    *slog.Logger

	store         *openedStore
	decider       *httplimit.Decider
	routeDeciders map[string]*httplimit.Decider // by the domains that routes name
	resolves      *identity.Resolver            // says who asks the gateway
	gateway       *gateway.Gateway
	metrics       *metrics.Metrics
	tracing       *tracing.Tracing  // nil when nothing is traced
	requestLog    *requestLog       // nil when there is none
	controls      *control.Controls // what operators say
	operate       *admin.API        // answers them
	live          live              // what they see

	front, admin *endpoint   // front is nil without an upstream, admin when it is off
	api          []*endpoint // of the decision API
	decisions    decisions
	rls          *rls // Envoy's protocol
	started      time.Time
	calls        atomic.Int64       // under way at the gateway
	cancelCalls  context.CancelFunc // ends those that are still under way
	adminCtx     context.Context
	endAdmin     context.CancelFunc
	endControls  context.CancelFunc
	draining     atomic.Bool
	pause        func(time.Duration) // time.Sleep, but in tests
	failed       chan error
	serving      sync.WaitGroup
	close        func() error

	who          who
	reloadingWho sync.Mutex // one reload of keys at a time

	reloading sync.Mutex // one reload at a time
	rules     atomic.Pointer[loadedRules]
	reload    atomic.Pointer[reloadState]
}

// reloadState is how the last reload went.
type reloadState struct {
	at  time.Time
	err error
}

// endpoint is a server with its listener.
type endpoint struct {
	name string
	http *http.Server
	ln   net.Listener
}

// Start loads the rules, opens the store, listens, and serves. When something is
// wrong nothing is left running. The error is of type *Error for settings, of
// type rule.Errors for rules that are wrong.
func Start(config Config, deps Deps) (*Server, error) {
	s := &Server{config: config.withDefaults(), deps: deps, log: deps.Logger, started: time.Now(), failed: make(chan error, 8), pause: time.Sleep}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.deps.Clock == nil {
		s.deps.Clock = caudal.NewSystemClock()
	}
	s.close = sync.OnceValue(s.drain)
	if err := s.config.check(); err != nil {
		return nil, err
	}
	loaded, err := loadRules(&s.config)
	if err != nil {
		return nil, err
	}
	s.store, err = openStore(s.config.Store, storeOptions{maxKeys: s.config.MaxKeys, clock: s.deps.Clock,
		stateFile: s.config.StateFile, stateInterval: s.config.StateInterval,
		prefix: s.config.StorePrefix, timeout: s.config.StoreTimeout, instances: s.config.ExpectedInstances, alertURL: s.config.AlertURL, log: s.log})
	if err != nil {
		return nil, err
	}
	if err := s.open(loaded); err != nil {
		s.closeTracing(time.Time{})
		return nil, errors.Join(err, s.store.close())
	}
	s.enforce(loaded)
	s.announce(loaded)
	for _, e := range s.endpoints() {
		s.serve(e)
	}
	s.serveRLS()
	s.serveControls()
	return s, nil
}

// endpoints gives all that listen.
func (s *Server) endpoints() []*endpoint {
	var all []*endpoint
	if s.front != nil {
		all = append(all, s.front)
	}
	all = append(all, s.api...)
	if s.admin != nil {
		all = append(all, s.admin)
	}
	return all
}

// open builds what serves and opens the listeners.
func (s *Server) open(loaded *loadedRules) error {
	if err := s.build(loaded); err != nil {
		return err
	}
	var ctx context.Context
	ctx, s.cancelCalls = context.WithCancel(context.Background())
	if err := s.openEndpoints(ctx); err != nil {
		s.cancelCalls()
		for _, e := range s.endpoints() {
			err = errors.Join(err, e.ln.Close())
		}
		return errors.Join(err, s.rls.closeListeners())
	}
	return nil
}

func (s *Server) openEndpoints(ctx context.Context) (err error) {
	if s.gateway != nil {
		if s.front, err = s.frontEndpoint(ctx); err != nil {
			return err
		}
	}
	if err = s.openAPI(ctx); err != nil {
		return err
	}
	if err = s.openRLS(ctx); err != nil {
		return err
	}
	if s.config.AdminListen != Off {
		s.admin, err = s.adminEndpoint()
	}
	return err
}

// build makes the gateway and what decides for it.
func (s *Server) build(loaded *loadedRules) error {
	c := &s.config
	var extra []string
	if !c.RLS.off() {
		extra = []string{envoyrls.OverrideName}
	}
	s.metrics = metrics.New(metrics.Options{Extra: extra, ShowKeys: c.ShowKeys, Store: s.store.stats, Calls: s.store.calls, State: s.store.file,
		APIKeys: s.apiKeys(), Logger: s.log})
	if err := s.openTracing(); err != nil {
		return err
	}
	if err := s.openWho(); err != nil {
		return err
	}
	var err error
	if s.resolves, err = s.resolver(c.TrustedProxies); err != nil {
		return err
	}
	s.requestLog = s.newRequestLog()
	store := s.store.Store
	if s.deps.WrapStore != nil {
		store = s.deps.WrapStore(store)
	}
	if err = s.openControls(store); err != nil {
		return err
	}
	store = s.traced(store)
	if s.decider, err = s.newDecider(loaded.domain, store, s.resolves); err != nil {
		return err
	}
	if s.routeDeciders, err = s.newRouteDeciders(loaded, store); err != nil {
		return err
	}
	if s.decisions, err = s.newDecisions(loaded, store); err != nil {
		return err
	}
	if s.rls, err = s.newRLS(loaded.set, store); err != nil {
		return err
	}
	if !c.HasGateway() {
		return nil
	}
	s.gateway, err = s.newGateway(s.resolves)
	return err
}

// resolver says who is asking, with the given proxies trusted.
func (s *Server) resolver(trusted []netip.Prefix) (*identity.Resolver, error) {
	c := &s.config
	return identity.New(identity.Options{APIKeyHeader: c.APIKeyHeader, BearerAPIKey: c.BearerAPIKey,
		TrustedProxies: trusted, ClientIPHeader: c.ClientIPHeader,
		IPv4Bits: c.IPv4Prefix, IPv6Bits: c.IPv6Prefix, FoldPathCase: c.FoldPathCase,
		Keys: s.who.keys, Tokens: s.who.tokens, Visitors: s.who.visitors, MaxBody: c.Who.MaxBody,
		UserHeader: c.Who.UserHeader, PlanHeader: c.Who.PlanHeader})
}

func (s *Server) newDecider(domain *rule.Domain, store caudal.Store, who *identity.Resolver) (*httplimit.Decider, error) {
	c := &s.config
	return httplimit.NewDecider(domain, store, who, httplimit.Options{
		Families: c.Families, Reset: c.Reset, DryRun: c.DryRun, ChargePreflight: c.ChargePreflight,
		DenialOrigins: c.DenialOrigins, Controls: s.controls, Clock: s.deps.Clock, Observer: s.metrics, Tracer: s.tracer(), Logger: s.log})
}

func (s *Server) frontEndpoint(ctx context.Context) (*endpoint, error) {
	c := &s.config
	secure, err := s.openCertificates("tls_", c.TLS, "h2", "http/1.1")
	if err != nil {
		return nil, err
	}
	ln, err := listen("listen", c.Listen)
	if err != nil {
		return nil, err
	}
	server := s.newHTTP(ctx, s.track(s.observe(s.watchRequests(s.resolves, s.gateway))))
	server.TLSConfig = secure
	return &endpoint{"gateway", server, ln}, nil
}

// newHTTP makes a server whose calls end when ctx does.
func (s *Server) newHTTP(ctx context.Context, handler http.Handler) *http.Server {
	c := &s.config
	server := gateway.NewServer(handler, gateway.ServerOptions{ReadHeader: c.ReadHeaderTimeout, Read: c.ReadTimeout,
		Write: c.WriteTimeout, Idle: c.IdleTimeout, MaxHeaderBytes: c.MaxHeaderBytes, Logger: s.log})
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	return server
}

func (s *Server) adminEndpoint() (*endpoint, error) {
	ln, err := listen("admin_listen", s.config.AdminListen)
	if err != nil {
		return nil, err
	}
	server := gateway.NewServer(boundBodies(s.adminHandler(), bodyTime), gateway.ServerOptions{Logger: s.log})
	server.BaseContext = func(net.Listener) context.Context { return s.adminCtx } // streams end with it
	return &endpoint{"admin", server, ln}, nil
}

// announce says what runs.
func (s *Server) announce(loaded *loadedRules) {
	s.logWarnings(loaded)
	s.log.Info("rules loaded", "domain", loaded.domain.Name(), "limits", loaded.limits(),
		"warnings", loaded.warned(), "hash", loaded.hash, "store", s.store.kind, "dry_run", s.config.DryRun)
	for _, e := range s.endpoints() {
		attrs := []any{"listener", e.name, "address", e.ln.Addr().String(), "tls", e.http.TLSConfig != nil}
		if e == s.front {
			attrs = append(attrs, "upstream", s.config.destinations(), "exempt", s.config.ExemptPaths)
		}
		s.log.Info("listening", attrs...)
	}
	for _, address := range s.GRPCAddrs() {
		s.log.Info("listening", "listener", "grpc", "address", address)
	}
	s.warnRLS(loaded.set)
	s.warnUnfound(loaded)
	s.warnOwn()
}

func (s *Server) serve(e *endpoint) {
	s.serving.Go(func() {
		if err := e.accept(); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("the %s listener ended: %w", e.name, err)
		}
	})
}

// accept serves until the server is shut down.
func (e *endpoint) accept() error {
	if e.http.TLSConfig != nil {
		return e.http.ServeTLS(e.ln, "", "")
	}
	return e.http.Serve(e.ln)
}

// Addr gives the address on which the gateway listens, empty when there is none.
func (s *Server) Addr() string {
	if s.front == nil {
		return ""
	}
	return s.front.ln.Addr().String()
}

// AdminAddr gives the address of the admin listener, empty when it is off.
func (s *Server) AdminAddr() string {
	if s.admin == nil {
		return ""
	}
	return s.admin.ln.Addr().String()
}

// Run keeps the server until ctx ends, and reloads the rules, and the files of
// keys, when they change and at each value of reload, which may be nil. Then it drains the server and returns nil. The error
// is that of a listener that failed.
func (s *Server) Run(ctx context.Context, reload <-chan os.Signal) error {
	defer s.watch(ctx)()
	defer every(time.Second, func() { s.metrics.Tick(time.Now()) })()
	defer s.watchWho(ctx)()
	for {
		select {
		case <-ctx.Done():
			s.log.Info("shutting down", "calls", s.calls.Load(), "delay", s.config.ShutdownDelay, "timeout", s.config.ShutdownTimeout)
			return s.Close()
		case <-reload:
			_ = s.Reload()    // it has said everywhere what is wrong, and the last good rules stay
			_ = s.reloadWho() // as with the rules
		case err := <-s.failed:
			return errors.Join(err, s.Close())
		}
	}
}
