package gateway

import (
	"fmt"
	"io"
	"net/http"

	"github.com/caudal-dev/caudal/httplimit"
)

// boundBody bounds the client's body to so many bytes where there is a bound, and marks what goes wrong with it, so that a chunk that is
// none is not taken for a failure of the upstream. It keeps bodies that net/http
// knows to be empty, which it treats apart.
func boundBody(w http.ResponseWriter, r *http.Request, most int64) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return
	}
	if most > 0 {
		r.Body = http.MaxBytesReader(w, r.Body, most)
	}
	r.Body = &watchedBody{r.Body}
}

func tooLong(most int64) httplimit.Problem {
	return problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than the %d bytes that the gateway takes", most))
}

type watchedBody struct{ io.ReadCloser }

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

// bodyError is a failure of the client's side of a request.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "the client's body: " + e.err.Error() }

// problem is the answer to such a client, if it still reads.
func (e *bodyError) problem() httplimit.Problem {
	return problem(http.StatusBadRequest, "the body cannot be read to its end")
}

func (e *bodyError) Unwrap() error { return e.err }
