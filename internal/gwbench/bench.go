package gwbench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/caudal-dev/caudal/internal/rlsbench"
)

// Target is a gateway: where it listens, and its process.
type Target struct {
	Name, Address string
	PID           int // 0 is unknown
}

// Options say what to measure. Without and With are required.
type Options struct {
	// Without and With are the gateway without limits and with them, in front of the
	// same upstream.
	Without, With Target
	// Callers is how many connections are used; 0 means 16.
	Callers int
	// Rate is how many requests a second the open loop sends; 0 means half of what
	// the gateway without limits does in a closed loop.
	Rate int
	// Keys is how many API keys the requests take turns with; 0 means 100 000.
	Keys int
	// Rounds is how often the two take turns, and Slice how long each turn takes; 0
	// means 5 and 1 s.
	Rounds int
	Slice  time.Duration
	// Progress, when set, is told what is being measured.
	Progress func(line string)
}

// Defaults of Options.
const (
	defaultCallers = 16
	defaultKeys    = 100_000
	defaultRounds  = 5
	defaultSlice   = time.Second
	maxCallers     = 10_000
)

// Result is what was measured of one target in one loop.
type Result struct {
	Loop      string  `json:"loop"` // closed or open
	Target    string  `json:"target"`
	Requests  int64   `json:"requests"`
	PerSecond float64 `json:"requests_per_second"`
	Denied    int64   `json:"denied"`
	Errors    int64   `json:"errors"`
	CPU       float64 `json:"cpu_us_per_request,omitempty"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	P999      float64 `json:"p999_us"`
}

// tally adds up the turns of one target.
type tally struct {
	target         Target
	times          *hdrhistogram.Histogram // nanoseconds
	took, cpu      time.Duration
	denied, errors int64
}

func newTally(t Target) *tally {
	return &tally{target: t, times: hdrhistogram.New(1000, int64(time.Minute), 3)}
}

func (t *tally) result(loop string) Result {
	n := t.times.TotalCount()
	us := func(q float64) float64 { return float64(t.times.ValueAtQuantile(q)) / 1000 }
	r := Result{Loop: loop, Target: t.target.Name, Requests: n, Denied: t.denied, Errors: t.errors,
		P50: us(50), P99: us(99), P999: us(99.9)}
	if t.took > 0 {
		r.PerSecond = float64(n) / t.took.Seconds()
	}
	if n > 0 && t.target.PID != 0 {
		r.CPU = float64(t.cpu.Nanoseconds()) / 1000 / float64(n)
	}
	return r
}

// Run measures both targets in a closed loop, in which each caller sends its next
// request when it has the answer to its last, and in an open loop, in which
// requests come at their time whatever becomes of those before: their times are
// taken from when they were due. It gives the closed results, then the open ones,
// without limits first.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	closed, err := o.turns(ctx, "closed", 0)
	if err != nil {
		return nil, err
	}
	rate := o.Rate
	if rate == 0 {
		rate = int(closed[0].PerSecond / 2)
	}
	open, err := o.turns(ctx, "open", max(rate, 1))
	return append(closed, open...), err
}

func (o *Options) complete() error {
	if o.Without.Address == "" || o.With.Address == "" {
		return errors.New("two gateways are needed: one without limits, one with them")
	}
	setDefault(&o.Callers, defaultCallers)
	setDefault(&o.Keys, defaultKeys)
	setDefault(&o.Rounds, defaultRounds)
	setDefault(&o.Slice, defaultSlice)
	switch {
	case o.Callers < 1 || o.Callers > maxCallers:
		return fmt.Errorf("%d callers: it must be from 1 to %d", o.Callers, maxCallers)
	case o.Rate < 0, o.Keys < 1, o.Rounds < 1, o.Slice < 0:
		return errors.New("rate, keys, rounds and slice must not be negative")
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// turns lets the two take turns, so that whatever else the machine does befalls
// both. The first round is not counted.
func (o *Options) turns(ctx context.Context, loop string, rate int) ([]Result, error) {
	without, with := newTally(o.Without), newTally(o.With)
	for round := range o.Rounds + 1 {
		order := []*tally{without, with}
		if round%2 == 1 {
			order = []*tally{with, without}
		}
		for _, t := range order {
			if o.Progress != nil {
				o.Progress(fmt.Sprintf("%s loop, %s, round %d of %d", loop, t.target.Name, round, o.Rounds))
			}
			into := t
			if round == 0 {
				into = newTally(t.target)
			}
			if err := o.turn(ctx, into, rate); err != nil {
				return nil, err
			}
		}
	}
	return []Result{without.result(loop), with.result(loop)}, nil
}

func (o *Options) turn(ctx context.Context, t *tally, rate int) error {
	before, err := rlsbench.ProcessTime(t.target.PID)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := o.load(ctx, t, rate); err != nil {
		return err
	}
	t.took += time.Since(start)
	after, err := rlsbench.ProcessTime(t.target.PID)
	t.cpu += after - before
	return err
}
