package httplimit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/shed"
)

// The problem types of draft-ietf-httpapi-ratelimit-headers-11.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeAbnormalUsage   = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// Problem is the body of a refusal, in the form of RFC 9457.
type Problem struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// Write answers a request with the problem, a gRPC request in gRPC's way. Other
// headers must be set before. A HEAD request gets the headers only.
func (p Problem) Write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	set(h, "Cache-Control", "no-store")
	if isGRPC(r) {
		p.writeGRPC(w, r)
		return
	}
	body, err := json.Marshal(p)
	if err != nil { // not for strings and numbers
		body = nil
	}
	body = append(body, '\n')
	set(h, "Content-Type", "application/problem+json")
	set(h, "Content-Length", strconv.Itoa(len(body)))
	set(h, "X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that has gone needs no answer
	}
}

// Refuse answers a request that may not pass: 429 or as the rule's on_deny says,
// 400, 401 or 503 as Action says, or the same in gRPC's way.
func (o *Outcome) Refuse(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	o.SetHeaders(h)
	o.core.allowOrigin(h, r)
	switch after := o.RetryAfter(); {
	case isGRPC(r):
		set(h, "Grpc-Retry-Pushback-Ms", o.pushback())
	case after > 0:
		set(h, "Retry-After", strconv.FormatInt(after, 10))
	}
	if o.Action == Reject {
		set(h, "Www-Authenticate", `ApiKey realm="api"`)
	}
	if d := o.onDeny(); d != nil && !isGRPC(r) {
		o.writeDenial(w, r, d)
		return
	}
	o.Problem().Write(w, r)
}

// RetryAfter gives the whole seconds after which the client may try again,
// rounded up, at least 1; 0 when no time would help.
func (o *Outcome) RetryAfter() int64 {
	switch {
	case o.Action == Unavailable, o.Action == Gone:
		return 1
	case o.Action == Shed:
		return ceilSeconds(shed.RetryAfter(o.match.Priority))
	case o.Action == Blocked:
		return max(1, ceilSeconds(o.block.Left))
	case o.Action != Deny || o.Verdict.Never:
		return 0
	}
	return max(1, ceilSeconds(o.Verdict.RetryAfter))
}

// Problem gives the body of the refusal.
func (o *Outcome) Problem() Problem {
	switch o.Action {
	case Deny:
		return Problem{
			Type:     typeQuotaExceeded,
			Title:    "Request cannot be satisfied as assigned quota has been exceeded",
			Status:   http.StatusTooManyRequests,
			Detail:   o.detail(),
			Violated: o.violated(),
		}
	case Blocked:
		return Problem{Type: typeAbnormalUsage, Title: "Request not satisfied due to detection of abnormal request pattern",
			Status: http.StatusTooManyRequests, Detail: fmt.Sprintf("this %s is blocked; try again in %s",
				o.block.Attribute, time.Duration(o.RetryAfter())*time.Second)}
	case Reject:
		return Problem{Title: "Unauthorized", Status: http.StatusUnauthorized,
			Detail: fmt.Sprintf("the request has no %s, which this API requires", o.match.Rejected)}
	case Ambiguous:
		return Problem{Title: "Bad Request", Status: http.StatusBadRequest,
			Detail: "the path has dot segments behind %2F or before a semicolon, which servers read in different ways"}
	case Shed:
		return Overloaded()
	case Gone:
		return Problem{Title: "Service Unavailable", Status: http.StatusServiceUnavailable,
			Detail: "the request ended before its turn"}
	}
	return Problem{Type: typeReducedCapacity, Title: "Request cannot be satisfied due to temporary server capacity constraints",
		Status: http.StatusServiceUnavailable, Detail: "the request could not be checked against its limits"}
}

