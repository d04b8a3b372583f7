package envoyrls

import (
	"math"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/caudal-dev/caudal"
)

// inline is how many statuses an answer has room for in one piece of memory.
const inline = 4

// answer is a response with all that belongs to it, made at once.
type answer struct {
	response pb.RateLimitResponse
	pointers [inline]*pb.RateLimitResponse_DescriptorStatus
	statuses [inline]statusParts
}

// statusParts is a status with its parts.
type statusParts struct {
	status pb.RateLimitResponse_DescriptorStatus
	limit  pb.RateLimitResponse_RateLimit
	reset  durationpb.Duration
}

// newAnswer makes a response for n descriptors, each status with its parts ready.
func newAnswer(n int) (*pb.RateLimitResponse, []statusParts) {
	a := &answer{}
	pointers, statuses := a.pointers[:], a.statuses[:]
	if n > inline {
		pointers, statuses = make([]*pb.RateLimitResponse_DescriptorStatus, n), make([]statusParts, n)
	}
	for i := range n {
		pointers[i] = &statuses[i].status
	}
	a.response.Statuses = pointers[:n:n]
	return &a.response, statuses[:n]
}

// passing is the answer to n descriptors that have no limits.
func passing(n int) *pb.RateLimitResponse {
	response, statuses := newAnswer(n)
	for i := range statuses {
		statuses[i].status.Code = pb.RateLimitResponse_OK
	}
	response.OverallCode = pb.RateLimitResponse_OK
	return response
}

// respond makes the answer: one status per descriptor, in order.
func (s *Service) respond(x *exchange, req *pb.RateLimitRequest) *pb.RateLimitResponse {
	response, statuses := newAnswer(len(x.parts))
	response.OverallCode = pb.RateLimitResponse_OK
	if !x.verdict.Allowed {
		response.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	wall := int64(0)
	if s.needsTime(x) {
		wall = s.opts.Clock.Now().Wall
	}
	for i := range x.parts {
		s.status(x, &x.parts[i], wall, &statuses[i])
	}
	if s.opts.Headers != nil {
		response.ResponseHeadersToAdd = s.headers(x, statuses)
	}
	if s.opts.DynamicMetadata {
		response.DynamicMetadata = metadata(x, req, statuses)
	}
	return response
}

// needsTime reports whether some status tells of a window that nothing was
// counted in: only then does anyone have to look at the clock.
func (s *Service) needsTime(x *exchange) bool {
	for i := range x.decisions {
		if x.decisions[i].ResetAfter == 0 {
			return true
		}
	}
	return false
}

// status says what became of one descriptor.
func (s *Service) status(x *exchange, p *part, wall int64, out *statusParts) {
	st := &out.status
	st.Code = pb.RateLimitResponse_OK
	if p.first == p.last {
		if p.exempt != nil {
			st.LimitRemaining = math.MaxUint32
		}
		return
	}
	i := x.shown(p)
	d, c := &x.decisions[i], &x.match.Calls[i]
	if d.Unasked {
		return
	}
	// The local count of an instance without its store may have more room than the
	// limit that the answer names.
	st.LimitRemaining = uint32(min(d.Remaining, c.Limit.Capacity(), math.MaxUint32))
	if !d.Allowed && !p.negative {
		if x.modes[i] == caudal.Shadow {
			st.LimitRemaining = 0
		} else {
			st.Code = pb.RateLimitResponse_OVER_LIMIT
		}
	}
	limit := c.Limit.Limit()
	out.limit.Name = x.match.Limits[i].Label
	out.limit.RequestsPerUnit = limit.Requests
	out.limit.Unit = units[limit.Unit]
	if limit.Multiplier > 1 {
		out.limit.UnitMultiplier = wrapperspb.UInt32(limit.Multiplier)
	}
	st.CurrentLimit = &out.limit
	out.reset.Seconds = resetSeconds(c.Limit, d, wall)
	st.DurationUntilReset = &out.reset
}

// units are the protocol's names of our units.
var units = [...]pb.RateLimitResponse_RateLimit_Unit{
	caudal.Second: pb.RateLimitResponse_RateLimit_SECOND,
	caudal.Minute: pb.RateLimitResponse_RateLimit_MINUTE,
	caudal.Hour:   pb.RateLimitResponse_RateLimit_HOUR,
	caudal.Day:    pb.RateLimitResponse_RateLimit_DAY,
	caudal.Week:   pb.RateLimitResponse_RateLimit_WEEK,
	caudal.Month:  pb.RateLimitResponse_RateLimit_MONTH,
	caudal.Year:   pb.RateLimitResponse_RateLimit_YEAR,
}

// resetSeconds is the time until a limit is whole again in whole seconds, rounded
// up, so that who waits for it is not early. A fixed window that nothing was
// counted in still ends some time; other limits are whole then.
func resetSeconds(l *caudal.Compiled, d *caudal.Decision, wall int64) int64 {
	reset := d.ResetAfter
	if reset == 0 && l.Algorithm() == caudal.FixedWindow {
		_, end := l.Window(wall)
		reset = time.Duration(end-wall) * time.Microsecond
	}
	return upSeconds(reset)
}

func upSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// shown picks which of a descriptor's limits its status tells of: the denying one
// with the longest wait, else the one with the least remaining; one that is
// enforced before one that is not.
func (x *exchange) shown(p *part) int {
	best := p.first
	for i := p.first + 1; i < p.last; i++ {
		if x.tells(i, best) {
			best = i
		}
	}
	return best
}

func (x *exchange) tells(i, than int) bool {
	a, b := &x.decisions[i], &x.decisions[than]
	aShadow, bShadow := x.modes[i] == caudal.Shadow, x.modes[than] == caudal.Shadow
	switch {
	case aShadow != bShadow:
		return bShadow
	case a.Allowed != b.Allowed:
		return !a.Allowed
	case a.Allowed:
		return a.Remaining < b.Remaining
	case a.Never != b.Never:
		return a.Never
	}
	return a.RetryAfter > b.RetryAfter
}

// headerValue makes a header of an answer.
func headerValue(key, value string) *core.HeaderValue {
	return &core.HeaderValue{Key: key, Value: value}
}
