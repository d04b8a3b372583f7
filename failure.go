package caudal

// Failure is what a limit does when the store that counts it is slow or gone.
type Failure uint8

const (
	// FailLocal counts in this process, more generously in total. The default.
	FailLocal Failure = iota
	// FailOpen lets calls pass uncounted.
	FailOpen
	// FailClosed denies calls; the answer says that the service is unavailable.
	FailClosed
)

var failureNames = [...]string{"local", "allow", "deny"}

// String gives the name that rule files use: local, allow or deny.
func (f Failure) String() string {
	if int(f) < len(failureNames) {
		return failureNames[f]
	}
	return "unknown"
}

// ParseFailure reads the name that rule files use.
func ParseFailure(s string) (Failure, bool) {
	for i, name := range failureNames {
		if s == name {
			return Failure(i), true
		}
	}
	return 0, false
}

// DefaultLocalFactor is how much more generous in total all local counts together
// are than the limit that they stand in for.
const DefaultLocalFactor = 2

// CompileOption adds to a Compiled what is no part of the limit itself.
type CompileOption func(*Compiled)

// OnStoreError sets what the limit does without its store, and for FailLocal the
// factor; 0 leaves the default.
func OnStoreError(f Failure, localFactor float64) CompileOption {
	return func(c *Compiled) {
		c.failure = f
		if localFactor > 0 {
			c.factor = localFactor
		}
	}
}

// OnStoreError gives what the limit does when its store is slow or gone.
func (c *Compiled) OnStoreError() Failure { return c.failure }

// LocalFactor gives how much more generous in total the local counts of FailLocal
// are than the limit.
func (c *Compiled) LocalFactor() float64 { return c.factor }
