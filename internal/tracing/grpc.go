package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// RateLimitMethod is the call of Envoy's protocol. Other calls, of health and
// reflection, are not traced.
const RateLimitMethod = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// Calls gives what traces the calls of a gRPC server.
func (t *Tracing) Calls() stats.Handler { return calls{t} }

type calls struct{ t *Tracing }

// TagRPC begins the span of a call, whose parent is what its metadata say.
func (c calls) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if info.FullMethodName != RateLimitMethod {
		return ctx
	}
	md, _ := metadata.FromIncomingContext(ctx)
	ctx = c.t.context.Extract(ctx, carrier(md))
	ctx, span := c.t.tracer.Start(ctx, RateLimitMethod[1:], trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("rpc.system", "grpc"),
			attribute.String("rpc.service", "envoy.service.ratelimit.v3.RateLimitService"), attribute.String("rpc.method", "ShouldRateLimit"))
	}
	return ctx
}

// HandleRPC ends it.
func (calls) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	if !ok {
		return
	}
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if span.IsRecording() {
		code := status.Code(end.Error)
		span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)))
		switch code {
		case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
			span.SetStatus(otelcodes.Error, "")
		}
	}
}

// TagConn traces no connections.
func (calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn traces no connections.
func (calls) HandleConn(context.Context, stats.ConnStats) {}

// carrier reads the metadata of a call.
type carrier metadata.MD

// Get gives a value that stands there once; more would be nobody's context.
func (c carrier) Get(name string) string {
	if v := metadata.MD(c).Get(name); len(v) == 1 {
		return v[0]
	}
	return ""
}

// Set is for writing, which nobody does.
func (c carrier) Set(name, value string) { metadata.MD(c).Set(name, value) }

// Keys gives the names.
func (c carrier) Keys() []string {
	names := make([]string, 0, len(c))
	for name := range c {
		names = append(names, name)
	}
	return names
}
