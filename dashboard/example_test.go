package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/caudal-dev/caudal/dashboard"
)

func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", dashboard.Handler())
	mux.Handle("GET /dashboard/", dashboard.Handler())
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
