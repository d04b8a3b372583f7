package grpclimit_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/grpclimit"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = httplimit.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}

// service answers two methods, one of them a stream, and says what it is told to.
type service struct {
	pb.UnimplementedTestServiceServer
	err error
}

func (s *service) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) {
	return &pb.Empty{}, s.err
}

func (s *service) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for range 3 {
		if err := out.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	return s.err
}

// one makes the interceptors of one limit in memory.
func one(t testing.TB, limit caudal.Limit, key httplimit.KeyFunc, clock caudal.Clock) *grpclimit.Interceptor {
	t.Helper()
	limiter, err := caudal.New(memstore.New(memstore.Options{Clock: clock}), limit)
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(limiter, key, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return interceptor(t, m)
}

// rules makes the interceptors of a rule file.
func rules(t testing.TB, yaml string, store caudal.Store, o httplimit.Options) *grpclimit.Interceptor {
	t.Helper()
	set, _, err := rule.Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = quiet.Logger
	d, err := httplimit.NewDecider(domain, store, who, o)
	if err != nil {
		t.Fatal(err)
	}
	return interceptor(t, d)
}

func interceptor(t testing.TB, d grpclimit.Decider) *grpclimit.Interceptor {
	t.Helper()
	i, err := grpclimit.New(d, grpclimit.Options{Domain: "api.test"})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// server is a gRPC server on loopback, with the calls that reached it.
type server struct {
	*service
	client   pb.TestServiceClient
	conn     *grpc.ClientConn
	attempts atomic.Int64
}

// serve starts a server behind the interceptors, and a client that goes by a
// service config.
func serve(t testing.TB, i *grpclimit.Interceptor, config string, more ...grpc.ServerOption) *server {
	t.Helper()
	s := &server{service: &service{}}
	options := more
	if i != nil {
		options = append(options,
			grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				s.attempts.Add(1)
				return next(ctx, req)
			}, i.Unary),
			grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
				s.attempts.Add(1)
				return next(srv, ss)
			}, i.Stream))
	}
	g := grpc.NewServer(options...)
	pb.RegisterTestServiceServer(g, s.service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	dial := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if config != "" {
		dial = append(dial, grpc.WithDefaultServiceConfig(config))
	}
	s.conn, err = grpc.NewClient(listener.Addr().String(), dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.conn.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
	})
	s.client = pb.NewTestServiceClient(s.conn)
	return s
}

// details finds the details of a status, nil where they are not there.
type details struct {
	retry *errdetails.RetryInfo
	quota *errdetails.QuotaFailure
	info  *errdetails.ErrorInfo
}

func detailsOf(err error) (d details) {
	for _, x := range status.Convert(err).Details() {
		switch x := x.(type) {
		case *errdetails.RetryInfo:
			d.retry = x
		case *errdetails.QuotaFailure:
			d.quota = x
		case *errdetails.ErrorInfo:
			d.info = x
		}
	}
	return d
}
