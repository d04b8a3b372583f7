package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// talker is a gRPC service of one method, a stream in both directions, which serves
// for the other kinds as well: it answers each message, and the message "fail" with
// an error.
func talk(_ any, s grpc.ServerStream) error {
	in, _ := metadata.FromIncomingContext(s.Context())
	deadline, limited := s.Context().Deadline()
	_ = s.SetHeader(metadata.Pairs("x-saw", strings.Join(in.Get("x-sent"), ","), "x-bin", "\x00\xff",
		"x-deadline", fmt.Sprint(limited && time.Until(deadline) > time.Minute)))
	s.SetTrailer(metadata.Pairs("x-trailer", "end"))
	for {
		m := new(wrapperspb.StringValue)
		if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if m.Value == "fail" {
			return status.Error(codes.FailedPrecondition, "as asked: 100 % ü")
		}
		if err := s.SendMsg(wrapperspb.String("re: " + m.Value)); err != nil {
			return err
		}
	}
}

var talkStream = grpc.StreamDesc{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: talk}

// talker serves it without TLS and gives its address.
func talker(t *testing.T) string {
	t.Helper()
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Talker", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{talkStream}}, struct{}{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

// saw is all that a client sees of a call: each answer is read before the next
// message is sent, so that nothing may be held back.
func saw(t *testing.T, c *grpc.ClientConn, messages []string, options ...grpc.CallOption) string {
	t.Helper()
	var b strings.Builder
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "x-sent", "a", "x-sent", "b"), 5*time.Minute)
	defer cancel()
	s, err := c.NewStream(ctx, &talkStream, "/test.Talker/Talk", options...)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range messages {
		_ = s.SendMsg(wrapperspb.String(text)) // its error is that of RecvMsg
		m := new(wrapperspb.StringValue)
		if err = s.RecvMsg(m); err != nil {
			break
		}
		fmt.Fprintf(&b, "%d %.20s\n", len(m.Value), m.Value)
	}
	if err == nil {
		_ = s.CloseSend()
		err = s.RecvMsg(new(wrapperspb.StringValue))
	}
	header, _ := s.Header()
	fmt.Fprintf(&b, "header %s\ntrailer %s\n%v", pairs(header), pairs(s.Trailer()), err)
	return b.String()
}

// pairs are metadata without those that the gateway adds.
func pairs(md metadata.MD) string {
	var all []string
	for name, values := range md {
		if !strings.HasPrefix(name, "ratelimit") && !strings.HasPrefix(name, "x-ratelimit") && name != "date" {
			all = append(all, fmt.Sprintf("%s=%q", name, values))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestGRPCSameAsDirectly: messages, metadata, trailers and errors through the
// gateway, with and without TLS, are those of the service itself.
func TestGRPCSameAsDirectly(t *testing.T) {
	address := talker(t)
	direct := dialGRPC(t, address, insecure.NewCredentials())
	a := newAuthority(t)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	secure := credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "api.example", MinVersion: tls.VersionTLS12})
	up := &url.URL{Scheme: "http", Host: address}
	plain := start(t, perMinute("d", 1000), Config{Upstream: up}, Deps{})
	overTLS := start(t, perMinute("d", 1000), Config{Upstream: up, TLS: a.write(a.sign("api.example", 2))}, Deps{})
	for what, c := range map[string]*grpc.ClientConn{
		"without TLS": dialGRPC(t, plain.Addr(), insecure.NewCredentials()), "over TLS": dialGRPC(t, overTLS.Addr(), secure)} {
		for _, messages := range [][]string{{"one"}, {"one", "two", "three"}, {}, {"fail"}, {"one", "fail"}, {strings.Repeat("x", 3<<20)}} {
			for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
				want, got := saw(t, direct, messages, options...), saw(t, c, messages, options...)
				if got != want {
					t.Errorf("%d messages %s, %d options: through the gateway\n%s\ndirectly\n%s", len(messages), what, len(options), got, want)
				}
			}
		}
		if err := c.Invoke(t.Context(), "/test.Talker/Nothing", wrapperspb.String(""), new(wrapperspb.StringValue)); status.Code(err) != codes.Unimplemented {
			t.Errorf("an unknown method %s = %v, want Unimplemented", what, err)
		}
	}
}

func dialGRPC(t *testing.T, address string, how credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(how))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestGRPCDenialsAreStatuses: a client is told by a status, a server that is gone
// too.
func TestGRPCDenialsAreStatuses(t *testing.T) {
	f := start(t, perMinute("d", 1), Config{Upstream: &url.URL{Scheme: "http", Host: talker(t)}}, Deps{})
	c := dialGRPC(t, f.Addr(), insecure.NewCredentials())
	if got := saw(t, c, []string{"one"}); !strings.HasSuffix(got, "EOF") {
		t.Errorf("the first call = %s, want its end", got)
	}
	if got := saw(t, c, []string{"one"}); !strings.Contains(got, "ResourceExhausted") {
		t.Errorf("the second call = %s, want ResourceExhausted", got)
	}
	gone := start(t, perMinute("d", 100), Config{Upstream: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}}, Deps{})
	if got := saw(t, dialGRPC(t, gone.Addr(), insecure.NewCredentials()), []string{"one"}); !strings.Contains(got, "Unavailable") {
		t.Errorf("a call for a server that is gone = %s, want Unavailable", got)
	}
}
