package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/grpclimit"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/storetest"
)

// stream reads a stream to its end and gives how it ended.
func stream(ctx context.Context, c pb.TestServiceClient, o ...grpc.CallOption) error {
	s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{}, o...)
	for err == nil {
		_, err = s.Recv()
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func TestC70DeniedCallsAreResourceExhausted(t *testing.T) {
	ctx := t.Context()
	calls := map[string]func(pb.TestServiceClient, ...grpc.CallOption) error{
		"unary": func(c pb.TestServiceClient, o ...grpc.CallOption) error {
			_, err := c.EmptyCall(ctx, &pb.Empty{}, o...)
			return err
		},
		"stream": func(c pb.TestServiceClient, o ...grpc.CallOption) error { return stream(ctx, c, o...) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock(storetest.Start)
			s := serve(t, one(t, caudal.PerMinute(1), httplimit.ByIP, clock), "")
			if err := call(s.client); err != nil {
				t.Fatalf("first call = %v, want nil", err)
			}
			clock.Advance(500 * time.Microsecond)
			var header, trailer metadata.MD
			err := call(s.client, grpc.Header(&header), grpc.Trailer(&trailer))
			if got := status.Code(err); got != codes.ResourceExhausted {
				t.Fatalf("second call = %v, want ResourceExhausted", err)
			}
			d := detailsOf(err)
			if got, want := d.retry.GetRetryDelay().AsDuration(), time.Minute-500*time.Microsecond; got != want {
				t.Errorf("RetryInfo = %s, want %s", got, want)
			}
			if d.info.GetReason() != grpclimit.ReasonRateLimited || d.info.GetDomain() != "api.test" {
				t.Errorf("ErrorInfo = %v, want RATE_LIMITED of api.test", d.info)
			}
			if v := d.quota.GetViolations(); len(v) != 1 || v[0].Subject != "limit:default" || v[0].Description != "1/minute: 0 of 1 left" {
				t.Errorf("QuotaFailure = %v, want the limit", v)
			}
			if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "60000" {
				t.Errorf("pushback = %q, want 60000, rounded up", got)
			}
		})
	}
}

func TestC70NeverHasNoRetryInfo(t *testing.T) {
	s := serve(t, one(t, caudal.PerMinute(0), httplimit.ByIP, nil), retryConfig)
	var trailer metadata.MD
	_, err := s.client.EmptyCall(t.Context(), &pb.Empty{}, grpc.Trailer(&trailer))
	if d := detailsOf(err); status.Code(err) != codes.ResourceExhausted || d.retry != nil || d.info == nil {
		t.Errorf("call = %v with %+v, want ResourceExhausted with ErrorInfo and no RetryInfo", err, d)
	}
	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "-1" {
		t.Errorf("pushback = %q, want -1", got)
	}
	if got := s.attempts.Load(); got != 1 {
		t.Errorf("a client that retries made %d attempts, want 1: told not to", got)
	}
}

// retryConfig makes a client retry, by its own backoff only after many seconds: one
// that comes back sooner obeyed the server.
const retryConfig = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3,
	"initialBackoff": "60s", "maxBackoff": "60s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`

func TestARealClientObeysThePushback(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s := serve(t, one(t, caudal.PerSecond(10).WithBurst(1), httplimit.ByIP, nil), retryConfig)
	start := time.Now()
	for range 3 {
		if _, err := s.client.EmptyCall(ctx, &pb.Empty{}); err != nil {
			t.Fatalf("EmptyCall() = %v, want nil: the client waits and tries again", err)
		}
	}
	if err := stream(ctx, s.client); err != nil {
		t.Fatalf("StreamingOutputCall() = %v, want nil", err)
	}
	if took := time.Since(start); took < 290*time.Millisecond {
		t.Errorf("took %s, want at least the 300 ms that 4 calls need at 10/s", took)
	}
	// Each but the first is denied once, unless the machine stalls for 100 ms; none
	// comes back too early.
	if got := s.attempts.Load(); got < 5 || got > 7 {
		t.Errorf("4 calls made %d attempts, want 7", got)
	}
}

// brokenStore answers with an error, or panics.
type brokenStore struct{ panics bool }