// detail says to people what happened.
func (o *Outcome) detail() string {
	if i, denied := o.permitDenied(); denied {
		return o.permitDetail(i)
	}
	d := &o.Decisions[o.Verdict.Nearest]
	limit := o.Calls[o.Verdict.Nearest].Limit
	name := policyName(limit)
	if limit.Requests() == 0 {
		return fmt.Sprintf("limit %q allows no requests", name)
	}
	if d.Never {
		return fmt.Sprintf("the request costs more than limit %q ever allows at once (%d)", name, d.Limit)
	}
	after := o.RetryAfter()
	return fmt.Sprintf("limit %q (%s) is used up; try again in %s", name, limit.Limit(), time.Duration(after)*time.Second)
}

// violated names every limit that denies.
func (o *Outcome) violated() []string {
	if _, denied := o.permitDenied(); denied {
		return o.DenyingPermits()
	}
	quota := caudal.QuotaEnforced(o.Calls, o.Decisions)
	var names []string
	for i := range o.Decisions {
		if !o.Decisions[i].Allowed && caudal.Enforced(o.Calls[i].Mode, quota) {
			names = append(names, policyName(o.Calls[i].Limit))
		}
	}
	return names
}

// isGRPC reports whether the client speaks gRPC or gRPC-Web and would take a bare
// 429 for a broken server.
func isGRPC(r *http.Request) bool {
	const name = "application/grpc"
	ct := r.Header["Content-Type"]
	return len(ct) > 0 && strings.HasPrefix(ct[0], name) &&
		(len(ct[0]) == len(name) || ct[0][len(name)] == '+' || ct[0][len(name)] == ';' || ct[0][len(name)] == '-')
}

// grpcCodes are gRPC's status codes for those of HTTP that a refusal uses. A bare
// 429 would reach the client as UNAVAILABLE.
var grpcCodes = map[int]string{
	http.StatusTooManyRequests:    "8",  // RESOURCE_EXHAUSTED
	http.StatusBadRequest:         "3",  // INVALID_ARGUMENT
	http.StatusUnauthorized:       "16", // UNAUTHENTICATED
	http.StatusServiceUnavailable: "14", // UNAVAILABLE
	http.StatusBadGateway:         "14",
	http.StatusGatewayTimeout:     "14",
}

// writeGRPC writes a response that consists of trailers only: gRPC reads its
// status from the headers when no body follows. Only so a client's own retries
// obey the pushback.
func (p Problem) writeGRPC(w http.ResponseWriter, r *http.Request) {
	code, ok := grpcCodes[p.Status]
	if !ok {
		code = "2" // UNKNOWN
	}
	h := w.Header()
	set(h, "Content-Type", r.Header["Content-Type"][0])
	set(h, "Grpc-Status", code)
	set(h, "Grpc-Message", grpcMessage(p.Detail))
	w.WriteHeader(http.StatusOK)
}

// pushback gives the milliseconds after which a gRPC client may try again; a
// negative number tells it not to.
func (o *Outcome) pushback() string {
	if o.Action == Deny && !o.Verdict.Never {
		ms := max(1, (o.Verdict.RetryAfter+time.Millisecond-1)/time.Millisecond)
		return strconv.FormatInt(int64(min(ms, 1<<31-1)), 10)
	}
	if after := o.RetryAfter(); after > 0 {
		return strconv.FormatInt(after*1000, 10)
	}
	return "-1"
}

// grpcMessage escapes a message as gRPC does: printable ASCII without %.
func grpcMessage(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// exempt reports whether a request passes without being charged.
func (c *core) exempt(r *http.Request) bool {
	return !c.opts.ChargePreflight && r.Method == http.MethodOptions &&
		r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// exposed are the headers of a denial that scripts may read.
const exposed = "Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"

// allowOrigin lets scripts of other origins read a denial: without these headers
// the browser shows them a network error, and they try again at once.
func (c *core) allowOrigin(h http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	allowed := c.opts.DenialOrigins
	switch {
	case allowed == nil || slices.Contains(allowed, "*"):
		set(h, "Access-Control-Allow-Origin", "*")
	case slices.Contains(allowed, origin):
		set(h, "Access-Control-Allow-Origin", origin)
		set(h, "Access-Control-Allow-Credentials", "true")
		h.Add("Vary", "Origin")
	default:
		return
	}
	set(h, "Access-Control-Expose-Headers", exposed)
}
