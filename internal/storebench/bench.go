package storebench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Target is what is measured.
type Target struct {
	// Name is what the results call it.
	Name string
	// Ask decides one call of a key. It must be safe for concurrent use.
	Ask func(ctx context.Context, key string) (allowed bool, err error)
	// Calls gives how many calls of a server have been made so far; nil when there
	// is no server.
	Calls func() int64
}

// Loops that can be measured.
const (
	Closed = "closed"
	Open   = "open"
)

// Options say what to measure. Store and Callers are required.
type Options struct {
	// Floor is measured beside the store when its Ask is set.
	Floor, Store Target
	// Distributions say how keys are drawn, each measured in turn: see
	// [Distributions]. Empty means uniform.
	Distributions []string
	// Keys is how many keys there are, at most 10 M; 0 means 100 000. A hot key is
	// one, and churn makes every key new.
	Keys int
	// Callers is how many calls are under way at most.
	Callers int
	// Loops are Closed, Open or both; empty means both.
	Loops []string
	// Rate is how many calls a second the open loop makes; 0 means half of what the
	// store did in the closed loop, which must then be among Loops.
	Rate int
	// Warmup is how long each measurement runs before it counts, and Duration how
	// long it counts. Duration 0 means 3 s.
	Warmup, Duration time.Duration
	// Progress, when set, is told what is being measured.
	Progress func(line string)
}

// Bounds and defaults of Options.
const (
	defaultKeys     = 100_000
	maxKeys         = 10_000_000
	maxCallers      = 1024
	maxRate         = 100_000_000
	defaultDuration = 3 * time.Second
	maxDuration     = time.Hour
)

// Result is what was measured of one target in one loop with one distribution.
// Times are in microseconds; those of the open loop are taken from when the call
// was due, so that a stall counts for all calls that it held up.
type Result struct {
	Loop   string `json:"loop"`
	Keys   string `json:"keys"`
	Target string `json:"target"`
	// Rate is what the open loop was asked for, per second.
	Rate      int     `json:"rate,omitempty"`
	Decisions int64   `json:"decisions"`
	PerSecond float64 `json:"decisions_per_second"`
	// OfFloor is PerSecond of the floor over this PerSecond, in the closed loop.
	OfFloor float64 `json:"of_floor,omitempty"`
	Denied  float64 `json:"denied_share"`
	Errors  int64   `json:"errors"`
	// Unsent is how many calls of the open loop were due and never made, because
	// those before them took too long.
	Unsent int64   `json:"unsent,omitempty"`
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
	P999   float64 `json:"p999_us"`
	Max    float64 `json:"max_us"`
	// Late is by how much the load generator itself slept too long in the open loop,
	// its 99th percentile: part of the times above, and no fault of the store.
	Late float64 `json:"generator_late_p99_us,omitempty"`
	// Calls is how many calls of the server a decision took; below 1 when callers
	// share them. Nil when there is no server, or nobody counted.
	Calls *float64 `json:"server_calls_per_decision,omitempty"`
}

// Run measures each distribution in each loop, the floor first. It ends early with
// the context's error.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	var results []Result
	names := keyNames(o.Keys)
	for _, d := range o.Distributions {
		rate, drawn := o.Rate, newKeys(d, names)
		for _, loop := range o.Loops {
			l := load{loop: loop, distribution: d, callers: o.Callers, keys: drawn}
			if loop == Open {
				l.rate = rate
			}
			both, err := o.measureBoth(ctx, l)
			results = append(results, both...)
			if err != nil {
				return results, err
			}
			if rate == 0 {
				rate = max(int(both[len(both)-1].PerSecond/2), 1)
			}
		}
	}
	return results, nil
}

// measureBoth measures the floor, when there is one, and the store.
func (o *Options) measureBoth(ctx context.Context, l load) (results []Result, err error) {
	for _, t := range []Target{o.Floor, o.Store} {
		if t.Ask == nil {
			continue
		}
		r, err := o.measure(ctx, l, t)
		if err != nil {
			return results, fmt.Errorf("%s: %w", t.Name, err)
		}
		results = append(results, r)
	}
	if n := len(results); n == 2 && l.loop == Closed {
		results[1].OfFloor = results[0].PerSecond / results[1].PerSecond
	}
	return results, nil
}

func (o *Options) measure(ctx context.Context, l load, t Target) (Result, error) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf("%s loop, keys %s: %s, %v", l.loop, l.distribution, t.Name, o.Warmup+o.Duration))
	}
	if o.Warmup > 0 {
		if _, err := l.run(ctx, t, o.Warmup); err != nil {
			return Result{}, err
		}
	}
	var before int64
	if t.Calls != nil {
		before = t.Calls()
	}
	r, err := l.run(ctx, t, o.Duration)
	if err != nil {
		return r, err
	}
	if t.Calls != nil {
		calls := float64(t.Calls()-before) / float64(r.Decisions)
		r.Calls = &calls
	}
	return r, nil
}

func (o *Options) complete() error {
	if len(o.Distributions) == 0 {
		o.Distributions = []string{"uniform"}
	}
	if len(o.Loops) == 0 {
		o.Loops = []string{Closed, Open}
	}
	if o.Keys == 0 {
		o.Keys = defaultKeys
	}
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if err := o.checkNames(); err != nil {
		return err
	}
	switch {
	case o.Store.Ask == nil:
		return errors.New("no store to measure")
	case o.Callers < 1 || o.Callers > maxCallers:
		return fmt.Errorf("%d callers: it must be from 1 to %d", o.Callers, maxCallers)
	case o.Keys < 1 || o.Keys > maxKeys:
		return fmt.Errorf("%d keys: it must be from 1 to %d", o.Keys, maxKeys)
	case o.Rate < 0 || o.Rate > maxRate:
		return fmt.Errorf("a rate of %d: it must be from 1 to %d calls a second", o.Rate, maxRate)
	case o.Rate == 0 && o.Loops[0] != Closed:
		return errors.New("an open loop without a closed one before it needs a rate: say how many calls a second")
	case o.Warmup < 0 || o.Warmup > maxDuration || o.Duration < 0 || o.Duration > maxDuration:
		return fmt.Errorf("warm up and duration must be from 0 to %v", maxDuration)
	}
	return nil
}

func (o *Options) checkNames() error {
	for _, d := range o.Distributions {
		if !slices.Contains(Distributions(), d) {
			return fmt.Errorf("keys %q are not known: there are %s", d, strings.Join(Distributions(), ", "))
		}
	}
	for _, loop := range o.Loops {
		if loop != Closed && loop != Open {
			return fmt.Errorf("loop %q is not known: there are %s and %s", loop, Closed, Open)
		}
	}
	return nil
}
