package decisionapi_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/caudal-dev/caudal/decisionapi"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

func Example() {
	set, _, err := rule.Parse("shop.yaml", []byte(`
domain: shop
descriptors:
  - key: api_key
    rate_limit: { name: key, unit: minute, requests_per_unit: 60, burst: 2 }
`))
	if err != nil {
		log.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		log.Fatal(err)
	}
	who, err := identity.New(identity.Options{TrustedProxies: decisionapi.Local()})
	if err != nil {
		log.Fatal(err)
	}
	store := memstore.New(memstore.Options{})
	defer store.Close()
	decider, err := httplimit.NewDecider(domain, store, who, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	api, err := decisionapi.New(decider, who, decisionapi.Options{})
	if err != nil {
		log.Fatal(err)
	}
	api.SetRules(set, domain)
	mux := http.NewServeMux()
	api.Register(mux)

	server := httptest.NewServer(mux)
	defer server.Close()
	res, err := http.Post(server.URL+"/v1/check", "application/json",
		strings.NewReader(`{"attributes": {"api_key": "alice"}, "cost": 3}`))
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d %s", res.StatusCode, body)
	// Output:
	// 200 {"allowed":false,"domain":"shop","never":true,"delay":0,"nearest":"key","limits":[{"name":"key","mode":"enforce","allowed":false,"charged":false,"limit":2,"remaining":2,"reset_after":0,"delay":0,"never":true}]}
}
