package rlsbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Ask sends one request and waits for its answer. It belongs to one caller.
type Ask func(ctx context.Context) (overLimit bool, err error)

// Loop is a closed loop of callers, of any protocol: each sends its next request
// when it has the answer to its last.
type Loop struct {
	Callers          int
	Warmup, Duration time.Duration
	// PID is the server's process, for what each request costs it; 0 is unknown.
	PID int
	// NewAsk makes what a caller does, for each of them.
	NewAsk func(caller int) Ask
}

// phases of a measurement.
const (
	warming = iota
	measuring
	over
)

// caller is one of a loop. Its figures are its own until it has ended.
type caller struct {
	ask       Ask
	histogram *hdrhistogram.Histogram
	overLimit int64
	errors    int64
	first     error
}

// Measure runs the loop. It ends early with the context's error.
func (l Loop) Measure(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var phase atomic.Int32
	var wg sync.WaitGroup
	callers := make([]*caller, l.Callers)
	for i := range callers {
		callers[i] = &caller{ask: l.NewAsk(i), histogram: hdrhistogram.New(1000, longestTime, digits)}
		wg.Go(func() { callers[i].loop(ctx, &phase) })
	}
	if err := sleep(ctx, l.Warmup); err != nil {
		return Result{}, err
	}
	cpu, cpuErr := ProcessTime(l.PID)
	start := time.Now()
	phase.Store(measuring)
	err := sleep(ctx, l.Duration)
	phase.Store(over)
	took := time.Since(start)
	after, afterErr := ProcessTime(l.PID)
	cancel()
	wg.Wait()
	if err != nil {
		return Result{}, err
	}
	r, err := sum(callers, took)
	if l.PID != 0 && errors.Join(cpuErr, afterErr) != nil {
		return r, fmt.Errorf("processor time of process %d: %w", l.PID, errors.Join(cpuErr, afterErr))
	}
	if l.PID != 0 && r.Requests > 0 {
		r.ServerCPU = float64((after - cpu).Nanoseconds()) / 1e3 / float64(r.Requests)
	}
	return r, err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// longestTime and digits are the range and precision of the histogram, in
// nanoseconds.
const (
	longestTime = int64(time.Minute)
	digits      = 3
)

func (c *caller) loop(ctx context.Context, phase *atomic.Int32) {
	for ctx.Err() == nil {
		start := time.Now()
		overLimit, err := c.ask(ctx)
		took := time.Since(start)
		if phase.Load() != measuring {
			continue
		}
		if err != nil {
			c.errors++
			if c.first == nil {
				c.first = err
			}
			continue
		}
		if overLimit {
			c.overLimit++
		}
		_ = c.histogram.RecordValue(min(int64(took), longestTime)) // within the range by the line before
	}
}

// ErrNothing is the error when no request was answered.
var ErrNothing = errors.New("nothing was measured")

// sum adds up what the callers measured. When nothing but errors came back, the
// first of them is the result.
func sum(callers []*caller, took time.Duration) (Result, error) {
	all := hdrhistogram.New(1000, longestTime, digits)
	r := Result{Callers: len(callers), Seconds: took.Seconds()}
	var first error
	for _, c := range callers {
		all.Merge(c.histogram)
		r.OverLimit += c.overLimit
		r.Errors += c.errors
		if first == nil {
			first = c.first
		}
	}
	r.Requests = all.TotalCount()
	if r.Requests == 0 {
		if first == nil {
			first = errors.New("no answer came")
		}
		return r, fmt.Errorf("%w: %w", ErrNothing, first)
	}
	r.PerSecond = float64(r.Requests) / took.Seconds()
	r.P50 = micros(all.ValueAtQuantile(50))
	r.P99 = micros(all.ValueAtQuantile(99))
	r.P999 = micros(all.ValueAtQuantile(99.9))
	r.Max = micros(all.Max())
	return r, nil
}

func micros(ns int64) float64 { return float64(ns) / 1e3 }
