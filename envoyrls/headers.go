package envoyrls

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/caudal-dev/caudal"
)

// Headers are the names of the headers that answers ask the proxy to add to its
// response. An empty name means the default.
type Headers struct {
	// Limit is the largest cost that a fresh key admits. Default RateLimit-Limit.
	Limit string
	// Remaining is what would pass now. Default RateLimit-Remaining.
	Remaining string
	// Reset is seconds until the limit is whole again. Default RateLimit-Reset.
	Reset string
	// RetryAfter is seconds until a denied call would pass; the reference does not
	// send it, and neither does a service with Compat. Default Retry-After.
	RetryAfter string
}

func (h *Headers) check() error {
	if h == nil {
		return nil
	}
	for _, name := range []string{h.Limit, h.Remaining, h.Reset, h.RetryAfter} {
		if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ':' }) {
			return fmt.Errorf("envoyrls: header name %q: %w", name, errHeaderName)
		}
	}
	return nil
}

var errHeaderName = errors.New("use letters, digits and hyphens")

func nameOr(name, standard string) string {
	if name == "" {
		return standard
	}
	return name
}

// headers tells the client about the limit nearest to denying it; none when no
// descriptor has a limit.
func (s *Service) headers(x *exchange, statuses []statusParts) []*core.HeaderValue {
	h := s.opts.Headers
	i, limit, remaining, reset := s.nearest(x, statuses)
	if i < 0 {
		return nil
	}
	list := []*core.HeaderValue{
		headerValue(nameOr(h.Limit, "RateLimit-Limit"), strconv.FormatUint(limit, 10)),
		headerValue(nameOr(h.Remaining, "RateLimit-Remaining"), strconv.FormatUint(remaining, 10)),
		headerValue(nameOr(h.Reset, "RateLimit-Reset"), strconv.FormatInt(reset, 10)),
	}
	if v := &x.verdict; !s.opts.Compat && !v.Allowed && !v.Never {
		list = append(list, headerValue(nameOr(h.RetryAfter, "Retry-After"), strconv.FormatInt(max(upSeconds(v.RetryAfter), 1), 10)))
	}
	return list
}

// nearest gives the place of the limit to tell of, -1 when there is none, and what
// to say of it.
func (s *Service) nearest(x *exchange, statuses []statusParts) (i int, limit, remaining uint64, reset int64) {
	if s.opts.Compat {
		i = nearestStatus(x, statuses)
		if i < 0 {
			return -1, 0, 0, 0
		}
		st := &statuses[i].status
		return i, uint64(st.CurrentLimit.RequestsPerUnit), uint64(st.LimitRemaining), st.DurationUntilReset.Seconds
	}
	i = x.verdict.Nearest // a limit that is not enforced sends no headers
	if i < 0 || x.decisions[i].Unasked {
		return -1, 0, 0, 0
	}
	d := &x.decisions[i]
	return i, d.Limit, d.Remaining, resetSeconds(x.match.Calls[i].Limit, d, s.opts.Clock.Now().Wall)
}

// nearestStatus picks as the reference does: the status with the least remaining;
// one that is over its limit and no quota wins, the last of several.
func nearestStatus(x *exchange, statuses []statusParts) int {
	best, least := -1, uint32(0)
	for i := range statuses {
		st := &statuses[i].status
		if st.CurrentLimit == nil {
			continue
		}
		over := st.Code == pb.RateLimitResponse_OVER_LIMIT && x.modes[x.shown(&x.parts[i])] != caudal.Quota
		switch {
		case over:
			best, least = i, 0
		case best < 0 || st.LimitRemaining < least:
			best, least = i, st.LimitRemaining
		}
	}
	return best
}
