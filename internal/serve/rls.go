package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/rule"
)

// DefaultGRPCListen is where Envoy's rate limit protocol is answered.
const DefaultGRPCListen = ":8081"

// RLS are the settings of Envoy's rate limit protocol. The zero value of a field
// means its default.
type RLS struct {
	// Listen are the addresses for gRPC, or Off: host:port, and unix:/path for a
	// socket. Nil is DefaultGRPCListen without Upstream, and Off with it.
	Listen []string
	// Certificates secure gRPC; without Cert it is plain text.
	Certificates Certificates
	// MaxConnectionAge and MaxConnectionGrace are those of envoyrls.ServerOptions.
	MaxConnectionAge, MaxConnectionGrace time.Duration

	// MaxHold, StopIncrement, ShadowMode, QuotaMode, Headers and DynamicMetadata are
	// those of envoyrls.Options.
	MaxHold                              time.Duration
	StopIncrement, ShadowMode, QuotaMode bool
	Headers                              *envoyrls.Headers
	DynamicMetadata                      bool

	// NearRatio is for the reference's statistics, which are kept under Compat. They
	// are also given at PrometheusPath of PrometheusListen, where that is set.
	NearRatio                        float64
	PrometheusListen, PrometheusPath string
}

func (r *RLS) off() bool { return len(r.Listen) == 1 && r.Listen[0] == Off }

func (r *RLS) setDefaults(gateway bool) {
	if r.Listen == nil {
		r.Listen = []string{DefaultGRPCListen}
		if gateway {
			r.Listen = []string{Off}
		}
	}
	setDefault(&r.PrometheusPath, "/metrics")
}

// rls answers the protocol.
type rls struct {
	service   *envoyrls.Service
	server    *envoyrls.Server
	stats     *envoyrls.Stats
	listeners []net.Listener
}

// newRLS makes what answers; it does not listen yet.
func (s *Server) newRLS(set *rule.Set, store caudal.Store) (*rls, error) {
	c := &s.config
	r := &rls{}
	options := envoyrls.Options{Compat: c.Compat, StopIncrement: c.RLS.StopIncrement,
		ShadowMode: c.RLS.ShadowMode || c.DryRun, QuotaMode: c.RLS.QuotaMode, MaxHold: c.RLS.MaxHold,
		Controls: s.controls, Headers: c.RLS.Headers, DynamicMetadata: c.RLS.DynamicMetadata,
		Clock: s.deps.Clock, Observer: s.metrics, Tracer: s.tracer(), Took: s.metrics.Took, Logger: s.log}
	if c.Compat {
		stats, err := envoyrls.NewStats(c.RLS.NearRatio)
		if err != nil {
			return nil, &Error{What: err.Error(), Hint: "leave NEAR_LIMIT_RATIO out for 0.8"}
		}
		if err := s.metrics.Register(stats); err != nil {
			return nil, err
		}
		r.stats, options.Stats = stats, stats
	}
	var err error
	if r.service, err = envoyrls.New(set, store, options); err != nil {
		return nil, &Error{What: err.Error()}
	}
	settings := envoyrls.ServerOptions{MaxConnectionAge: c.RLS.MaxConnectionAge, MaxConnectionGrace: c.RLS.MaxConnectionGrace}
	if s.tracing != nil {
		settings.Stats = s.tracing.Calls()
	}
	if settings.TLS, err = s.openCertificates("grpc_tls_", c.RLS.Certificates, "h2"); err != nil {
		return nil, err
	}
	if r.server, err = envoyrls.NewServer(r.service, settings); err != nil {
		return nil, err
	}
	return r, nil
}

// loaded puts rules in force; nil says that they could not be loaded, and the last
// good ones stay.
func (r *rls) loaded(set *rule.Set) {
	if set != nil {
		r.service.SetRules(set)
	}
	if r.stats != nil {
		r.stats.Loaded(set != nil)
	}
}

// openRLS opens the listeners of the protocol.
func (s *Server) openRLS(ctx context.Context) error {
	if address := s.config.RLS.PrometheusListen; address != "" {
		mux := http.NewServeMux()
		mux.Handle("GET "+s.config.RLS.PrometheusPath, s.metrics.Handler())
		ln, err := listen("prometheus_listen", address)
		if err != nil {
			return err
		}
		s.api = append(s.api, &endpoint{"prometheus", s.newHTTP(ctx, mux), ln})
	}
	if s.config.RLS.off() {
		return nil
	}
	for _, address := range s.config.RLS.Listen {
		ln, err := listen("grpc_listen", address)
		if err != nil {
			return err
		}
		s.rls.listeners = append(s.rls.listeners, ln)
	}
	return nil
}

// closeListeners is for a start that failed.
func (r *rls) closeListeners() error {
	var err error
	for _, ln := range r.listeners {
		err = errors.Join(err, ln.Close())
	}
	return err
}

// serveRLS answers until the server ends.
func (s *Server) serveRLS() {
	for _, ln := range s.rls.listeners {
		s.serving.Go(func() {
			if err := s.rls.server.Serve(ln); err != nil {
				s.failed <- fmt.Errorf("the grpc listener ended: %w", err)
			}
		})
	}
}

// GRPCAddrs gives the addresses on which Envoy's protocol is answered over gRPC.
func (s *Server) GRPCAddrs() []string {
	var all []string
	for _, ln := range s.rls.listeners {
		all = append(all, ln.Addr().String())
	}
	return all
}

// warnRLS says what of the rules the protocol cannot do, and what a server of
// several domains cannot.
func (s *Server) warnRLS(set *rule.Set) {
	if s.rls == nil || s.config.RLS.off() {
		return
	}
	if names := domainNames(set); len(names) > 1 && s.config.Domain == "" {
		s.log.Warn("several domains are loaded and none is named: only Envoy's protocol, which names one, is answered by their rules",
			"domains", names, "mend", "name one with domain for those who ask by attributes")
	}
}

func domainNames(set *rule.Set) []string {
	var names []string
	for _, d := range set.Domains() {
		names = append(names, d.Name())
	}
	return slices.Clip(names)
}
