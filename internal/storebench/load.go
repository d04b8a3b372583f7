package storebench

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// load is one kind of load.
type load struct {
	loop, distribution string
	callers, rate      int // rate 0 is a closed loop
	keys               keys
}

// run puts it on a target for so long.
func (l load) run(ctx context.Context, t Target, length time.Duration) (Result, error) {
	return l.runPaced(ctx, t, length, l.callers <= runtime.GOMAXPROCS(0))
}

func (l load) runPaced(ctx context.Context, t Target, length time.Duration, spin bool) (Result, error) {
	callers := make([]*caller, l.callers)
	for i := range callers {
		callers[i] = &caller{next: l.keys.walker(), times: newHistogram(), late: newHistogram()}
	}
	start := time.Now()
	var all sync.WaitGroup
	for i, c := range callers {
		p := pace{start: start, end: start.Add(length), next: i, step: l.callers, rate: l.rate, spin: spin}
		p.giveUp = p.end.Add(length)
		all.Go(func() { c.run(ctx, t.Ask, p) })
	}
	all.Wait()
	took := time.Since(start)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	r := Result{Loop: l.loop, Keys: l.distribution, Target: t.Name, Rate: l.rate}
	return r, r.sum(callers, took)
}

// pace says when a caller asks. Callers take the moments of one even flow in turns.
type pace struct {
	start, end, giveUp time.Time // the last moment that is due, and when those are left that are late
	next, step, rate   int
	spin               bool
	begun              bool // a first call is made however late it is
}

// due waits for the next moment and gives it, and whether there was time to wait;
// ok is false at the end. A closed loop is always due.
func (p *pace) due() (moment time.Time, waited, ok bool) {
	first := !p.begun
	p.begun = true
	if p.rate == 0 {
		now := time.Now()
		return now, false, first || now.Before(p.end)
	}
	moment = p.moment(p.next)
	p.next += p.step
	if !moment.Before(p.end) {
		return moment, false, false
	}
	waited = p.wait(moment)
	return moment, waited, waited || first || time.Now().Before(p.giveUp)
}

func (p *pace) moment(n int) time.Time {
	return p.start.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
}

// left is how many moments were due and not used, the last one included.
func (p *pace) left() int64 {
	all := int64(math.Ceil(p.end.Sub(p.start).Seconds() * float64(p.rate)))
	last := int64(p.next - p.step)
	return max(0, (all-last+int64(p.step)-1)/int64(p.step))
}

// sleepsTooLong is by how much a sleep may be too long. Callers that have a
// processor each wait that much awake; more of them would only be in each other's
// way.
const sleepsTooLong = 2 * time.Millisecond

func (p *pace) wait(moment time.Time) bool {
	left := time.Until(moment)
	if left <= 0 {
		return false
	}
	if !p.spin {
		time.Sleep(left)
		return true
	}
	time.Sleep(left - sleepsTooLong)
	for time.Until(moment) > 0 {
		runtime.Gosched()
	}
	return true
}

// caller asks one call after the other. Its figures are its own until it has ended.
type caller struct {
	next           func() string
	times, late    *hdrhistogram.Histogram
	denied, errors int64
	unsent         int64
	first          error
}

func (c *caller) run(ctx context.Context, ask func(context.Context, string) (bool, error), p pace) {
	for ctx.Err() == nil {
		key := c.next()
		moment, waited, ok := p.due()
		if !ok {
			if p.rate > 0 {
				c.unsent = p.left()
			}
			return
		}
		if waited {
			record(c.late, time.Since(moment))
		}
		allowed, err := ask(ctx, key)
		if err != nil {
			c.errors++
			if c.first == nil {
				c.first = err
			}
			continue
		}
		if !allowed {
			c.denied++
		}
		record(c.times, time.Since(moment))
	}
}

// longestTime and digits are the range and precision of the histograms, in
// nanoseconds.
const (
	longestTime = int64(10 * time.Minute)
	digits      = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longestTime, digits) }

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(int64(d), 1), longestTime)) // within the range
}

// sum adds up what the callers measured. When nothing but errors came back, the
// first of them is the result.
func (r *Result) sum(callers []*caller, took time.Duration) error {
	times, late := newHistogram(), newHistogram()
	var denied int64
	var first error
	for _, c := range callers {
		times.Merge(c.times)
		late.Merge(c.late)
		denied += c.denied
		r.Errors += c.errors
		r.Unsent += c.unsent
		if first == nil {
			first = c.first
		}
	}
	r.Decisions = times.TotalCount()
	if r.Decisions == 0 {
		return errors.Join(errors.New("no decision was made"), first)
	}
	r.PerSecond = float64(r.Decisions) / took.Seconds()
	r.Denied = float64(denied) / float64(r.Decisions)
	r.P50, r.P99, r.P999 = micros(times.ValueAtQuantile(50)), micros(times.ValueAtQuantile(99)), micros(times.ValueAtQuantile(99.9))
	r.Max = micros(times.Max())
	if late.TotalCount() > 0 {
		r.Late = micros(late.ValueAtQuantile(99))
	}
	return nil
}

func micros(ns int64) float64 { return float64(ns) / 1e3 }
