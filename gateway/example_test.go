package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
)

func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %s", r.URL.Path, r.Header.Get("X-Forwarded-For"))
	}))
	defer api.Close()
	upstream, err := url.Parse(api.URL)
	if err != nil {
		fmt.Println(err)
		return
	}

	store := memstore.New(memstore.Options{})
	defer store.Close()
	limit, err := httplimit.New(caudal.Must(caudal.New(store, caudal.PerHour(2))), httplimit.ByIP, httplimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	gw, err := gateway.New(gateway.Options{Upstream: upstream, Limits: limit})
	if err != nil {
		fmt.Println(err)
		return
	}
	// In a program: gateway.NewServer(gw, gateway.ServerOptions{}) and its Serve.
	front := httptest.NewServer(gw)
	defer front.Close()

	for range 3 {
		res, err := http.Get(front.URL + "/api//items/../login")
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			fmt.Printf("%d %s\n", res.StatusCode, body)
		} else {
			fmt.Println(res.StatusCode, "retry after", res.Header.Get("Retry-After"))
		}
	}
	// Output:
	// 200 /api/login for 127.0.0.1
	// 200 /api/login for 127.0.0.1
	// 429 retry after 1800
}
