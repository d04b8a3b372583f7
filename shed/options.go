package shed

import (
	"fmt"
	"time"

	"github.com/caudal-dev/caudal/rule"
)

// Defaults of Options.
const (
	DefaultMinLimit = 4
	DefaultMaxLimit = 1000
	DefaultInitial  = 20
	DefaultMaxWait  = 100 * time.Millisecond
	DefaultReserve  = 10 // percent, for critical calls
)

// maxCalls bounds MaxLimit and Queue, and so the memory.
const maxCalls = 1 << 16

// Options shape a Shedder. The zero value is usable.
type Options struct {
	// MinLimit and MaxLimit bound how many calls may be under way; 0 means
	// DefaultMinLimit and DefaultMaxLimit. Equal, they fix it. Initial is where it
	// begins; 0 means DefaultInitial, or the nearest of the two.
	MinLimit, MaxLimit, Initial int

	// Queue is how many calls may wait; 0 means as many as may be under way, but at
	// least 32.
	Queue int

	// MaxWait is the longest that a call waits for a slot; 0 means DefaultMaxWait.
	MaxWait time.Duration

	// Reserves gives a priority slots of its own beside the limit, in percent of it
	// and rounded down, which calls of that priority and of higher ones may use. nil means
	// DefaultReserve for rule.PriorityCritical; an empty map means none.
	Reserves map[rule.Priority]int
}

func (o Options) withDefaults() Options {
	if o.MaxLimit == 0 {
		o.MaxLimit = max(DefaultMaxLimit, o.MinLimit)
	}
	if o.MinLimit == 0 {
		o.MinLimit = min(DefaultMinLimit, o.MaxLimit)
	}
	if o.Initial == 0 {
		o.Initial = min(max(DefaultInitial, o.MinLimit), o.MaxLimit)
	}
	if o.MaxWait == 0 {
		o.MaxWait = DefaultMaxWait
	}
	if o.Reserves == nil {
		o.Reserves = map[rule.Priority]int{rule.PriorityCritical: DefaultReserve}
	}
	return o
}

// validate checks options that have their defaults.
func (o Options) validate() error {
	switch {
	case o.MinLimit < 1 || o.MaxLimit > maxCalls || o.MinLimit > o.MaxLimit:
		return fmt.Errorf("shed: limits from %d to %d: they must be from 1 to %d, and the least not above the most", o.MinLimit, o.MaxLimit, maxCalls)
	case o.Initial < o.MinLimit || o.Initial > o.MaxLimit:
		return fmt.Errorf("shed: initial limit %d: it must be from %d to %d, as the limit is", o.Initial, o.MinLimit, o.MaxLimit)
	case o.Queue < 0 || o.Queue > maxCalls:
		return fmt.Errorf("shed: queue %d: it must be from 0 to %d", o.Queue, maxCalls)
	case o.MaxWait < 0:
		return fmt.Errorf("shed: max wait %s: it must not be negative", o.MaxWait)
	}
	sum := 0
	for p, percent := range o.Reserves {
		if p <= rule.PriorityLow || p > rule.PriorityCritical {
			return fmt.Errorf("shed: a reserve for priority %q: give it to critical, high or normal; the lowest has none below it", p)
		}
		if percent < 0 || percent > 100 {
			return fmt.Errorf("shed: a reserve of %d %% for priority %s: it must be from 0 to 100", percent, p)
		}
		sum += percent
	}
	if sum > 100 {
		return fmt.Errorf("shed: reserves of %d %% together: they must not be over 100", sum)
	}
	return nil
}
