package serve

import (
	"io"
	"net/http"
	"time"
)

// bodyTime is how long a caller of the decision API or the admin API may take to send
// its whole body. They are small; whoever takes longer only holds a connection.
const bodyTime = 20 * time.Second

// boundBodies bounds that time. It holds also for a body that nobody reads, since
// net/http takes in what is left of it before it answers.
func boundBodies(next http.Handler, d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.ContentLength != 0 {
			c := http.NewResponseController(w)
			if c.SetReadDeadline(time.Now().Add(d)) == nil { // else in a test without a connection
				r.Body = &boundedBody{r.Body, c}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// boundedBody lifts the bound when the body has been read: from then on net/http
// reads to find out whether the client is still there, and a call may be held for
// longer.
type boundedBody struct {
	io.ReadCloser
	response *http.ResponseController
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.response.SetReadDeadline(time.Time{}) // as it could be set
	}
	return n, err
}
