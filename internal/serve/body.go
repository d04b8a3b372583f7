package serve

import (
	"fmt"
	"net/http"

	"github.com/caudal-dev/caudal/httplimit"
)

// boundBody refuses bodies of more than so many bytes; 0 is no bound. One that
// says its length is refused before anything is charged, another is cut off when
// it has grown too long.
func boundBody(next http.Handler, most int64) http.Handler {
	if most <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > most {
			w.Header().Set("Connection", "close") // nobody will read what follows
			httplimit.Problem{Title: http.StatusText(http.StatusRequestEntityTooLarge), Status: http.StatusRequestEntityTooLarge,
				Detail: fmt.Sprintf("the body is longer than the %d bytes that the gateway takes", most)}.Write(w, r)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}
