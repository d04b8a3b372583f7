package envoyrls_test

import (
	"context"
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

func ExampleService() {
	set, _, err := rule.Parse("edge.yaml", []byte(`
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 2 }
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := envoyrls.New(set, memstore.New(memstore.Options{}), envoyrls.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := &pb.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.7"}},
	}}}
	for range 3 {
		answer, err := service.ShouldRateLimit(context.Background(), request)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.OverallCode, "remaining", answer.Statuses[0].LimitRemaining)
	}
	// Output:
	// OK remaining 1
	// OK remaining 0
	// OVER_LIMIT remaining 0
}
