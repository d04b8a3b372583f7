package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

var api = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// stopped is a clock that stands still, so that the output is always the same.
type stopped struct{}

func (stopped) Now() caudal.Instant { return caudal.At(time.Unix(1_800_000_000, 0)) }

func Example() {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: stopped{}}), caudal.PerMinute(2)))
	limit, err := httplimit.New(limiter, httplimit.ByIP, httplimit.Options{Clock: stopped{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := limit.Wrap(api)

	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Printf("%d %s retry after %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "default";r=1;t=30 retry after ""
	// 200 "default";r=0;t=30 retry after ""
	// 429 "default";r=0;t=30 retry after "30"
}

func ExampleNewDecider() {
	set, _, err := rule.Parse("api.yaml", []byte(`
domain: public-api
descriptors:
  - key: api_key
    rate_limit: { unit: minute, requests_per_unit: 100 }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { name: logins, unit: minute, requests_per_unit: 1, algorithm: sliding_log }
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	domain, err := set.Default()
	if err != nil {
		fmt.Println(err)
		return
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	store := memstore.New(memstore.Options{Clock: stopped{}})
	defer store.Close()
	limits, err := httplimit.NewDecider(domain, store, who, httplimit.Options{Clock: stopped{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := limits.Wrap(api)

	for _, path := range []string{"/login", "/login", "/items"} {
		r := httptest.NewRequest("POST", path, nil)
		r.Header.Set("X-API-Key", "k-123")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(path, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// /login 200 "api_key";r=99;t=60, "logins";r=0;t=60
	// /login 429 "api_key";r=99;t=60, "logins";r=0;t=60
	// /items 200 "api_key";r=98;t=59
}
