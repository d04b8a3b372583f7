package envoyrls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"
)

// HealthName is the name under which the gRPC health service knows the protocol,
// beside the empty one.
const HealthName = "ratelimit"

// ServerOptions are the settings of a Server. The zero value is usable.
type ServerOptions struct {
	// TLS encrypts. Nil is plain text.
	TLS *tls.Config

	// MaxConnectionAge is after how long a client is asked to connect anew, so that
	// clients spread over instances that were added; default 24 hours, negative is
	// for ever. MaxConnectionGrace is how long its calls may then still take;
	// default an hour.
	MaxConnectionAge, MaxConnectionGrace time.Duration

	// MaxStreams bounds the calls of one connection at a time; default 1024. A proxy
	// with more opens another connection.
	MaxStreams uint32

	// MaxMessage is the largest request in bytes; default 2 MiB.
	MaxMessage int

	// Stats is told of each call, as gRPC's libraries for traces want it. Default
	// none.
	Stats stats.Handler

	// NoReflection turns reflection off, by which tools such as grpcurl find out
	// what a server offers.
	NoReflection bool
}

// Defaults of ServerOptions.
const (
	DefaultMaxConnectionAge   = 24 * time.Hour
	DefaultMaxConnectionGrace = time.Hour
	DefaultMaxStreams         = 1024
	DefaultMaxMessage         = 2 << 20
)

// maxHeaders bounds the metadata of a call; by itself gRPC takes 16 MiB of it, of each
// of the calls that a connection may have under way.
const maxHeaders = 64 << 10

// How the server finds out that a client is gone without a word, and what it lets
// clients do to find out about the server.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
	minPing     = 5 * time.Second
)

// Server is a gRPC server for a Service, with gRPC health and reflection. Make it
// with NewServer. Its methods are safe for concurrent use.
type Server struct {
	service *Service
	grpc    *grpc.Server
	health  *health.Server
}

// NewServer makes a server.
func NewServer(service *Service, o ServerOptions) (*Server, error) {
	if service == nil {
		return nil, errors.New("envoyrls: no service: make one with New")
	}
	if o.MaxMessage < 0 {
		return nil, fmt.Errorf("envoyrls: MaxMessage %d must not be negative", o.MaxMessage)
	}
	s := &Server{service: service, grpc: grpc.NewServer(o.settings()...), health: health.NewServer()}
	s.grpc.RegisterService(&serviceDesc, service)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if !o.NoReflection {
		reflection.Register(s.grpc)
	}
	s.SetServing(service.Healthy())
	return s, nil
}

func (o ServerOptions) settings() []grpc.ServerOption {
	age := keepalive.ServerParameters{
		Time: pingAfter, Timeout: pingTimeout,
		MaxConnectionAge:      or(o.MaxConnectionAge, DefaultMaxConnectionAge),
		MaxConnectionAgeGrace: or(o.MaxConnectionGrace, DefaultMaxConnectionGrace),
	}
	if o.MaxConnectionAge < 0 {
		age.MaxConnectionAge = 0 // grpc's word for never
	}
	settings := []grpc.ServerOption{
		grpc.KeepaliveParams(age),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(or(o.MaxStreams, DefaultMaxStreams)),
		grpc.MaxRecvMsgSize(or(o.MaxMessage, DefaultMaxMessage)),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ForceServerCodecV2(newCodec()),
	}
	if o.Stats != nil {
		settings = append(settings, grpc.StatsHandler(o.Stats))
	}
	if o.TLS != nil {
		settings = append(settings, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	return settings
}

// or gives v, or the default where v is zero.
func or[T comparable](v, standard T) T {
	var zero T
	if v == zero {
		return standard
	}
	return v
}

// Serve answers on a listener until Shutdown, which makes it return nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// SetServing says what gRPC health and Healthcheck answer about the protocol. The
// empty name, the process itself, stays serving.
func (s *Server) SetServing(serving bool) {
	s.service.SetHealthy(serving)
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(HealthName, state)
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
}

// Shutdown asks clients to go elsewhere and waits for calls under way; when ctx
// ends first they are cancelled, and what they were charged for turns not yet
// come is given back. It returns the context's error then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.SetServing(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return ctx.Err()
	}
}
