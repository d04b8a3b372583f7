package envoyrls_test

import (
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/envoyrls"
)

// TestBlockedDescriptorIsOver also looks at the others of the request, and at a
// service whose enforcement is off.
func TestBlockedDescriptorIsOver(t *testing.T) {
	controls := control.New(control.Options{Logger: quiet})
	target, err := control.ParseTarget("client=eve")
	if err != nil {
		t.Fatal(err)
	}
	if err := controls.Block(t.Context(), target, time.Hour); err != nil {
		t.Fatal(err)
	}
	f := start(t, `
domain: d
descriptors:
  - key: client
    rate_limit: { unit: hour, requests_per_unit: 1 }
`, envoyrls.Options{Controls: controls, Headers: &envoyrls.Headers{}}, nil)
	ask := func() *pb.RateLimitResponse {
		t.Helper()
		answer, err := f.send(request(d("client=bob"), d("client=eve")))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	answer := ask()
	if answer.OverallCode != pb.RateLimitResponse_OVER_LIMIT || answer.Statuses[0].Code != pb.RateLimitResponse_OK ||
		answer.Statuses[1].Code != pb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("answer = %v, want the second descriptor over", answer)
	}
	if left := answer.Statuses[1].DurationUntilReset.GetSeconds(); left < 3500 || left > 3600 {
		t.Errorf("duration until reset = %d s, want an hour", left)
	}
	if h := answer.ResponseHeadersToAdd; len(h) != 1 || h[0].Key != "Retry-After" {
		t.Errorf("headers = %v, want Retry-After", h)
	}
	if err := controls.Enforce(t.Context(), false, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 { // twice over the limit
		if answer := ask(); answer.OverallCode != pb.RateLimitResponse_OK {
			t.Errorf("answer while enforcement is off = %v, want OK", answer)
		}
	}
}
