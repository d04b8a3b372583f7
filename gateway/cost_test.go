package gateway

import (
	"io"
	"net/http"
	"testing"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// TestCostOfResponse: the headers that reach the client tell what remains after
// the cost that the upstream named.
func TestCostOfResponse(t *testing.T) {
	v := who(t, identity.Options{})
	d := limits(t, `
domain: d
descriptors:
  - key: remote_address
    cost: { response_header: X-Spent, default: 2, max: 10 }
    rate_limit: { unit: hour, requests_per_unit: 20, algorithm: fixed_window }
`, v, httplimit.Options{Clock: newClock()})
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch spent := r.URL.Query().Get("spend"); spent {
		case "":
		case "hang":
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("X-Spent", spent)
		}
		_, _ = io.WriteString(w, "ok")
	}), Options{Limits: d, Identity: v})
	for _, step := range []struct {
		query, remaining string
		status           int
	}{
		{"?spend=3", "17", 200},
		{"", "15", 200},
		{"?spend=0", "15", 200},
		{"?spend=hang", "13", 502},
		{"?spend=99", "3", 200}, // never above max
		{"?spend=1", "3", 429},  // 10 would not fit
	} {
		res := do(t, "GET", url+"/"+step.query, nil)
		wantStatus(t, "GET /"+step.query, res, step.status)
		wantHeaders(t, "GET /"+step.query, res.Header, map[string]string{"X-Ratelimit-Remaining": step.remaining})
	}
}
