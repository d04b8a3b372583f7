package storetest

import (
	"context"
	"hash/maphash"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
)

// naive is the plainest store that keeps the contract: a mutex around a map. The
// suite is tested against it, and against copies of it that break one rule.
type naive struct {
	mu    sync.Mutex
	clock caudal.Clock
	cells map[string]*cell
	names []string // by receipt counter
	used  map[uint64]bool
	ids   uint64
	held  map[uint64]naivePermit
	fault string // which rule to break; "" for none
}

// cell is one counter.
type cell struct {
	tb   algorithm.TokenBucket
	lb   algorithm.LeakyBucket
	fw   algorithm.FixedWindow
	sl   algorithm.SlidingLog
	sw   algorithm.SlidingWindow
	name uint64
	last int64
}

func newNaive(clock caudal.Clock, fault string) *naive {
	return &naive{clock: clock, cells: map[string]*cell{}, used: map[uint64]bool{}, held: map[uint64]naivePermit{}, fault: fault}
}

func (c cell) clone() *cell {
	c.lb.Freed, c.sl.Entries = slices.Clone(c.lb.Freed), slices.Clone(c.sl.Entries)
	return &c
}

var fairSeed = maphash.MakeSeed()

// takeCall is take, counting also what is denied where that is asked for.
func (c *cell) takeCall(call caudal.Call, now int64, cost uint32, fault string) (d caudal.Decision) {
	if call.Limit.Algorithm() == caudal.LeakyBucket && (call.MinDelay > 0 || len(call.Fair) > 0) {
		before, owner := c.lb, uint64(0)
		if call.MinDelay > 0 {
			c.lb = c.lb.NotBefore(call.Limit, now, now+call.MinDelay.Microseconds())
		}
		if len(call.Fair) > 0 && fault != "a fair queue for all" {
			owner = max(1, maphash.Bytes(fairSeed, call.Fair))
		}
		if c.lb, d = c.lb.TakeFair(call.Limit, now, cost, owner); !d.Charged {
			c.lb = before
		}
		return d
	}
	if !call.CountDenied || call.Limit.Algorithm() != caudal.FixedWindow {
		return c.take(call.Limit, now, cost)
	}
	c.fw, d = c.fw.TakeCounting(call.Limit, now, cost)
	return d
}

func (c *cell) take(l *caudal.Compiled, now int64, cost uint32) (d caudal.Decision) {
	switch l.Algorithm() {
	case caudal.TokenBucket:
		c.tb, d = c.tb.Take(l, now, cost)
	case caudal.LeakyBucket:
		c.lb, d = c.lb.Take(l, now, cost)
	case caudal.FixedWindow:
		c.fw, d = c.fw.Take(l, now, cost)
	case caudal.SlidingLog:
		d = c.sl.Take(l, now, cost)
	default:
		c.sw, d = c.sw.Take(l, now, cost)
	}
	return d
}

func (n *naive) name(l *caudal.Compiled, key string) string {
	switch n.fault {
	case "identity without scope":
		return key
	case "identity without algorithm and period":
		return strconv.Quote(l.Scope()[:1+len(l.Scope())/2]) + key
	case "keys end at a NUL":
		key, _, _ = strings.Cut(key, "\x00")
	}
	return string(caudal.AppendPart(nil, l.Scope())) + key
}

func (n *naive) cell(l *caudal.Compiled, key string, now int64) *cell {
	name := n.name(l, key)
	c := n.cells[name]
	switch {
	case c == nil, n.fault == "forgets after ten minutes" && now-c.last > 600e6, n.fault == "forgets when the clock lags" && now < c.last:
		c = &cell{name: uint64(len(n.names))}
		n.names = append(n.names, name)
		n.cells[name] = c
	}
	return c
}

func (n *naive) micros(l *caudal.Compiled, at caudal.Instant) int64 {
	if n.fault == "wall time for all" {
		return at.Wall
	}
	return l.Micros(at)
}

