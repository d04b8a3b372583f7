package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// nowhere takes a response that nobody reads.
type nowhere http.Header

func (w nowhere) Header() http.Header       { return http.Header(w) }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// TestWhatLimitsAllocate guards what limits add to each request: the text and the
// lines of each of the two families of headers, and nothing for deciding. The race
// detector makes a sync.Pool forget at random, so it says nothing then.
func TestWhatLimitsAllocate(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector makes pools allocate")
	}
	const most = 4
	u, _ := url.Parse("http://127.0.0.1:1")
	perRequest := func(decider Decider) float64 {
		g, err := New(Options{Upstream: u, Limits: decider, Transport: stub{}, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/items", nil)
		return testing.AllocsPerRun(1000, func() { g.ServeHTTP(nowhere{}, r) })
	}
	limited := limits(t, "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: second, requests_per_unit: 1000000 }\n"+
		"  - key: path\n    rate_limit: { unit: second, requests_per_unit: 1000000 }\n", who(t, identity.Options{}), httplimit.Options{})
	if bare, with := perRequest(nil), perRequest(limited); with-bare > most {
		t.Errorf("a request with limits allocates %v times and one without %v: want at most %d more", with, bare, most)
	}
}
