package rule

import (
	"time"

	"github.com/caudal-dev/caudal"
)

// ruleFile is one file as written.
type ruleFile struct {
	name         string
	domain       string
	domainPos    Position
	algorithm    caudal.Algorithm // of limits that name none
	hasAlgorithm bool             // it was written
	failure      failurePolicy    // of limits that say nothing
	accuracy     caudal.Accuracy  // of limits that say nothing
	deny         *Denial
	descriptors  []*descriptor
	ours         bool // some key is not one of the reference's
}

// descriptor is one entry of a descriptors list as written.
type descriptor struct {
	pos      Position
	path     string // in the file, such as "descriptors[1].descriptors[0]"
	key      string
	value    string
	hasValue bool // a value that is not empty

	share   tristate // share_threshold
	shadow  bool
	quota   bool
	missing Missing // 0 when not written
	cost    *Cost
	count   *CountWhen
	deny    *Denial
	// priority is 0 when not written.
	priority    Priority
	concurrency *concurrencyLimit // nil when not written

	detailedMetric bool
	valueToMetric  bool
	metadata       map[string]any

	limits   []*rateLimit
	listed   bool // written as rate_limits
	children []*descriptor
}

// rateLimit is one rate_limit mapping as written.
type rateLimit struct {
	pos       Position
	path      string
	name      string
	replaces  []string
	unlimited bool
	limit     caudal.Limit
	fair      string // the attribute whose values share the queue
	percent   uint32 // enforce_percent; 100 when not written
	failure   failurePolicy
	accuracy  caudal.Accuracy
	scope     Scope
	shares    []share // sorted by region
	sharePos  Position
}

// options gives what a limit is compiled with beside its numbers.
func (l *rateLimit) options() []caudal.CompileOption {
	return []caudal.CompileOption{caudal.OnStoreError(l.failure.action, l.failure.factor), caudal.WithAccuracy(l.accuracy)}
}

// failurePolicy is on_store_error and local_factor.
type failurePolicy struct {
	action caudal.Failure
	factor float64 // 0 when not written
}

// tristate is a flag that may be left out.
type tristate uint8

const (
	unset tristate = iota
	no
	yes
)

func triOf(b bool) tristate {
	if b {
		return yes
	}
	return no
}

// Missing says what a descriptor without value does for a request that lacks its
// attribute. The zero value is none: the attribute's default applies.
type Missing uint8

const (
	// MissingSkip leaves the branch out. The default for most attributes.
	MissingSkip Missing = iota + 1
	// MissingIP counts by the client's address, under a tag that no real value
	// can equal. The default for api_key, user and jwt:*.
	MissingIP
	// MissingShared counts all such requests together.
	MissingShared
	// MissingReject refuses the request: HTTP status 401.
	MissingReject
)

var missingNames = [...]string{"", "skip", "ip", "shared", "reject"}

// String gives the word that rule files use, and "" for none.
func (m Missing) String() string {
	if int(m) < len(missingNames) {
		return missingNames[m]
	}
	return ""
}

func parseMissing(s string) (Missing, bool) {
	for i, name := range missingNames {
		if i > 0 && s == name {
			return Missing(i), true
		}
	}
	return 0, false
}

// maxWaitBound keeps max_wait where durations and microseconds cannot overflow.
const maxWaitBound = 365 * 24 * time.Hour
