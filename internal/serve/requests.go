package serve

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/internal/tracing"
)

// openTracing begins to trace, where the environment says so.
func (s *Server) openTracing() (err error) {
	if s.tracing, err = tracing.New(tracing.Options{Version: s.deps.Version, Store: s.store.kind, Logger: s.log}); err != nil {
		return &Error{What: err.Error(), Hint: "leave the OTEL_ variables out for no traces; docs/operating.md has those that count"}
	}
	return nil
}

// tracer is what deciders are given; nil where nothing is traced.
func (s *Server) tracer() httplimit.Tracer {
	if s.tracing == nil {
		return nil // and not an interface that holds a nil
	}
	return s.tracing
}

// seen is a request at the gateway with what becomes of it, where somebody wants to
// know.
type seen struct {
	http.ResponseWriter
	status  int // 0 until the response begins
	decided bool
	summary httplimit.Summary
}

type seenKey struct{}

// observe traces requests and writes the request log. Where neither is wanted, it
// gives the handler as it is.
func (s *Server) observe(next http.Handler) http.Handler {
	if s.tracing == nil && s.requestLog == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, x := time.Now(), &seen{ResponseWriter: w}
		r = r.WithContext(context.WithValue(r.Context(), seenKey{}, x))
		if s.tracing != nil {
			r = s.tracing.Request(r)
		}
		defer s.observed(r, x, start) // also when a response is cut off, by a panic
		next.ServeHTTP(x, r)
	})
}

func (s *Server) observed(r *http.Request, x *seen, start time.Time) {
	if s.tracing != nil {
		summary := &x.summary
		if !x.decided {
			summary = nil
		}
		s.tracing.EndRequest(r.Context(), x.status, summary)
	}
	s.requestLog.write(r, x, time.Since(start))
}

// traceAsked traces requests that ask for decisions. Those of health are none.
func (s *Server) traceAsked(next http.Handler) http.Handler {
	if s.tracing == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthcheckPath {
			next.ServeHTTP(w, r)
			return
		}
		x := &seen{ResponseWriter: w}
		r = s.tracing.Request(r)
		defer func() { s.tracing.EndRequest(r.Context(), x.status, nil) }()
		next.ServeHTTP(x, r)
	})
}

// noteDecision keeps what was decided about a request; it is for gateway.Options,
// and nil where nobody wants to know.
func (s *Server) noteDecision() func(*http.Request, *httplimit.Outcome) {
	if s.tracing == nil && s.requestLog == nil {
		return nil
	}
	return func(r *http.Request, o *httplimit.Outcome) {
		if x, ok := r.Context().Value(seenKey{}).(*seen); ok {
			x.summary, x.decided = o.Summary(), true
		}
	}
}

// traced gives the store for those who decide.
func (s *Server) traced(store caudal.Store) caudal.Store { return s.tracing.Store(store) }

// flushFor is how long the end waits for a collector to take the last spans, within
// what the shutdown timeout leaves; leastFlush is what it gets in any case.
const (
	flushFor   = 3 * time.Second
	leastFlush = 200 * time.Millisecond
)

func (s *Server) closeTracing(deadline time.Time) {
	if s.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(leastFlush, min(flushFor, time.Until(deadline))))
	defer cancel()
	if err := s.tracing.Close(ctx); err != nil {
		s.log.Warn("the last traces were not sent", "error", err)
	}
}

// WriteHeader notes the status.
func (x *seen) WriteHeader(status int) {
	if x.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write begins the response, if nothing has.
func (x *seen) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	return x.ResponseWriter.Write(p)
}

// Hijack hands the connection over, for an upgrade.
func (x *seen) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err == nil && x.status == 0 {
		x.status = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// Unwrap lets http.ResponseController find what this does not do itself.
func (x *seen) Unwrap() http.ResponseWriter { return x.ResponseWriter }
