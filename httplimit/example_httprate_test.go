package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
)

// From go-chi/httprate: a middleware by address, in any router that takes
// func(http.Handler) http.Handler.
func Example_middleware() {
	mux := http.NewServeMux()
	mux.Handle("/", api)

	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerMinute(100).With(caudal.SlidingWindow)))
	limit, err := httplimit.New(limiter, httplimit.ByIP, httplimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := limit.Wrap(mux) // with chi: r.Use(limit.Wrap)

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header().Get("X-RateLimit-Limit"), w.Header().Get("X-RateLimit-Remaining"))
	// Output:
	// 200 100 99
}