func (s brokenStore) Take(context.Context, caudal.Instant, []caudal.Call, []caudal.Decision) error {
	if s.panics {
		panic("broken")
	}
	return caudal.ErrStore
}

const byAddress = `
domain: d
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 1 }
`

func TestC70StoreFailure(t *testing.T) {
	tests := []struct {
		name  string
		store caudal.Store
		opts  httplimit.Options
		want  codes.Code
	}{
		{"fails open", brokenStore{}, httplimit.Options{}, codes.OK},
		{"fails closed", brokenStore{}, httplimit.Options{OnError: httplimit.DenyOnError}, codes.Unavailable},
		{"a panic passes", brokenStore{panics: true}, httplimit.Options{OnError: httplimit.DenyOnError}, codes.OK},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, rules(t, byAddress, test.store, test.opts), "")
			_, err := s.client.EmptyCall(t.Context(), &pb.Empty{})
			if got := status.Code(err); got != test.want {
				t.Errorf("EmptyCall() = %v, want %s", err, test.want)
			}
			if d := detailsOf(err); test.want != codes.OK && d.info.GetReason() != grpclimit.ReasonUnavailable {
				t.Errorf("ErrorInfo = %v, want %s", d.info, grpclimit.ReasonUnavailable)
			}
		})
	}
}

func TestRulesSeeTheCall(t *testing.T) {
	const yaml = `
domain: d
descriptors:
  - key: path
    value: /grpc.testing.TestService/EmptyCall
    descriptors:
      - key: api_key
        missing: reject
        rate_limit: { name: keyed, unit: minute, requests_per_unit: 1 }
`
	s := serve(t, rules(t, yaml, memstore.New(memstore.Options{}), httplimit.Options{}), "")
	call := func(md ...string) error {
		_, err := s.client.EmptyCall(metadata.AppendToOutgoingContext(t.Context(), md...), &pb.Empty{})
		return err
	}
	steps := []struct {
		what string
		err  error
		want codes.Code
	}{
		{"no key", call(), codes.Unauthenticated},
		{"key a", call("x-api-key", "a"), codes.OK},
		{"key a again", call("x-api-key", "a"), codes.ResourceExhausted},
		{"key b", call("x-api-key", "b"), codes.OK},
		{"another method", stream(t.Context(), s.client), codes.OK},
	}
	for _, step := range steps {
		if got := status.Code(step.err); got != step.want {
			t.Errorf("%s = %v, want %s", step.what, step.err, step.want)
		}
	}
	if v := detailsOf(steps[2].err).quota.GetViolations(); len(v) != 1 || v[0].Subject != "limit:keyed" {
		t.Errorf("QuotaFailure = %v, want limit:keyed", v)
	}
	if d := detailsOf(steps[0].err); d.info.GetReason() != grpclimit.ReasonMissing || d.info.GetMetadata()["attribute"] != "api_key" {
		t.Errorf("ErrorInfo = %v, want %s of api_key", d.info, grpclimit.ReasonMissing)
	}
}

// TestCountWhen counts calls by how they end: only failed logins.
func TestCountWhen(t *testing.T) {
	const yaml = `
domain: d
descriptors:
  - key: remote_address
    count_when: { status: [401] }
    rate_limit: { unit: minute, requests_per_unit: 1 }
`
	s := serve(t, rules(t, yaml, memstore.New(memstore.Options{}), httplimit.Options{}), "")
	call := func(want codes.Code) {
		t.Helper()
		if _, err := s.client.EmptyCall(t.Context(), &pb.Empty{}); status.Code(err) != want {
			t.Errorf("EmptyCall() = %v, want %s", err, want)
		}
	}
	call(codes.OK)
	call(codes.OK)
	if err := stream(t.Context(), s.client); err != nil {
		t.Errorf("StreamingOutputCall() = %v, want nil", err)
	}
	s.err = status.Error(codes.Unauthenticated, "wrong password")
	call(codes.Unauthenticated)
	call(codes.ResourceExhausted)
}

