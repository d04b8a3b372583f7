package httplimit

import (
	"fmt"
	"log/slog"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// Families says which rate-limit headers are sent. Values can be combined with |.
type Families uint8

const (
	// Legacy is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	Legacy Families = 1 << iota
	// Draft is RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11.
	Draft
	// NoFamily sends neither. Retry-After on denials is always sent.
	NoFamily

	bothFamilies = Legacy | Draft
)

// ResetFormat says how X-RateLimit-Reset tells the time.
type ResetFormat uint8

const (
	// ResetEpoch is seconds since 1970, rounded up. The zero value.
	ResetEpoch ResetFormat = iota
	// ResetDelta is seconds from now, rounded up.
	ResetDelta
)

// ErrorPolicy says what happens to a request about which no decision was made.
type ErrorPolicy uint8

const (
	// PassOnError lets it pass. The zero value.
	PassOnError ErrorPolicy = iota
	// DenyOnError answers 503.
	DenyOnError
)

// Options are the settings of a Middleware or Decider. The zero value is usable:
// both header families, fail open, the system clock, no observer.
type Options struct {
	// Families are the header families to send; 0 means Legacy | Draft.
	Families Families

	// Reset is the format of X-RateLimit-Reset.
	Reset ResetFormat

	// OnError says what to do when no decision was made.
	OnError ErrorPolicy

	// DryRun makes every limit count without denying, delaying or sending headers.
	DryRun bool

	// Controls are what operators say by hand: who is blocked, and whether anything
	// is enforced. A Middleware of one limit obeys the second only: it knows no
	// attributes. Default nothing is said.
	Controls *control.Controls

	// ChargePreflight charges CORS preflight requests (OPTIONS with Origin and
	// Access-Control-Request-Method) like others. By default they pass uncharged:
	// the browser sends them by itself, in front of the call that counts.
	ChargePreflight bool

	// DenialOrigins are the origins whose scripts may read a denial. nil means
	// every origin, without credentials ("*"); a listed origin may also send
	// credentials; an empty list that is not nil means none.
	DenialOrigins []string

	// Shed refuses calls of low priority while the handler is overloaded; see package
	// shed. PlanWeights says how much more than others the clients of a plan may have.
	// nil sheds nothing.
	Shed        *shed.Shedder
	PlanWeights map[string]uint32

	// Clock tells the time for X-RateLimit-Reset. It does not decide: the store's
	// clock does. Default caudal.NewSystemClock.
	Clock caudal.Clock

	// Observer is told what was decided. Default none.
	Observer Observer

	// Tracer is told of each decision of a Decider. Default none.
	Tracer Tracer

	// Logger gets a line when decisions fail, at most one every ten seconds.
	// Default slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Families == 0 {
		o.Families = bothFamilies
	}
	if o.Clock == nil {
		o.Clock = caudal.NewSystemClock()
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Families >= NoFamily<<1, o.Families&NoFamily != 0 && o.Families != NoFamily:
		return fmt.Errorf("httplimit: header families %#x: combine Legacy and Draft, or use NoFamily alone", uint8(o.Families))
	case o.Reset > ResetDelta:
		return fmt.Errorf("httplimit: reset format %d: use ResetEpoch or ResetDelta", o.Reset)
	case o.OnError > DenyOnError:
		return fmt.Errorf("httplimit: error policy %d: use PassOnError or DenyOnError", o.OnError)
	}
	return nil
}

// Result is what became of one limit in one call, for metrics.
type Result uint8

const (
	// Allowed: the limit was charged.
	Allowed Result = iota
	// Denied: the limit denied the call.
	Denied
	// ShadowDenied: the limit would have denied the call, but is not enforced.
	ShadowDenied
	// ErrorAllowed: no decision was made, and the call passed.
	ErrorAllowed
	// ErrorDenied: no decision was made, and the call was refused.
	ErrorDenied
)

var resultNames = [...]string{"allowed", "denied", "shadow_denied", "error_allowed", "error_denied"}

// String gives the result's name as metrics use it.
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("result(%d)", uint8(r))
}

// Observer is told about decisions while the request waits: it must be quick,
// must not block, and must be safe for concurrent use.
type Observer interface {
	// Decided is called once per call for each limit that was charged or denied.
	// A limit with room in a denied call is not reported, nor is a peek. domain
	// is empty where there are no rules.
	Decided(domain string, limit *caudal.Compiled, result Result)

	// Failed is called when no decision was made (a *PanicError when the limiter
	// panicked) and when a charge could not be taken back.
	Failed(domain string, err error)
}

// DetailObserver is an Observer that wants to know more. It is found by asking
// whether an Observer is one too, and is then told by Detailed, instead of
// Decided.
type DetailObserver interface {
	Observer
	// Detailed is called where Decided would be. The value is the caller's, and is
	// used again: nothing of it may be kept or changed.
	Detailed(*Detail)
}

// Detail is what became of one limit in one call, with what is known of the call.
type Detail struct {
	// Domain, Call.Limit and Result are what Decided is told.
	Domain string
	Call   *caudal.Call
	Result Result
	// Decision is what the limit said; nil when no decision was made.
	Decision *caudal.Decision
	// Rule is the limit's rule, nil where limits do not come from rules.
	Rule *rule.Limit
	// Who answers questions about the request, at their cost; nil where nobody can.
	Who rule.Request
	// Entries is the descriptor that the limit was found by, nil where limits are
	// found by attributes.
	Entries []rule.Entry
}

type noObserver struct{}

func (noObserver) Decided(string, *caudal.Compiled, Result) {}
func (noObserver) Failed(string, error)                     {}

// PanicError is what a panic of the limiter becomes.
type PanicError struct {
	Value any
	Stack []byte
}

// Error says what the limiter panicked with.
func (e *PanicError) Error() string {
	return fmt.Sprintf("httplimit: the limiter panicked: %v", e.Value)
}
