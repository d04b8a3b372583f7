package envoyrls

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// MaxBody is the largest body that JSON reads.
const MaxBody = 1 << 20

// JSON answers the protocol over HTTP: a RateLimitRequest in the JSON form of
// protocol buffers, by any method. The status is 200, or 429 over a limit, with
// the response as the body; 400 for a bad request, 413 for one that is too large,
// and 503 when no decision was made.
func (s *Service) JSON() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		if err != nil {
			refuseBody(w, err)
			return
		}
		var req pb.RateLimitRequest
		if err := protojson.Unmarshal(body, &req); err != nil {
			http.Error(w, "the body is no RateLimitRequest: "+strings.ToValidUTF8(err.Error(), "?"), http.StatusBadRequest)
			return
		}
		answer, err := s.ShouldRateLimit(r.Context(), &req)
		if err != nil {
			http.Error(w, status.Convert(err).Message(), httpStatus(status.Code(err)))
			return
		}
		writeAnswer(w, answer)
	})
}

func refuseBody(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("the body is too large: at most %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return
	}
	http.Error(w, "the body could not be read", http.StatusBadRequest)
}

func httpStatus(code codes.Code) int {
	if code == codes.InvalidArgument {
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

func writeAnswer(w http.ResponseWriter, answer *pb.RateLimitResponse) {
	data, err := protojson.Marshal(answer)
	if err != nil {
		http.Error(w, "the answer has no JSON form", http.StatusInternalServerError)
		return
	}
	var body bytes.Buffer
	// protojson puts spaces at random, so that nobody relies on them.
	if err := json.Compact(&body, data); err != nil {
		body.Reset()
		body.Write(data)
	}
	w.Header().Set("Content-Type", "application/json")
	if answer.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(body.Bytes()) // a client that has gone needs no answer
}

// Healthcheck answers 200 and OK while the service is healthy, else 500.
func (s *Service) Healthcheck() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !s.Healthy() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "OK") // a client that has gone needs no answer
	})
}

// Config lists the limits in force, one a line, as the reference's /rlconfig
// does, sorted. What the reference has no word for follows in brackets.
func (s *Service) Config() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		set := s.set.Load()
		if set == nil {
			return
		}
		var lines []string
		for _, l := range set.Limits() {
			lines = append(lines, configLine(l, s.opts.Compat))
		}
		slices.Sort(lines)
		_, _ = io.WriteString(w, strings.Join(lines, "")) // a client that has gone needs no answer
	})
}

func configLine(l *rule.Limit, compat bool) string {
	unit, requests, more := "UNKNOWN", uint32(0), ""
	if l.Compiled != nil {
		limit := l.Compiled.Limit()
		unit, requests = strings.ToUpper(limit.Unit.String()), limit.Requests
		if !compat || limit.Algorithm != caudal.FixedWindow || limit.Multiplier > 1 || limit.Timezone != "" {
			more = " (" + limit.String() + ")"
		}
	} else if !compat {
		more = " (unlimited)"
	}
	return fmt.Sprintf("%s.%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t%s\n",
		l.Domain, strings.Join(l.StatPath(nil), "."), unit, requests, l.Mode == caudal.Shadow, l.Mode == caudal.Quota, more)
}
