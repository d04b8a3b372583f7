package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal/httplimit"
)

// Decider decides about calls. *httplimit.Middleware and *httplimit.Decider do.
type Decider interface {
	Decide(*http.Request) *httplimit.Outcome
}

// Options are the settings of an Interceptor. The zero value is usable.
type Options struct {
	// Domain is the domain of ErrorInfo: who says so, usually the name of the
	// service. Default "caudal".
	Domain string
	// Exempt says which methods (/package.Service/Method) are not limited. Default:
	// those of grpc.health.v1.Health, so that no probe finds a busy server dead.
	Exempt func(method string) bool
}

// Interceptor limits the calls of a gRPC server. Make it with New. It is safe for
// concurrent use.
type Interceptor struct {
	decider Decider
	opts    Options
}

// New makes the interceptors for a decider, which is required.
func New(d Decider, o Options) (*Interceptor, error) {
	if d == nil {
		return nil, errors.New("grpclimit: no decider: make one with httplimit.New or httplimit.NewDecider")
	}
	if o.Domain == "" {
		o.Domain = "caudal"
	}
	if len(o.Domain) > maxDomain {
		return nil, fmt.Errorf("grpclimit: a domain of %d bytes: use at most %d", len(o.Domain), maxDomain)
	}
	if o.Exempt == nil {
		o.Exempt = func(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }
	}
	return &Interceptor{decider: d, opts: o}, nil
}

// maxDomain keeps the details of a denial within what clients accept of trailers.
const maxDomain = 255

// Unary is the interceptor for calls with one request and one answer.
func (i *Interceptor) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	if i.opts.Exempt(info.FullMethod) {
		return handler(ctx, req)
	}
	o, denied := i.decide(ctx, info.FullMethod)
	if denied != nil {
		// It fails only where there is no call to answer, as in a test.
		_ = grpc.SetTrailer(ctx, denied.trailer)
		return nil, denied.status.Err()
	}
	if o == nil {
		return handler(ctx, req)
	}
	ended := 0 // a handler that panics leaves it so: the call counts
	defer func() { settle(ctx, o, ended) }()
	answer, err = handler(ctx, req)
	ended = statusOf(err)
	return answer, err
}

// Stream is the interceptor for streams, which are charged when they begin.
func (i *Interceptor) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	if i.opts.Exempt(info.FullMethod) {
		return handler(srv, ss)
	}
	o, denied := i.decide(ss.Context(), info.FullMethod)
	if denied != nil {
		ss.SetTrailer(denied.trailer)
		return denied.status.Err()
	}
	if o == nil {
		return handler(srv, ss)
	}
	ended := 0 // a handler that panics leaves it so: the call counts
	defer func() { settle(ss.Context(), o, ended) }()
	err = handler(srv, ss)
	ended = statusOf(err)
	return err
}

// refusal is the answer to a call that may not pass.
type refusal struct {
	status  *status.Status
	trailer metadata.MD
}

// decide decides about a call and holds it until its turn. The outcome is there
// only where the end of the call has yet to say what it costs, or gives permits back.
func (i *Interceptor) decide(ctx context.Context, method string) (*httplimit.Outcome, *refusal) {
	md, _ := metadata.FromIncomingContext(ctx)
	o := i.decider.Decide(request(ctx, method, md))
	if !o.Wait(ctx) {
		defer o.Release()
		return nil, i.refuse(ctx, o)
	}
	if o.PaysLater() || o.HoldsPermits() {
		return o, nil
	}
	o.Release()
	return nil, nil
}

// settle tells limits that wait for it how a call ended.
func settle(ctx context.Context, o *httplimit.Outcome, status int) {
	o.Settle(ctx, status, nil)
	o.Release()
}

// statusOf is the status of HTTP that a handler's error corresponds to. Like gRPC's
// server it takes a context's error for what it says.
func statusOf(err error) int {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return httpStatus(s.Code())
}
