package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// wrap is the life of a request in front of a handler. The outcome is released
// before the handler runs, which may take long, unless the response has yet to
// say what the call costs.
func wrap(d interface{ Decide(*http.Request) *Outcome }, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := d.Decide(r)
		if !o.Hold(r) {
			o.Refuse(w, r)
			o.Release()
			return
		}
		w = serveHolding(o, w)
		slot, ok := o.Admit(r.Context(), o.shedding)
		if !ok {
			defer o.Release() // also when the writer panics: permits would be renewed for ever
			o.Refuse(w, r)
			return
		}
		next := next
		if slot != nil {
			defer slot.Release() // also when what comes before the handler panics
			next = serveSlot(slot, next)
		}
		switch {
		case o.waitsFor(countsSome):
			serveWatched(o, next, w, r)
		case o.PaysLater():
			o.SetHeaders(w.Header())
			// Deferred, so that a handler that panics does not cost the most. The headers
			// can still be read when the handler is done; no wrapper has to watch them.
			defer func() {
				o.Settle(r.Context(), 0, w.Header())
				o.Release()
			}()
			next.ServeHTTP(w, r)
		case o.HoldsPermits():
			o.SetHeaders(w.Header())
			defer o.Release()
			next.ServeHTTP(w, r)
		default:
			o.SetHeaders(w.Header())
			o.Release()
			next.ServeHTTP(w, r)
		}
	})
}

// serveWatched runs a handler whose status says whether the call counts. It is
// settled when the response begins, before the headers go out, so that they tell
// what is left and a long stream holds no charge. A handler that panics before it
// has begun leaves no status, and its call counts: making a server fail must not
// be a way around a limit.
func serveWatched(o *Outcome, next http.Handler, w http.ResponseWriter, r *http.Request) {
	watcher := &watcher{ResponseWriter: w, begin: func(status int) {
		o.settle(r.Context(), status, w.Header(), false)
		o.SetHeaders(w.Header())
	}}
	defer func() {
		status := watcher.status
		watcher.begin = nil // whoever still writes has no outcome any more
		o.Settle(r.Context(), status, w.Header())
		o.Release()
	}()
	next.ServeHTTP(watcher.shown(), r)
	watcher.start(http.StatusOK) // which is what net/http sends for a handler that writes nothing
}

// watcher is a ResponseWriter that tells with which status its response begins.
// All that the writer below can do it can do too.
type watcher struct {
	http.ResponseWriter
	begin    func(status int)
	hijacked func(net.Conn) net.Conn // gives the connection for the handler
	status   int                     // 0 before the response begins
}

// shown gives the writer for the handler. Handlers ask whether a writer can flush
// by looking for the method, so it is there only where it works.
func (w *watcher) shown() http.ResponseWriter {
	if _, ok := w.ResponseWriter.(http.Flusher); ok {
		return flushWatcher{w}
	}
	return w
}

func (w *watcher) start(status int) {
	if w.status == 0 && w.begin != nil {
		w.status = status
		w.begin(status)
	}
}

// Unwrap is for http.ResponseController.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the response, unless the status is one of those that come
// before it, such as 103.
func (w *watcher) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.start(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watcher) Write(p []byte) (int, error) {
	w.start(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// WriteString spares the copy where the writer below does.
func (w *watcher) WriteString(s string) (int, error) {
	w.start(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom hands files to the kernel where the writer below does. Before the
// response has begun it goes by Write: a reader that gives nothing begins nothing.
func (w *watcher) ReadFrom(r io.Reader) (int64, error) {
	if w.status == 0 && w.begin != nil {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	return io.Copy(w.ResponseWriter, r)
}

// FlushError is for http.ResponseController.
func (w *watcher) FlushError() error {
	if canFlush(w.ResponseWriter) {
		w.start(http.StatusOK)
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack hands the connection over. What goes over it then is nobody's response
// any more: it counts as the switch to another protocol that it is.
func (w *watcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.start(http.StatusSwitchingProtocols)
		if w.hijacked != nil {
			conn = w.hijacked(conn)
		}
	}
	return conn, rw, err
}

// Push is HTTP/2's.
func (w *watcher) Push(target string, opts *http.PushOptions) error {
	if p, ok := w.ResponseWriter.(http.Pusher); ok {
		return p.Push(target, opts)
	}
	return http.ErrNotSupported
}

type flushWatcher struct{ *watcher }

// Flush sends what was written so far.
func (w flushWatcher) Flush() { _ = w.FlushError() }

// canFlush reports whether a ResponseController could flush the writer.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case interface{ FlushError() error }, http.Flusher:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

var (
	_ http.Hijacker   = (*watcher)(nil)
	_ http.Pusher     = (*watcher)(nil)
	_ http.Flusher    = flushWatcher{}
	_ io.ReaderFrom   = (*watcher)(nil)
	_ io.StringWriter = (*watcher)(nil)
)
