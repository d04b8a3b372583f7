package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// stub answers without a network, so that what is measured is the gateway.
type stub struct{}

func (stub) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{"Content-Type": {"text/plain"}},
		Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

// BenchmarkGateway measures what limits add to the same proxy without them.
func BenchmarkGateway(b *testing.B) {
	const file = `
domain: d
descriptors:
  - key: remote_address
    rate_limit: { unit: second, requests_per_unit: 1000000000 }
  - key: path
    value: /api/login
    descriptors:
      - key: remote_address
        rate_limit: { unit: second, requests_per_unit: 1000000000 }
`
	u, _ := url.Parse("http://127.0.0.1:1")
	for name, decider := range map[string]Decider{"bare": nil, "limits": limits(b, file, who(b, identity.Options{}), httplimit.Options{})} {
		b.Run(name, func(b *testing.B) {
			g, err := New(Options{Upstream: u, Limits: decider, Transport: stub{}, Logger: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("GET", "/api/login", nil)
				g.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