func (n *naive) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	if n.fault != "context not looked at" && ctx.Err() != nil {
		return ctx.Err()
	}
	if at.IsZero() && n.fault != "zero instant is 1970" {
		at = n.clock.Now()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(calls) > 0 && calls[0].Alone && n.fault != "alone is together" {
		for i := range calls {
			n.together(at, calls[i:i+1], out[i:i+1])
		}
		return nil
	}
	n.together(at, calls, out)
	return nil
}

// together decides calls that are charged together or not at all.
func (n *naive) together(at caudal.Instant, calls []caudal.Call, out []caudal.Decision) {
	for i, c := range calls {
		if n.fault == "no least delay" {
			calls[i].MinDelay = 0
		}
		out[i] = n.decide(at, calls, i, n.sum(calls, i))
		if n.fault == "peek counts" && c.Cost == 0 {
			calls[i].Cost = 1
		}
	}
	verdict := caudal.Judge(calls, out)
	if n.fault == "quota is enforced" {
		for i := range calls {
			verdict.Allowed = verdict.Allowed && (calls[i].Mode != caudal.Quota || out[i].Allowed)
		}
	}
	if n.fault == "checks, then increments" {
		n.mu.Unlock()
		runtime.Gosched()
		n.mu.Lock()
	}
	if verdict.Allowed || n.fault == "charges limit by limit" {
		n.charge(at, calls, out)
		return
	}
	for i, c := range calls {
		switch {
		case out[i].Allowed:
			out[i] = n.decide(at, calls, i, 0)
		case c.CountDenied && n.fault != "forgets denied calls":
			now := n.micros(c.Limit, at)
			n.cell(c.Limit, string(c.Key), now).takeCall(c, now, c.Cost, n.fault)
		}
	}
}

func (n *naive) decide(at caudal.Instant, calls []caudal.Call, i int, cost uint64) caudal.Decision {
	l := calls[i].Limit
	now := n.micros(l, at)
	c := n.cell(l, string(calls[i].Key), now).clone()
	d := c.takeCall(calls[i], now, uint32(min(cost, math.MaxUint32)), n.fault)
	if cost > math.MaxUint32 {
		d = c.take(l, now, 0)
		d.Allowed, d.Never = false, true
	}
	if n.fault == "denied for a microsecond longer" && !d.Allowed && !d.Never {
		d.RetryAfter += us
	}
	d.Charged, d.Receipt = false, caudal.Receipt{}
	return d
}

// sum is the cost that a request asks of the counter of call i.
func (n *naive) sum(calls []caudal.Call, i int) (sum uint64) {
	if n.fault == "no summed cost" {
		return uint64(calls[i].Cost)
	}
	for j, c := range calls {
		if j == i || c.Mode == calls[i].Mode && n.name(c.Limit, string(c.Key)) == n.name(calls[i].Limit, string(calls[i].Key)) {
			sum += uint64(c.Cost)
		}
	}
	if n.fault == "summed cost wraps" {
		return uint64(uint32(sum))
	}
	return sum
}

func (n *naive) charge(at caudal.Instant, calls []caudal.Call, out []caudal.Decision) {
	for i, c := range calls {
		if c.Mode != caudal.Enforce && !out[i].Allowed && !c.CountDenied {
			continue
		}
		now := n.micros(c.Limit, at)
		cell := n.cell(c.Limit, string(c.Key), now)
		d := cell.takeCall(c, now, c.Cost, n.fault)
		if n.fault == "checks, then increments" && !d.Allowed {
			d.Allowed, d.Charged, d.RetryAfter = true, true, 0
		}
		if d.Charged {
			n.ids++
			d.Receipt.ID, d.Receipt.Counter[0] = n.ids, cell.name
			cell.last = max(cell.last, now)
		}
		out[i] = d
	}
	for i := range calls { // what remains is what remains after all of them
		if out[i].Charged {
			after := n.decide(at, calls, i, 0)
			out[i].Remaining, out[i].ResetAfter = after.Remaining, after.ResetAfter
		}
	}
}

