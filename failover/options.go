package failover

import (
	"context"
	"time"

	"github.com/caudal-dev/caudal"
)

// Defaults of Options.
const (
	DefaultDeadline      = 5 * time.Millisecond
	DefaultMaxInFlight   = 512
	DefaultProbeInterval = 25 * time.Millisecond
	DefaultHeartInterval = time.Second
)

// Options shape a Store. The zero value is ready to use.
type Options struct {
	// Deadline is how long a call may wait for the shared store; 0 means
	// DefaultDeadline. A caller whose own context ends sooner waits no longer.
	Deadline time.Duration

	// MaxInFlight bounds the calls that the shared store has not answered yet, and
	// with them the goroutines; 0 means DefaultMaxInFlight. A call beyond it waits
	// for another to end, within its deadline, or is answered here at once where
	// none will.
	MaxInFlight int

	// Inline calls the shared store on the caller's own goroutine, which saves
	// about a microsecond. It is for a store that surely returns when its context
	// ends; one that does not then holds its callers.
	Inline bool

	// ProbeInterval is how often a store that is gone is asked whether it is back;
	// 0 means DefaultProbeInterval. After half a minute it is four times that. It
	// varies by a fifth so that instances do not ask in step.
	ProbeInterval time.Duration

	// ExpectedInstances is how many instances share the store, for the share of
	// each; 0 means what Heart says, and 1 before it has said anything.
	ExpectedInstances int

	// Heart tells how many instances there are; nil means the shared store if it
	// is a Heart, and none otherwise.
	Heart Heart

	// HeartInterval is how often it is asked; 0 means DefaultHeartInterval.
	HeartInterval time.Duration

	// LocalKeys bounds the keys counted in this process; 0 means
	// memstore.DefaultMaxKeys. Memory is taken only while the store is gone.
	LocalKeys int

	// Clock tells the time for local counts; nil means caudal.NewSystemClock.
	Clock caudal.Clock

	// OnChange is told of each change between healthy and degraded, in order, by
	// one goroutine, a little after the fact; nil means nobody. It may block for a
	// while without any harm to decisions; of more than 16 changes that wait for it
	// the oldest are dropped.
	OnChange func(State)

	// OnCall is told of each call to the shared store, also probes and heartbeats:
	// what it was, how long it took, and what kind of failure it was, "" for none.
	// It is called by callers, so it must be quick and safe for concurrent use. nil
	// means nobody.
	OnCall func(op string, took time.Duration, kind string)
}

// Heart tells the others that this instance is alive, and counts them. It is an
// ability of the shared store.
type Heart interface {
	// Beat makes this instance count for a few intervals, and gives how many
	// instances count now, this one included.
	Beat(ctx context.Context) (instances int, err error)
}

// Memory is an ability of a shared store that remembers denials: it answers a
// request that is known to be denied at once, and reports whether it did. It must
// not block.
type Memory interface {
	Remembered(at caudal.Instant, calls []caudal.Call, out []caudal.Decision) bool
}

// Leaser is an ability of a shared store that hands out batches: it decides a
// request from what this instance has leased, and reports whether it did. It is
// asked first, also while the store is gone: what is leased is within the limit and
// waits for nobody. It must not block.
type Leaser interface {
	Leased(at caudal.Instant, calls []caudal.Call, out []caudal.Decision) bool
}

func (o Options) withDefaults() Options {
	if o.Deadline <= 0 {
		o.Deadline = DefaultDeadline
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.ProbeInterval <= 0 {
		o.ProbeInterval = DefaultProbeInterval
	}
	if o.HeartInterval <= 0 {
		o.HeartInterval = DefaultHeartInterval
	}
	if o.Clock == nil {
		o.Clock = caudal.NewSystemClock()
	}
	return o
}
