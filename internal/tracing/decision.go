package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/caudal-dev/caudal/httplimit"
)

// Begin begins the span of a decision.
func (t *Tracing) Begin(ctx context.Context) context.Context {
	ctx, _ = t.tracer.Start(ctx, "caudal.decide")
	return ctx
}

// End ends it, and says what was decided.
func (t *Tracing) End(ctx context.Context, s httplimit.Summary) {
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(t.store)
	describe(span, s)
	if s.Delay > 0 {
		span.SetAttributes(attribute.Float64("caudal.delay", s.Delay.Seconds()))
	}
}

// describe puts a decision into a span.
func describe(span trace.Span, s httplimit.Summary) {
	span.SetAttributes(attribute.String("caudal.domain", s.Domain), attribute.String("caudal.rule", s.Rule),
		attribute.String("caudal.outcome", s.Outcome), attribute.Bool("caudal.degraded", s.Degraded))
	if s.Outcome == "unavailable" || s.Outcome == "error_allowed" {
		span.SetStatus(codes.Error, "no decision was made by the store")
	}
}
