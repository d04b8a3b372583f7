package adapters_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/caudal-dev/caudal/examples/adapters"
	"github.com/caudal-dev/caudal/httplimit"
)

func TestAdapters(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	routers := map[string]func(*httplimit.Middleware) http.Handler{
		"net/http": adapters.NetHTTP, "chi": adapters.Chi, "echo": adapters.Echo, "gin": adapters.Gin,
	}
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			limit, err := adapters.NewLimit(2)
			if err != nil {
				t.Fatal(err)
			}
			h := router(limit)
			get := func(path, from string) *httptest.ResponseRecorder {
				r := httptest.NewRequest("GET", path, nil)
				r.RemoteAddr = from
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			for range 2 {
				w := get("/hello", "203.0.113.7:1")
				if w.Code != http.StatusOK || w.Body.String() != "hello" || w.Header().Get("RateLimit") == "" {
					t.Errorf("GET /hello = %d %q %v, want 200 hello with RateLimit", w.Code, w.Body, w.Header())
				}
			}
			w := get("/hello", "203.0.113.7:1")
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "30" || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("third GET /hello = %d %v, want 429, Retry-After 30 and a problem", w.Code, w.Header())
			}
			if w := get("/hello", "203.0.113.8:1"); w.Code != http.StatusOK {
				t.Errorf("GET /hello of another client = %d, want 200", w.Code)
			}
			if w := get("/healthz", "203.0.113.7:1"); w.Code != http.StatusOK {
				t.Errorf("GET /healthz = %d, want 200: it is not limited", w.Code)
			}
		})
	}
}
