package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/caudal-dev/caudal/httplimit"
)

// Request begins the span of a request, whose parent is what its traceparent says,
// and gives the request as it goes on: with the span in its context and as its
// traceparent, so that whoever gets it next has the span as parent. EndRequest must
// be called with it. Other headers, baggage among them, stay as they are.
func (t *Tracing) Request(r *http.Request) *http.Request {
	h := r.Header.Clone()
	oneContext(h)
	ctx := t.context.Extract(r.Context(), propagation.HeaderCarrier(h))
	method := methodOf(r)
	ctx, span := t.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("url.scheme", scheme))
	}
	r = r.WithContext(ctx)
	h.Del("Tracestate") // set again where the parent had a valid one
	t.context.Inject(ctx, propagation.HeaderCarrier(h))
	r.Header = h
	return r
}

// oneContext makes of the headers what W3C says: parts of tracestate are one list,
// and of two parents neither is believed.
func oneContext(h http.Header) {
	if len(h["Traceparent"]) > 1 {
		h.Del("Traceparent")
	}
	if states := h["Tracestate"]; len(states) > 1 {
		h["Tracestate"] = []string{strings.Join(states, ",")}
	}
}

// methodOf gives the method where it is a known one: a span's name is nothing that
// clients choose.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return r.Method
	}
	return "HTTP"
}

// EndRequest ends the span of a request. s is nil where nothing was decided.
func (t *Tracing) EndRequest(ctx context.Context, status int, s *httplimit.Summary) {
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if status > 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if s != nil {
		describe(span, *s)
	}
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// ID gives the trace that a request belongs to, empty when there is none: that of
// its context, else that of its traceparent.
func ID(r *http.Request) string {
	c := trace.SpanContextFromContext(r.Context())
	if !c.HasTraceID() {
		c = trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header)))
	}
	if !c.HasTraceID() {
		return ""
	}
	return c.TraceID().String()
}