func (n *naive) TakeKey(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string, cost uint32) (caudal.Decision, error) {
	if n.fault == "TakeKey has counters of its own" {
		key += "!"
	}
	var out [1]caudal.Decision
	err := n.Take(ctx, at, []caudal.Call{{Limit: l, Key: []byte(key), Cost: cost}}, out[:])
	return out[0], err
}

func (n *naive) Refund(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) (err error) {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range refunds {
		switch {
		case r.Receipt.Limit == nil && r.Limit == nil, r.Receipt.Limit != nil && r.N > r.Receipt.Cost && n.fault != "refunds any amount":
			return caudal.ErrInvalidRefund
		case r.Receipt.Limit == nil:
			n.credit(at, r)
		case n.used[r.Receipt.ID] && n.fault != "receipts work twice":
			err = caudal.ErrReceiptUsed
			if n.fault == "stops at a used receipt" {
				return err
			}
		default:
			n.used[r.Receipt.ID] = true
			n.takeBack(at, r)
		}
	}
	return err
}

func (n *naive) takeBack(at caudal.Instant, r caudal.Refund) {
	c, l := n.cells[n.names[r.Receipt.Counter[0]]], r.Receipt.Limit
	switch l.Algorithm() {
	case caudal.TokenBucket:
		c.tb = c.tb.Refund(l, r.N)
	case caudal.LeakyBucket:
		if !r.Left || n.fault == "gives back turns of calls that left" {
			c.lb = c.lb.Refund(r.Receipt, l.Micros(at), r.N)
		}
	case caudal.FixedWindow:
		start := r.Receipt.At
		if n.fault == "refunds the present window" {
			start = c.fw.Start
		}
		c.fw = c.fw.Refund(start, r.N)
	case caudal.SlidingLog:
		if n.fault == "refunds the newest entry" {
			c.sl.Credit(r.N)
			return
		}
		c.sl.Refund(r.Receipt.At, r.N)
	default:
		c.sw = c.sw.Refund(l, r.Receipt.At, r.N)
	}
}

func (n *naive) credit(at caudal.Instant, r caudal.Refund) {
	l := r.Limit
	now := l.Micros(at)
	c := n.cell(l, r.Key, now)
	switch l.Algorithm() {
	case caudal.TokenBucket:
		c.tb = c.tb.Refund(l, r.N)
	case caudal.LeakyBucket:
		c.lb = c.lb.Credit(l, now, r.N)
	case caudal.FixedWindow:
		c.fw = c.fw.Credit(l, now, r.N)
	case caudal.SlidingLog:
		c.sl.Credit(r.N)
	default:
		c.sw = c.sw.Credit(l, now, r.N)
	}
}

func (n *naive) Reset(_ context.Context, l *caudal.Compiled, key string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cells, n.name(l, key))
	if n.fault == "reset clears everything" {
		clear(n.cells)
	}
	return nil
}

func (n *naive) Forecast(_ context.Context, at caudal.Instant, l *caudal.Compiled, key string) (caudal.Forecast, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := l.Micros(at)
	c := n.cell(l, key, now)
	if n.fault != "forecasts charge" {
		c = c.clone()
	}
	return &forecast{cell: c, limit: l, start: now, now: now}, nil
}

type forecast struct {
	cell       *cell
	limit      *caudal.Compiled
	start, now int64
}

func (f *forecast) Peek(cost uint32) (duration, bool) {
	ahead := *f
	ahead.cell = f.cell.clone()
	return ahead.Take(cost)
}

func (f *forecast) Take(cost uint32) (duration, bool) {
	d := f.cell.take(f.limit, f.now, cost)
	if !d.Allowed && !d.Never {
		f.now += d.RetryAfter.Microseconds()
		d = f.cell.take(f.limit, f.now, cost)
	}
	return duration(f.now-f.start)*us + d.Delay, d.Allowed
}
