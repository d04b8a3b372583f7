package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/caudal-dev/caudal"
)

// deciding is a store with all that is asked of one while it is decided about a
// request.
type deciding interface {
	caudal.Store
	caudal.Refunder
	caudal.PermitStore
}

// Store gives a store whose calls are traced, for those who decide about requests.
// A store that lacks one of the abilities that they ask for is given back as it is,
// so that it does not seem to have it.
func (t *Tracing) Store(next caudal.Store) caudal.Store {
	if s, ok := next.(deciding); t != nil && ok {
		return &store{s, t}
	}
	return next
}

type store struct {
	deciding // to renew and release permits is no part of a request
	t        *Tracing
}

// Take asks the store within a span.
func (s *store) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	ctx, span := s.begin(ctx, "caudal.store take", len(calls))
	err := s.deciding.Take(ctx, at, calls, out)
	if span.IsRecording() && err == nil {
		degraded := false
		for i := range out {
			degraded = degraded || out[i].Degraded
		}
		span.SetAttributes(attribute.Bool("caudal.degraded", degraded))
	}
	end(span, err)
	return err
}

// Acquire asks the store for permits within a span.
func (s *store) Acquire(ctx context.Context, at caudal.Instant, calls []caudal.PermitCall, out []caudal.Grant) error {
	ctx, span := s.begin(ctx, "caudal.store acquire", len(calls))
	err := s.deciding.Acquire(ctx, at, calls, out)
	end(span, err)
	return err
}

// Refund gives charges back within a span.
func (s *store) Refund(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) error {
	ctx, span := s.begin(ctx, "caudal.store refund", len(refunds))
	err := s.deciding.Refund(ctx, at, refunds)
	end(span, err)
	return err
}

func (s *store) begin(ctx context.Context, name string, limits int) (context.Context, trace.Span) {
	ctx, span := s.t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(s.t.store, attribute.Int("caudal.limits", limits))
	}
	return ctx, span
}

// end ends a span. The error itself is not told: it may name hosts and keys.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "the store failed")
	}
	span.End()
}
