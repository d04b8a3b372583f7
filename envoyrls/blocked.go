package envoyrls

import (
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// blocked answers a request that holds a descriptor with an entry that an operator
// blocked by hand; nil when there is none. Nothing is charged then.
func (s *Service) blocked(x *exchange) *pb.RateLimitResponse {
	if s.opts.Controls == nil || s.opts.ShadowMode {
		return nil
	}
	var response *pb.RateLimitResponse
	var statuses []statusParts
	longest := time.Duration(0)
	for i := range x.parts {
		hit, ok := s.opts.Controls.BlockedEntries(x.valuesOf(&x.parts[i]))
		if !ok {
			continue
		}
		if response == nil {
			response, statuses = newAnswer(len(x.parts))
			response.OverallCode = pb.RateLimitResponse_OVER_LIMIT
			for k := range statuses {
				statuses[k].status.Code = pb.RateLimitResponse_OK
			}
		}
		st := &statuses[i]
		st.status.Code, st.reset.Seconds = pb.RateLimitResponse_OVER_LIMIT, upSeconds(hit.Left)
		st.status.DurationUntilReset = &st.reset
		longest = max(longest, hit.Left)
	}
	if h := s.opts.Headers; response != nil && h != nil && !s.opts.Compat {
		response.ResponseHeadersToAdd = []*core.HeaderValue{
			headerValue(nameOr(h.RetryAfter, "Retry-After"), strconv.FormatInt(max(upSeconds(longest), 1), 10))}
	}
	return response
}
