package identity_test

import (
	"fmt"
	"net/http/httptest"

	"github.com/caudal-dev/caudal/identity"
)

func Example() {
	proxies, err := identity.ParsePrefixes([]string{"10.0.0.0/8"})
	if err != nil {
		fmt.Println(err)
		return
	}
	who, err := identity.New(identity.Options{TrustedProxies: proxies})
	if err != nil {
		fmt.Println(err)
		return
	}

	r := httptest.NewRequest("GET", "/api//Login/?page=2", nil)
	r.RemoteAddr = "10.0.0.9:40000"                              // the proxy
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 203.0.113.7:80") // the first may be invented
	r.Header.Set("X-API-Key", "k-123")

	var q identity.Request
	q.Reset(who, r)
	for _, name := range []string{"remote_address", "api_key", "path", "query:page", "user"} {
		value, ok := q.Attribute(name)
		fmt.Println(name, value, ok)
	}
	// Output:
	// remote_address 203.0.113.7 true
	// api_key k-123 true
	// path /api/Login true
	// query:page 2 true
	// user  false
}

func ExampleMatchPath() {
	for _, p := range []string{"/api/login", "//api/./login/", "/api/%6cogin;x=1", "/api%2Flogin"} {
		fmt.Println(identity.NormalizePath(p), "->", identity.MatchPath(p, false))
	}
	// Output:
	// /api/login -> /api/login
	// /api/login/ -> /api/login
	// /api/login;x=1 -> /api/login
	// /api%2Flogin -> /api/login
}
