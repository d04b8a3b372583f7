package gateway

import (
	"io"
	"net/http"
)

// watchBody marks what goes wrong with the client's body, so that a chunk that is
// none is not taken for a failure of the upstream. It keeps bodies that net/http
// knows to be empty, which it treats apart.
func watchBody(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		r.Body = &watchedBody{r.Body}
	}
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
func (e *bodyError) Unwrap() error { return e.err }
