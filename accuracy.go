package caudal

import (
	"fmt"
	"slices"
)

// Accuracy says how closely a limit is counted where several instances share one
// count. The zero value is Exact.
type Accuracy uint8

const (
	// Exact asks the shared store about every call. The default.
	Exact Accuracy = iota
	// Leased lets an instance take a batch of what is left from the shared store
	// and spend it without asking. No more is admitted than by Exact; near the end
	// of a limit up to what instances hold may go unused, and a denial may come
	// while another instance still holds some. A store that is not shared counts
	// exactly all the same.
	Leased
)

var accuracyNames = [...]string{"exact", "leased"}

// Accuracies lists the names that rule files use.
func Accuracies() []string { return slices.Clone(accuracyNames[:]) }

// String gives the name that rule files use: exact or leased.
func (a Accuracy) String() string {
	if int(a) < len(accuracyNames) {
		return accuracyNames[a]
	}
	return "unknown"
}

// ParseAccuracy reads the name that rule files use.
func ParseAccuracy(s string) (Accuracy, bool) {
	i := slices.Index(accuracyNames[:], s)
	return Accuracy(max(i, 0)), i >= 0
}

// CheckAccuracy reports why limits counted by this algorithm cannot have this
// accuracy, wrapping ErrInvalidLimit; nil when they can.
func CheckAccuracy(algorithm Algorithm, a Accuracy) error {
	why := ""
	switch {
	case a == Exact:
		return nil
	case algorithm == SlidingLog:
		why = "a sliding_log is there to be exact at every instant, and a lease is spent later than it was taken"
	case algorithm == LeakyBucket:
		why = "the turns of a leaky_bucket are spaced one by one, and a batch of them has no spacing"
	default:
		return nil
	}
	return fmt.Errorf("%w: accuracy %s does not go with %s: %s; write accuracy: exact, or use token_bucket, fixed_window or sliding_window",
		ErrInvalidLimit, a, algorithm, why)
}

// WithAccuracy makes a limit counted this closely. It is not part of a counter's
// identity: changing it keeps what was consumed.
func WithAccuracy(a Accuracy) CompileOption { return func(c *Compiled) { c.accuracy = a } }

// Accuracy gives how closely the limit is counted.
func (c *Compiled) Accuracy() Accuracy { return c.accuracy }
