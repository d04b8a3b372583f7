package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
)

// A handler that knows who is charged, and how much, only once it has read the body.
func ExampleAnswer() {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: stopped{}}), caudal.PerMinute(10)))
	options := httplimit.Options{Clock: stopped{}}

	export := func(w http.ResponseWriter, r *http.Request) {
		var query struct {
			Tenant string
			Rows   uint32
		}
		if err := json.NewDecoder(r.Body).Decode(&query); err != nil {
			http.Error(w, "bad query", http.StatusBadRequest)
			return
		}
		d, err := limiter.AllowN(r.Context(), query.Tenant, query.Rows)
		if err == nil && !httplimit.Answer(w, r, limiter, d, options) {
			return
		}
		fmt.Fprintln(w, "exported")
	}

	for _, body := range []string{`{"tenant": "acme", "rows": 4}`, `{"tenant": "acme", "rows": 9}`, `{"tenant": "other", "rows": 9}`} {
		w := httptest.NewRecorder()
		export(w, httptest.NewRequest("POST", "/export", strings.NewReader(body)))
		fmt.Printf("%d %s retry after %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "default";r=6;t=36 retry after ""
	// 429 "default";r=6;t=18 retry after "18"
	// 200 "default";r=1;t=6 retry after ""
}
