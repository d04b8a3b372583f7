// Package adapters shows how httplimit's middleware is put in front of routers
// other than net/http's: it is a func(http.Handler) http.Handler, which most take
// as it is or through one call of theirs.
//
// It is a module of its own, so that nobody who uses caudal inherits the routers.
package adapters

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
)

// NewLimit makes the middleware that all of them use: so many calls a minute for
// each client address.
func NewLimit(perMinute uint32) (*httplimit.Middleware, error) {
	limiter, err := caudal.New(memstore.New(memstore.Options{}), caudal.PerMinute(perMinute))
	if err != nil {
		return nil, err
	}
	return httplimit.New(limiter, httplimit.ByIP, httplimit.Options{})
}

// NetHTTP limits a mux of the standard library; /healthz is left out.
func NetHTTP(limit *httplimit.Middleware) http.Handler {
	api := http.NewServeMux()
	api.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	root := http.NewServeMux()
	root.Handle("/", limit.Wrap(api))
	root.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	return root
}

// Chi limits a group of routes: chi's middleware has the same type.
func Chi(limit *httplimit.Middleware) http.Handler {
	r := chi.NewRouter()
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	r.Group(func(r chi.Router) {
		r.Use(limit.Wrap)
		r.Get("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	})
	return r
}

// Echo limits a group of routes: echo.WrapMiddleware turns one type into the other.
func Echo(limit *httplimit.Middleware) http.Handler {
	e := echo.New()
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "ok") })
	api := e.Group("", echo.WrapMiddleware(limit.Wrap))
	api.GET("/hello", func(c echo.Context) error { return c.String(http.StatusOK, "hello") })
	return e
}

// Gin limits a group of routes. Gin has no call for a func(http.Handler)
// http.Handler; GinLimit is one.
func Gin(limit *httplimit.Middleware) http.Handler {
	r := gin.New()
	r.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "ok") })
	api := r.Group("/", GinLimit(limit))
	api.GET("/hello", func(c *gin.Context) { c.String(http.StatusOK, "hello") })
	return r
}

// GinLimit makes gin's kind of middleware. What comes after it runs inside the
// wrapped handler, or, when the call is denied, not at all.
func GinLimit(limit *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		limit.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r // its body may have been taken in while the call was held
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}
