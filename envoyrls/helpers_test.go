package envoyrls_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// openStore makes an empty store that tells the time by the clock.
type openStore func(t testing.TB, clock caudal.Clock) caudal.Store

func inMemory(_ testing.TB, clock caudal.Clock) caudal.Store {
	return memstore.New(memstore.Options{Clock: clock})
}

// fixture is a service on a gRPC server, with a client of the protocol.
type fixture struct {
	t       testing.TB
	clock   *storetest.Clock
	service *envoyrls.Service
	server  *envoyrls.Server
	conn    *grpc.ClientConn
	client  pb.RateLimitServiceClient
}

func parse(t testing.TB, compat bool, rules string) *rule.Set {
	t.Helper()
	set, _, err := rule.Options{CompatEnvoy: compat}.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// start serves rules, in memory when open is nil.
func start(t testing.TB, rules string, o envoyrls.Options, open openStore) *fixture {
	t.Helper()
	return startSet(t, parse(t, o.Compat, rules), o, open)
}

func startSet(t testing.TB, set *rule.Set, o envoyrls.Options, open openStore) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: storetest.NewClock(storetest.Start)}
	if open == nil {
		open = inMemory
	}
	if o.Clock == nil {
		o.Clock = f.clock
	}
	if o.Logger == nil {
		o.Logger = quiet
	}
	var err error
	if f.service, err = envoyrls.New(set, open(t, f.clock), o); err != nil {
		t.Fatal(err)
	}
	f.serve(envoyrls.ServerOptions{})
	return f
}

// serve puts the service on a server in this process.
func (f *fixture) serve(o envoyrls.ServerOptions) {
	f.t.Helper()
	var err error
	if f.server, err = envoyrls.NewServer(f.service, o); err != nil {
		f.t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(listener) }()
	f.conn, err = grpc.NewClient("passthrough:bufconn",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.t.Fatal(err)
	}
	f.client = pb.NewRateLimitServiceClient(f.conn)
	f.t.Cleanup(func() {
		_ = f.conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := f.server.Shutdown(ctx); err != nil {
			f.t.Errorf("Shutdown() = %v, want nil", err)
		}
		if err := <-served; err != nil {
			f.t.Errorf("Serve() = %v, want nil", err)
		}
	})
}

func (f *fixture) send(req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return f.client.ShouldRateLimit(ctx, req)
}

// ask sends a request, which must be answered.
func (f *fixture) ask(req *pb.RateLimitRequest) string {
	f.t.Helper()
	answer, err := f.send(req)
	if err != nil {
		f.t.Fatalf("ShouldRateLimit(%s) = %v, want an answer", req, err)
	}
	return render(answer)
}

func (f *fixture) want(req *pb.RateLimitRequest, want string) {
	f.t.Helper()
	if got := f.ask(req); got != want {
		f.t.Errorf("ShouldRateLimit(%s)\n got %s\nwant %s", req, got, want)
	}
}

// request makes a request of the domain "d".
func request(descriptors ...*ratelimit.RateLimitDescriptor) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "d", Descriptors: descriptors}
}

// d makes a descriptor of "key=value,key=value".
func d(entries string) *ratelimit.RateLimitDescriptor {
	desc := &ratelimit.RateLimitDescriptor{}
	for entry := range strings.SplitSeq(entries, ",") {
		key, value, _ := strings.Cut(entry, "=")
		desc.Entries = append(desc.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return desc
}

// hits is d with hits of its own.
func hits(entries string, n uint64) *ratelimit.RateLimitDescriptor {
	desc := d(entries)
	desc.HitsAddend = wrapperspb.UInt64(n)
	return desc
}

// back is d with hits to give back.
func back(entries string, n uint64) *ratelimit.RateLimitDescriptor {
	desc := hits(entries, n)
	desc.IsNegativeHits = true
	return desc
}

// render writes an answer in one line: the overall code, then each status: its
// code, and "-" without a limit, "unlimited", or the limit, what remains and when
// it is whole again.
func render(a *pb.RateLimitResponse) string {
	var statuses []string
	for _, st := range a.Statuses {
		statuses = append(statuses, renderStatus(st))
	}
	return a.OverallCode.String() + ": " + strings.Join(statuses, "; ")
}

func renderStatus(st *pb.RateLimitResponse_DescriptorStatus) string {
	s := st.Code.String()
	switch {
	case st.CurrentLimit == nil && st.LimitRemaining == 1<<32-1:
		return s + " unlimited"
	case st.CurrentLimit == nil && st.LimitRemaining == 0 && st.DurationUntilReset == nil:
		return s + " -"
	case st.CurrentLimit == nil:
		return s + " without a limit, yet " + st.String()
	}
	unit := st.CurrentLimit.Unit.String()
	if m := st.CurrentLimit.UnitMultiplier; m != nil {
		unit = fmt.Sprintf("%d %s", m.Value, unit)
	}
	if name := st.CurrentLimit.Name; name != "" {
		unit += " " + name
	}
	return fmt.Sprintf("%s %d/%s left %d reset %s", s, st.CurrentLimit.RequestsPerUnit, unit, st.LimitRemaining, st.DurationUntilReset.AsDuration())
}
