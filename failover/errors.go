package failover

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/caudal-dev/caudal"
)

// Kinds of failures that are found here. A shared store's errors name their own,
// by a method Kind() string.
const (
	// KindTimeout: no answer within the deadline.
	KindTimeout = "timeout"
	// KindBusy: too many calls wait for an answer already.
	KindBusy = "busy"
	// KindPanic: the store panicked.
	KindPanic = "panic"
	// KindOther: anything else, and what is too much for a metric's label.
	KindOther = "other"
	// KindWrongType is what a store calls a failure of one counter alone, whose
	// value it cannot read: others are fine, so the store is not given up for it.
	KindWrongType = "wrongtype"
	// KindRequest is what a store calls a failure of one request alone, which asks for
	// too much: whoever sends such requests must not make the store be given up.
	KindRequest = "request"
)

// failure is an error found here.
type failure struct {
	kind string
	text string
}

func (f *failure) Error() string   { return "failover: " + f.text }
func (f *failure) Unwrap() error   { return caudal.ErrStore }
func (f *failure) Kind() string    { return f.kind }
func (f *failure) Transient() bool { return true }

var (
	errTimeout = &failure{KindTimeout, "the store did not answer within the deadline"}
	errBusy    = &failure{KindBusy, "too many calls wait for the store"}
	errStuck   = &failure{KindBusy, "every call that the store may have at once is past its deadline"}
	errOpen    = &failure{KindOther, "the store is not asked while it is thought to be gone"}

	// errNotCounted tells the breaker of a call that says nothing about the store.
	errNotCounted = errors.New("failover: not counted")
)

// maxStack bounds how much of the stack of a panic its error tells.
const maxStack = 2048

// panicked must be called by the deferred function that recovered v.
func panicked(v any) error {
	stack := debug.Stack()
	return &failure{KindPanic, fmt.Sprintf("the store panicked: %v\n%s", v, stack[:min(len(stack), maxStack)])}
}

// kindOf gives the kind of a failure for metrics and people.
func kindOf(err error) string {
	var k interface{ Kind() string }
	switch {
	case err == nil:
		return ""
	case errors.As(err, &k):
		return k.Kind()
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	}
	return KindOther
}

// others reports whether a kind of failure says that others are served: the store is
// not given up for it.
func others(kind string) bool { return kind == KindWrongType || kind == KindRequest }

// answers reports whether an error is an answer about the call, not a failure of
// the store to give one.
func answers(err error) bool {
	return errors.Is(err, caudal.ErrReceiptUsed) || errors.Is(err, caudal.ErrInvalidRefund) || errors.Is(err, caudal.ErrUnsupported)
}
