package envoyrls_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (rawCodec) Name() string { return "proto" }

var _ encoding.CodecV2 = rawCodec{}

// sendBytes sends a request as bytes and gives the code and text of the answer.
func (f *fixture) sendBytes(data []byte) (codes.Code, string) {
	var reply []byte
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := f.conn.Invoke(ctx, pb.RateLimitService_ShouldRateLimit_FullMethodName, data, &reply, grpc.ForceCodecV2(rawCodec{}))
	return status.Code(err), status.Convert(err).Message()
}

func TestHostileRequests(t *testing.T) {
	f := start(t, someRules, envoyrls.Options{}, nil)
	good, err := proto.Marshal(one("k=v"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
		code codes.Code
		want string
	}{
		{"empty", nil, codes.InvalidArgument, "domain must not be empty"},
		{"invalid UTF-8", []byte("\x0a\x02\xff\xfe"), codes.InvalidArgument, "invalid UTF-8"},
		{"cut off", good[:len(good)-1], codes.InvalidArgument, "cannot be decoded"},
		{"a length beyond the end", []byte("\x12\xff\xff\xff\xff\x0f"), codes.InvalidArgument, "cannot be decoded"},
		{"groups in groups", []byte(strings.Repeat("\x7b", 100_000)), codes.InvalidArgument, "cannot be decoded"},
		{"unknown fields", append(append([]byte(nil), good...), "\xfa\x3f\x03abc"...), codes.OK, ""},
		{"over the largest message", make([]byte, envoyrls.DefaultMaxMessage+1), codes.ResourceExhausted, "larger than max"},
	} {
		if code, text := f.sendBytes(c.data); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s %q, want %s with %q", c.name, code, text, c.code, c.want)
		}
	}
	f.ask(one("k=v")) // and the service lives
}

// TestMoreLimitsThanCanBeCheckedIsTheCallersFault: not the store's, which would be
// given up for it, and not a reason to count elsewhere.
func TestMoreLimitsThanCanBeCheckedIsTheCallersFault(t *testing.T) {
	f := start(t, windows+"- {key: k, rate_limits: [{unit: minute, requests_per_unit: 9}, {unit: hour, requests_per_unit: 9}]}\n", envoyrls.Options{}, nil)
	for n, want := range map[int]codes.Code{127: codes.OK, 128: codes.InvalidArgument} {
		var many []*ratelimit.RateLimitDescriptor
		for i := range n {
			many = append(many, d("k="+strconv.Itoa(i)))
		}
		if _, err := f.service.ShouldRateLimit(t.Context(), request(many...)); status.Code(err) != want {
			t.Errorf("%d descriptors with 2 limits each = %v, want %s", n, err, want)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, req := range []*pb.RateLimitRequest{
		one("k=v"), request(hits("k=v", 0), back("k=w", 1<<40)), request(overriding("k=v", 3, 2), multiplied("k=", 1, 99, 0)),
		{}, {Domain: "d"}, {Domain: "other", HitsAddend: 1<<32 - 1, Descriptors: request(d("a=b,a=b")).Descriptors},
	} {
		data, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, false)
		f.Add(data, true)
	}
	rules := windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 100}}\n- {key: a, quota_mode: true, rate_limit: {unlimited: true}}\n" +
		"- {key: k, value: w*, detailed_metric: true, metadata: {x: 1}, rate_limit: {name: n, unit: second, requests_per_unit: 1, replaces: [{name: m}]}}\n" +
		"- {key: q, rate_limit: {name: m, unit: day, requests_per_unit: 5, algorithm: sliding_log}}\n"
	var services []*envoyrls.Service
	for _, compat := range []bool{false, true} {
		set, _, err := rule.Options{CompatEnvoy: compat}.Parse("rules.yaml", []byte(rules))
		if err != nil {
			f.Fatal(err)
		}
		stats, err := envoyrls.NewStats(0)
		if err != nil {
			f.Fatal(err)
		}
		s, err := envoyrls.New(set, memstore.New(memstore.Options{MaxKeys: 1000}),
			envoyrls.Options{Compat: compat, Headers: &envoyrls.Headers{}, DynamicMetadata: true, Stats: stats, Logger: quiet, Observer: panics{f}})
		if err != nil {
			f.Fatal(err)
		}
		services = append(services, s)
	}
	f.Fuzz(func(t *testing.T, data []byte, compat bool) {
		var req pb.RateLimitRequest
		if proto.Unmarshal(data, &req) != nil {
			return
		}
		s := services[0]
		if compat {
			s = services[1]
		}
		answer, err := s.ShouldRateLimit(context.Background(), &req)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("error = %v, want InvalidArgument or none", err)
			}
			return
		}
		if len(answer.Statuses) != len(req.Descriptors) {
			t.Errorf("%d statuses for %d descriptors", len(answer.Statuses), len(req.Descriptors))
		}
		if _, err := proto.Marshal(answer); err != nil {
			t.Errorf("the answer cannot be sent: %v", err)
		}
	})
}

// panics is an observer that fails the test when the limiter panicked.
type panics struct{ f *testing.F }

func (panics) Decided(string, *caudal.Compiled, httplimit.Result) {}
func (p panics) Failed(_ string, err error)                       { p.f.Errorf("the limiter failed: %v", err) }

// TestManyConnections: the soak has 10 000, from another process.
func TestManyConnections(t *testing.T) {
	const open, active, each = 500, 50, 20
	addr := serveOn(t, "tcp", "127.0.0.1:0", envoyrls.ServerOptions{})
	conns := make([]*grpc.ClientConn, open)
	for i := range conns {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Connect()
		conns[i] = conn
	}
	var answered atomic.Int64
	var wg sync.WaitGroup
	for _, conn := range conns[:active] {
		wg.Go(func() {
			for range each {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if _, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, one("k=v"), grpc.WaitForReady(true)); err == nil {
					answered.Add(1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if got := answered.Load(); got != active*each {
		t.Errorf("%d of %d calls answered beside %d open connections", got, active*each, open)
	}
}

// TestClientThatNeverReads: it gets as many answers as its window has room for,
// may have no more calls than a connection may, and others are unharmed.
func TestClientThatNeverReads(t *testing.T) {
	const streams = 64
	addr := serveOn(t, "tcp", "127.0.0.1:0", envoyrls.ServerOptions{MaxStreams: streams})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(conn, nil)
	if err := fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil { // no room for any answer
		t.Fatal(err)
	}
	message, err := proto.Marshal(one("k=v"))
	if err != nil {
		t.Fatal(err)
	}
	message = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	for i := range streams {
		if err := writeCall(fr, uint32(2*i+1), message); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	for range 100 {
		if err := askAt(t, addr, insecure.NewCredentials()); err != nil {
			t.Fatalf("another client: %v, want an answer", err)
		}
	}
}

func writeCall(fr *http2.Framer, stream uint32, message []byte) error {
	var b strings.Builder
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", pb.RateLimitService_ShouldRateLimit_FullMethodName},
		{":authority", "rls"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(b.String()), EndHeaders: true}); err != nil {
		return err
	}
	return fr.WriteData(stream, true, message)
}