// TestQueue calls the interceptor without a connection, so that time can be fake.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := caudal.PerSecond(1).WithQueue(5, 0)
		key := func(*http.Request) (string, error) { return "all", nil }
		i := one(t, limit, key, nil)
		start := time.Now()
		call := func(ctx context.Context) (time.Duration, error) {
			_, err := i.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/s/m"}, func(context.Context, any) (any, error) { return nil, nil })
			return time.Since(start), err
		}
		for _, want := range []time.Duration{0, time.Second, 2 * time.Second} {
			if at, err := call(t.Context()); at != want || err != nil {
				t.Errorf("call left at %s, %v, want %s", at, err, want)
			}
		}

		// The turn comes after the deadline: denied at once, and the turn is free.
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		at, err := call(short)
		if d := detailsOf(err); status.Code(err) != codes.ResourceExhausted || at != 2*time.Second || d.retry.GetRetryDelay().AsDuration() != time.Second {
			t.Errorf("call with 500 ms = %v at %s (%v), want ResourceExhausted at once, with 1 s to wait", err, at, d.retry)
		}

		// The client goes away while it waits: the turn goes back.
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, leave)
		if at, err := call(gone); status.Code(err) != codes.Canceled || at != 2200*time.Millisecond {
			t.Errorf("cancelled call = %v at %s, want Canceled at 2.2s", err, at)
		}
		if at, err := call(t.Context()); at != 3*time.Second || err != nil {
			t.Errorf("next call left at %s, %v, want 3s: the turn of the one that went away", at, err)
		}
	})
}

func TestHandlersPanicIsNotTouched(t *testing.T) {
	i := one(t, caudal.PerSecond(1), func(*http.Request) (string, error) { return "all", nil }, nil)
	defer func() {
		if v := recover(); v != "handler" {
			t.Errorf("recovered %v, want the handler's panic", v)
		}
	}()
	_, _ = i.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { panic("handler") })
	t.Error("the panic did not come through")
}

func TestHealthChecksAreNotLimited(t *testing.T) {
	i := one(t, caudal.PerMinute(0), func(*http.Request) (string, error) { return "all", nil }, nil)
	want := errors.New("reached")
	for method, err := range map[string]error{"/grpc.health.v1.Health/Check": want, "/grpc.health.v1.HealthX/Check": nil} {
		_, got := i.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) { return nil, want })
		if errors.Is(got, want) != (err != nil) {
			t.Errorf("%s = %v, want reached %t", method, got, err != nil)
		}
	}
}

func TestTap(t *testing.T) {
	i := one(t, caudal.PerMinute(2), httplimit.ByIP, nil)
	s := serve(t, nil, "", grpc.InTapHandle(i.Tap))
	for range 2 {
		if _, err := s.client.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	err := deniedOnce(t, s)
	if d := detailsOf(err); d.retry == nil || d.info == nil {
		t.Errorf("denied call = %v with %+v, want details", err, d)
	}
}

// deniedOnce calls a few times and gives a denial. On a busy machine a call may use
// up the little time that the tap has, and pass.
func deniedOnce(t *testing.T, s *server) (err error) {
	t.Helper()
	for range 5 {
		if _, err = s.client.EmptyCall(t.Context(), &pb.Empty{}); status.Code(err) == codes.ResourceExhausted {
			return err
		}
	}
	t.Errorf("EmptyCall() = %v five times, want ResourceExhausted", err)
	return err
}

func TestTapWaitsForNothing(t *testing.T) {
	queue := one(t, caudal.PerMinute(1).WithQueue(5, 0), httplimit.ByIP, nil)
	s := serve(t, nil, "", grpc.InTapHandle(queue.Tap))
	start := time.Now()
	if _, err := s.client.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	_ = deniedOnce(t, s) // a turn in a minute is no turn in the tap
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %s, want no waiting", took)
	}
	slow := rules(t, byAddress, obedientStore{}, httplimit.Options{})
	s = serve(t, nil, "", grpc.InTapHandle(slow.Tap))
	if _, err := s.client.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
		t.Errorf("EmptyCall() = %v, want it to pass a store that takes too long", err)
	}
}

// obedientStore needs time and goes by the deadline, as a store over a network does.
type obedientStore struct{}

func (obedientStore) Take(ctx context.Context, _ caudal.Instant, _ []caudal.Call, _ []caudal.Decision) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

func TestNewRefuses(t *testing.T) {
	if _, err := grpclimit.New(nil, grpclimit.Options{}); err == nil {
		t.Error("New(nil) = nil error, want one")
	}
}
