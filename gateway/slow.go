package gateway

import (
	"net/http"
	"sync"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
)

// patience bounds how long one wait for a client may last, however many waits there
// are: a transfer that goes on is never cut off, one that stands still is. The
// deadlines of net/http do not fit, for in HTTP/2 they end a stream also while
// nobody waits for it. The zero value has no bound.
type patience struct {
	bound  time.Duration
	client http.ResponseWriter
	giveUp func(*http.ResponseController)

	mu      sync.Mutex
	timer   *time.Timer
	waiting bool
	over    bool
}

// begin says that a wait begins.
func (p *patience) begin() {
	if p.bound <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = true
	if p.timer == nil {
		p.timer = time.AfterFunc(p.bound, p.end)
		return
	}
	p.timer.Reset(p.bound)
}

// end ends a wait that has lasted too long. The lock keeps it from touching a
// response that is no longer the call's.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting {
		p.over = true
		p.giveUp(http.NewResponseController(p.client))
	}
}

// done says that the wait is over, and reports whether it was cut short.
func (p *patience) done() (cut bool) {
	if p.bound <= 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = false
	if p.timer != nil {
		p.timer.Stop()
	}
	return p.over
}

// cutShort reports whether a wait was.
func (p *patience) cutShort() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// The errors are of connections without deadlines, such as those of tests.
func stopReading(c *http.ResponseController) { _ = c.SetReadDeadline(past) }
func stopWriting(c *http.ResponseController) { _ = c.SetWriteDeadline(past) }

// clientWriter gives up on a client that does not take its response, and adds what
// the limits say to its headers.
type clientWriter struct {
	http.ResponseWriter
	limits    *httplimit.Outcome // nil when nothing limits the call
	patience  patience
	begun     bool
	continues bool // net/http itself says 100 Continue when the body is asked for
}

// unwatched is what net/http takes without waiting for the client: its buffer.
const unwatched = 4 << 10

// WriteHeader adds the limits' headers. It is done here and not before the call, so
// that they meet the upstream's own, and do not go out with its 1xx responses. It
// also keeps net/http from guessing the type of a response that has none.
func (w *clientWriter) WriteHeader(status int) {
	if status == http.StatusContinue && w.continues {
		return // the upstream's; the client would have two
	}
	if status >= 200 {
		h := w.Header()
		if w.limits != nil {
			w.limits.SetHeaders(h)
		}
		if len(h["Content-Type"]) == 0 {
			h["Content-Type"] = nil
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *clientWriter) Write(p []byte) (int, error) {
	if !w.begun && len(p) <= unwatched { // most responses, which so cost nothing
		w.begun = true
		return w.ResponseWriter.Write(p)
	}
	w.begun = true
	w.patience.begin()
	defer w.patience.done()
	return w.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (w *clientWriter) FlushError() error {
	w.patience.begin()
	defer w.patience.done()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController find what this does not do itself.
func (w *clientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
