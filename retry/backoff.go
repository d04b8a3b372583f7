package retry

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Jitter says how chance spreads the delays of a backoff.
type Jitter uint8

const (
	// FullJitter waits between nothing and the exponential delay: the fewest calls
	// in a crowd. The zero value.
	FullJitter Jitter = iota
	// EqualJitter waits half of the exponential delay, and up to the other half.
	EqualJitter
	// DecorrelatedJitter waits between the base and three times the delay before,
	// which grows by chance.
	DecorrelatedJitter
	// NoJitter waits the exponential delay. Clients that were refused together come
	// back together: only for tests, or where there is one client.
	NoJitter
)

var jitterNames = [...]string{"full", "equal", "decorrelated", "none"}

// String gives the jitter's name: full, equal, decorrelated or none.
func (j Jitter) String() string {
	if int(j) < len(jitterNames) {
		return jitterNames[j]
	}
	return fmt.Sprintf("jitter(%d)", uint8(j))
}

// Backoff is a rule for delays that double. The zero value is usable. It is safe
// for concurrent use when Rand is.
type Backoff struct {
	// Base is the exponential delay before the first retry; it doubles with each.
	// Default 100ms.
	Base time.Duration
	// Max bounds every delay. Default 20s.
	Max time.Duration
	// Jitter spreads the delays.
	Jitter Jitter
	// Rand gives a random number in [0, n). Default math/rand/v2.Int64N.
	Rand func(n int64) int64
}

func (b Backoff) withDefaults() Backoff {
	if b.Base == 0 {
		b.Base = 100 * time.Millisecond
	}
	if b.Max == 0 {
		b.Max = 20 * time.Second
	}
	if b.Rand == nil {
		b.Rand = rand.Int64N
	}
	return b
}

// Validate says what is wrong with the rule; nil when it can be used.
func (b Backoff) Validate() error {
	b = b.withDefaults()
	switch {
	case b.Base < 0 || b.Max < b.Base:
		return fmt.Errorf("retry: backoff from %s to %s: the base must be positive and at most the maximum", b.Base, b.Max)
	case int(b.Jitter) >= len(jitterNames):
		return fmt.Errorf("retry: %s is not known: use FullJitter, EqualJitter, DecorrelatedJitter or NoJitter", b.Jitter)
	}
	return nil
}

// Start begins the delays of one call.
func (b Backoff) Start() *Delays { return &Delays{b: b.withDefaults()} }

// Delays gives the delays of one call, one after another. It belongs to one
// goroutine.
type Delays struct {
	b    Backoff
	n    int
	prev time.Duration
}

// Next gives the delay before the next retry.
func (d *Delays) Next() time.Duration {
	delay := d.next()
	d.n++
	d.prev = delay
	return delay
}

func (d *Delays) next() time.Duration {
	b := &d.b
	expo := b.expo(d.n)
	switch b.Jitter {
	case FullJitter:
		return b.upTo(expo)
	case EqualJitter:
		return expo - expo/2 + b.upTo(expo/2)
	case DecorrelatedJitter:
		prev := max(d.prev, b.Base) // the base is where it starts, and no delay that all share
		top := b.Max
		if prev <= b.Max/3 {
			top = 3 * prev
		}
		return b.Base + b.upTo(max(0, top-b.Base))
	}
	return expo
}

// upTo gives a delay between nothing and d, both included.
func (b *Backoff) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(b.Rand(int64(min(d, 1<<63-2)) + 1)) // + 1 must not overflow
}

// expo gives min(Max, Base x 2^n). Doubling stops at Max, so that no number of
// retries overflows.
func (b *Backoff) expo(n int) time.Duration {
	d := b.Base
	for range n {
		if d > b.Max/2 {
			return b.Max
		}
		d *= 2
	}
	return min(d, b.Max)
}
