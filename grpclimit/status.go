package grpclimit

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/caudal-dev/caudal/httplimit"
)

// Reasons of ErrorInfo.
const (
	// ReasonRateLimited: a limit denies the call.
	ReasonRateLimited = "RATE_LIMITED"
	// ReasonUnavailable: no decision was made, and the policy is to deny.
	ReasonUnavailable = "LIMITER_UNAVAILABLE"
	// ReasonBlocked: an operator blocked the client by hand.
	ReasonBlocked = "CLIENT_BLOCKED"
	// ReasonMissing: the call lacks an attribute that the rules demand.
	ReasonMissing = "ATTRIBUTE_MISSING"
)

// pushbackTrailer tells clients that retry by their service config when to, in
// milliseconds; a negative number tells them not to.
const pushbackTrailer = "grpc-retry-pushback-ms"

// maxViolations bounds the limits that a denial names: trailers are small.
const maxViolations = 8

// refuse gives the answer to a call that may not pass.
func (i *Interceptor) refuse(ctx context.Context, o *httplimit.Outcome) *refusal {
	text := o.Problem().Detail
	switch o.Action {
	case httplimit.Deny:
		return i.denied(o, text)
	case httplimit.Blocked:
		return i.refusal(codes.ResourceExhausted, text, o.Block().Left, i.reason(ReasonBlocked, map[string]string{"attribute": o.Block().Attribute}))
	case httplimit.Reject:
		return i.refusal(codes.Unauthenticated, text, -1, i.reason(ReasonMissing, map[string]string{"attribute": o.Missing()}))
	case httplimit.Ambiguous:
		return i.refusal(codes.InvalidArgument, text, -1)
	case httplimit.Gone:
		if ctx.Err() != nil {
			return &refusal{status: status.FromContextError(ctx.Err())}
		}
	}
	return i.refusal(codes.Unavailable, text, time.Duration(o.RetryAfter())*time.Second, i.reason(ReasonUnavailable, nil))
}

// denied is the answer to a call that limits deny.
func (i *Interceptor) denied(o *httplimit.Outcome, text string) *refusal {
	quota, names := &errdetails.QuotaFailure{}, []string(nil)
	for k := range o.Decisions {
		d := &o.Decisions[k]
		if d.Allowed || !o.Enforced(k) || len(names) == maxViolations {
			continue
		}
		limit := o.Calls[k].Limit
		name := limit.Name()
		if name == "" {
			name = "default"
		}
		names = append(names, name)
		quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{
			Subject:     "limit:" + name,
			Description: fmt.Sprintf("%s: %d of %d left", limit.Limit(), d.Remaining, d.Limit),
		})
	}
	for _, name := range o.DenyingPermits() {
		if len(names) < maxViolations {
			names = append(names, name)
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: "limit:" + name,
				Description: "as many calls are under way as it allows"})
		}
	}
	wait := o.Verdict.RetryAfter
	if o.Verdict.Never {
		wait = -1
	}
	return i.refusal(codes.ResourceExhausted, text, wait, quota, i.reason(ReasonRateLimited, map[string]string{"limits": strings.Join(names, ",")}))
}

func (i *Interceptor) reason(reason string, more map[string]string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: reason, Domain: i.opts.Domain, Metadata: more}
}

// refusal puts an answer together. A negative wait means that no time would help.
func (i *Interceptor) refusal(code codes.Code, text string, wait time.Duration, details ...protoadapt.MessageV1) *refusal {
	pushback := "-1"
	if wait >= 0 {
		wait = max(wait, time.Microsecond)
		pushback = strconv.FormatInt(int64(min((wait+time.Millisecond-1)/time.Millisecond, 1<<31-1)), 10)
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	st := status.New(code, strings.ToValidUTF8(text, "\uFFFD"))
	if with, err := st.WithDetails(details...); err == nil { // names that are no UTF-8 have no place there
		st = with
	}
	return &refusal{st, metadata.Pairs(pushbackTrailer, pushback)}
}

// httpStatuses are the statuses of HTTP that codes correspond to, as
// google.rpc.Code says.
var httpStatuses = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499,
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

func httpStatus(code codes.Code) int {
	if int(code) < len(httpStatuses) {
		return httpStatuses[code]
	}
	return http.StatusInternalServerError
}
