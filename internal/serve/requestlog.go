package serve

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/tracing"
)

// The requests at the gateway that the request log holds, beside Off.
const (
	LogDenied = "denied" // those that the limiter did not let pass
	LogAll    = "all"
)

// DefaultRequestLogRate is how many lines of it are written in a second.
const DefaultRequestLogRate = 100

// RequestLog are the settings of the request log. The zero value writes none.
type RequestLog struct {
	// Which is Off, LogDenied or LogAll; empty is Off.
	Which string
	// Sample is the share of these requests that is written, over 0 and at most 1; 0
	// is 1.
	Sample float64
	// Rate bounds the lines in a second; 0 is DefaultRequestLogRate. The next line says
	// how many were left out.
	Rate int
}

func (l *RequestLog) check() error {
	switch {
	case l.Which != "" && l.Which != Off && l.Which != LogDenied && l.Which != LogAll:
		return &Error{What: fmt.Sprintf("request_log: %q is not known", l.Which), Hint: "use off, denied or all"}
	case !(l.Sample >= 0 && l.Sample <= 1):
		return &Error{What: fmt.Sprintf("request_log_sample %v is no share", l.Sample), Hint: "use a number over 0 and at most 1, such as 0.01"}
	case l.Rate < 0:
		return &Error{What: "request_log_rate must not be negative"}
	}
	return nil
}

// requestLog writes it. A nil one writes nothing.
type requestLog struct {
	RequestLog
	log      *slog.Logger
	who      *identity.Resolver
	showKeys bool

	mu      sync.Mutex
	second  int64
	written int    // in that second
	left    uint64 // left out since the last line
}

func (s *Server) newRequestLog() *requestLog {
	settings := s.config.RequestLog
	if settings.Which == "" || settings.Which == Off {
		return nil
	}
	setDefault(&settings.Sample, 1)
	setDefault(&settings.Rate, DefaultRequestLogRate)
	return &requestLog{RequestLog: settings, log: s.log, who: s.resolves, showKeys: s.config.ShowKeys}
}

// Bounds of what a line holds of a client's.
const (
	longestHost = 128
	longestPath = 256
)

// write writes the line of a request that has ended. No query, header or body is in
// it, and who asked is a hash unless keys are shown.
func (l *requestLog) write(r *http.Request, x *seen, took time.Duration) {
	if l == nil || l.Which == LogDenied && (!x.decided || x.summary.Passed()) {
		return
	}
	if l.Sample < 1 && rand.Float64() >= l.Sample {
		return
	}
	left, ok := l.admit(time.Now().Unix())
	if !ok {
		return
	}
	outcome := "unlimited"
	if x.decided {
		outcome = x.summary.Outcome
	}
	attrs := []slog.Attr{
		slog.String("method", cut(r.Method, 16)), slog.String("host", cut(r.Host, longestHost)),
		slog.String("path", cut(identity.ForwardPath(r.URL), longestPath)), slog.Int("status", x.status),
		slog.String("outcome", outcome), slog.String("domain", x.summary.Domain), slog.String("rule", x.summary.Rule),
		slog.Float64("seconds", took.Seconds())}
	attrs = l.asked(attrs, r)
	if id := tracing.ID(r); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	if x.summary.Degraded {
		attrs = append(attrs, slog.Bool("degraded", true))
	}
	if left > 0 {
		attrs = append(attrs, slog.Uint64("left_out", left))
	}
	l.log.LogAttrs(r.Context(), slog.LevelInfo, "request", attrs...)
}

// asked adds who asked, in the form that rules count by, so that caudal hash finds
// it.
func (l *requestLog) asked(attrs []slog.Attr, r *http.Request) []slog.Attr {
	var q identity.Request
	q.Reset(l.who, r)
	for _, name := range [...]string{"remote_address", "api_key"} {
		if value, ok := q.Attribute(name); ok && value != "" {
			attrs = append(attrs, slog.String(name, l.shown(value)))
		}
	}
	return attrs
}

func (l *requestLog) shown(value string) string {
	if l.showKeys {
		return cut(value, longestPath)
	}
	return "#" + identity.HashKey(value).String()[:12]
}

// admit takes room for a line in a second.
func (l *requestLog) admit(second int64) (left uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if second != l.second {
		l.second, l.written = second, 0
	}
	if l.written >= l.Rate {
		l.left++
		return 0, false
	}
	l.written++
	left, l.left = l.left, 0
	return left, true
}

func cut(text string, most int) string { return text[:min(len(text), most)] }
