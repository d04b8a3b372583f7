package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
)

// boundBody bounds the client's body to so many bytes, where there is a bound, and
// to so long a wait for more of it; and marks what goes wrong with it, so that a
// chunk that is none is not taken for a failure of the upstream. It keeps bodies
// that net/http knows to be empty, which it treats apart.
func boundBody(w http.ResponseWriter, r *http.Request, most int64, wait time.Duration) *watchedBody {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	if most > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, most)
	}
	b := &watchedBody{ReadCloser: r.Body, patience: patience{bound: wait, client: w, giveUp: stopReading}}
	r.Body = b
	return b
}

func tooLong(most int64) httplimit.Problem {
	return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than the %d bytes that the gateway takes", most))
}

// unreadTime is how long a client may take to send what is left of a body that nobody
// reads.
const unreadTime = 5 * time.Second

// hurry bounds that time for a request that is about to be answered without its
// body. net/http takes in what is left of a body of HTTP/1 before it answers, and by
// itself waits for it as long as the client likes: being denied would be a way to
// hold connections.
func (g *Gateway) hurry(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor > 1 || r.ContentLength == 0 {
		return
	}
	if b, ok := r.Body.(*watchedBody); ok {
		b.spare(r, w.Header())
	}
	wait := unreadTime
	if g.body > 0 {
		wait = min(wait, g.body)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(wait)) // net/http lifts it for the next request
}

// spare closes the connection behind the answer to a client that waits for leave to
// send its body (Expect: 100-continue) and never got it: nobody knows whether it will
// still send it. net/http does so by itself, but for a body that is watched.
func (b *watchedBody) spare(r *http.Request, h http.Header) {
	if b != nil && r.ProtoMajor == 1 && !b.asked.Load() && asksFirst(r) {
		h.Set("Connection", "close")
	}
}

// asksFirst reports whether a client waits for leave to send its body.
func asksFirst(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Expect"), "100-continue")
}

type watchedBody struct {
	io.ReadCloser
	patience patience
	asked    atomic.Bool // somebody has begun to read it
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.asked.Store(true)
	b.patience.begin()
	n, err := b.ReadCloser.Read(p)
	slow := b.patience.done()
	if err != nil && err != io.EOF {
		err = &bodyError{err, slow}
	}
	return n, err
}

// Close waits for the client as well: net/http takes in what is left, up to a size.
// It comes before the response is given up, so that nothing waits after it.
func (b *watchedBody) Close() error {
	b.patience.begin()
	defer b.patience.done()
	return b.ReadCloser.Close()
}

// bodyError is a failure of the client's side of a request.
type bodyError struct {
	err  error
	slow bool
}

func (e *bodyError) Error() string {
	if e.slow {
		return "the client's body: nothing more came in time"
	}
	return "the client's body: " + e.err.Error()
}

func (e *bodyError) Unwrap() error { return e.err }

// problem is the answer to such a client, if it still reads.
func (e *bodyError) problem() httplimit.Problem {
	if e.slow {
		return problem(http.StatusRequestTimeout, "the rest of the body did not come in time")
	}
	return problem(http.StatusBadRequest, "the body cannot be read to its end")
}

// lastWord is the body of a response that may end before the request does, as a gRPC
// stream that its server ends. Closing it would wait for the client to say more,
// with the end of the response held back: net/http waits for the request's body, and
// ReverseProxy keeps it from closing that.
type lastWord struct {
	io.ReadCloser
	request *watchedBody
}

func (b *lastWord) Close() error {
	_ = b.request.Close() // what may still come is for nobody
	return b.ReadCloser.Close()
}
