package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/redisstore"
)

// twin is the Go form of one counter.
type twin struct {
	tb   algorithm.TokenBucket
	lb   algorithm.LeakyBucket
	fw   algorithm.FixedWindow
	sl   algorithm.SlidingLog
	sw   algorithm.SlidingWindow
	held bool // something was charged: a store has the counter
}

func (w *twin) take(l *caudal.Compiled, now int64, cost uint32) (d caudal.Decision) {
	switch l.Algorithm() {
	case caudal.TokenBucket:
		w.tb, d = w.tb.Take(l, now, cost)
	case caudal.LeakyBucket:
		w.lb, d = w.lb.Take(l, now, cost)
		w.lb.Freed = append([]algorithm.Turn(nil), w.lb.Freed...)
	case caudal.FixedWindow:
		w.fw, d = w.fw.Take(l, now, cost)
	case caudal.SlidingLog:
		d = w.sl.Take(l, now, cost)
	case caudal.SlidingWindow:
		w.sw, d = w.sw.Take(l, now, cost)
	}
	w.held = w.held || d.Charged
	return d
}

// takeFor is take for somebody in a fair queue; "" is nobody.
func (w *twin) takeFor(l *caudal.Compiled, now int64, cost uint32, who string) (d caudal.Decision) {
	if l.Algorithm() != caudal.LeakyBucket || who == "" {
		return w.take(l, now, cost)
	}
	w.lb, d = w.lb.TakeFair(l, now, cost, uint64(who[0]))
	w.held = w.held || d.Charged
	return d
}

func (w *twin) refund(r caudal.Refund, now int64) {
	l, at := r.Receipt.Limit, r.Receipt.At
	switch l.Algorithm() {
	case caudal.TokenBucket:
		w.tb = w.tb.Refund(l, r.N)
	case caudal.LeakyBucket:
		if !r.Left {
			w.lb = w.lb.Refund(r.Receipt, now, r.N)
		}
	case caudal.FixedWindow:
		w.fw = w.fw.Refund(at, r.N)
	case caudal.SlidingLog:
		w.sl.Refund(at, r.N)
	case caudal.SlidingWindow:
		w.sw = w.sw.Refund(l, at, r.N)
	}
}

func (w *twin) credit(l *caudal.Compiled, now int64, n uint32) {
	if !w.held {
		return
	}
	switch l.Algorithm() {
	case caudal.TokenBucket:
		w.tb = w.tb.Refund(l, n)
	case caudal.LeakyBucket:
		w.lb = w.lb.Credit(l, now, n)
	case caudal.FixedWindow:
		w.fw = w.fw.Credit(l, now, n)
	case caudal.SlidingLog:
		w.sl.Credit(n)
	case caudal.SlidingWindow:
		w.sw = w.sw.Credit(l, now, n)
	}
}

// traceKey gives each trace a counter of its own.
var traceKey atomic.Int64

// firstInstant is in 1971: a calendar's window around an earlier one may begin
// before 1970, where a fresh counter begins.
const firstInstant = 400 * 86400 * 1_000_000

// lastInstant keeps an instant and the longest wait together below 2^53, where
// Lua's numbers are exact.
const lastInstant = 2_600_000_000_000_000

var edges = []uint32{1, 2, 3, 7, 10, 13, 100, 999, 65535, 65536, 1_000_000, 1<<31 + 1, 1<<32 - 1}

func anyNumber(t *rapid.T, name string, zero bool) uint32 {
	if zero && rapid.IntRange(0, 20).Draw(t, name+" zero") == 0 {
		return 0
	}
	if rapid.Bool().Draw(t, name+" edge") {
		return rapid.SampledFrom(edges).Draw(t, name)
	}
	return uint32(1)<<rapid.IntRange(0, 31).Draw(t, name+" bits")*1 /* a start */ | rapid.Uint32Range(0, 1000).Draw(t, name+" low")
}

var zones = []string{"", "", "Europe/Madrid", "America/Santiago", "Pacific/Apia", "Asia/Tokyo"}

// anyLimit draws a valid limit of an algorithm.
func anyLimit(t *rapid.T, a caudal.Algorithm) caudal.Limit {
	return rapid.Custom(func(t *rapid.T) caudal.Limit {
		l := caudal.Limit{Algorithm: a, Requests: anyNumber(t, "requests", true), Unit: caudal.Unit(rapid.IntRange(1, 7).Draw(t, "unit"))}
		if rapid.IntRange(0, 3).Draw(t, "multiplied") == 0 {
			l.Multiplier = rapid.SampledFrom([]uint32{2, 3, 13, 40, 200, 1000, 86400}).Draw(t, "multiplier")
		}
		return withNumbers(t, l)
	}).Filter(func(l caudal.Limit) bool { return l.Validate() == nil }).Draw(t, "limit")
}

// withNumbers draws what belongs to a limit's algorithm.
func withNumbers(t *rapid.T, l caudal.Limit) caudal.Limit {
	switch l.Algorithm {
	case caudal.TokenBucket:
		if rapid.Bool().Draw(t, "has burst") {
			l.Burst = anyNumber(t, "burst", true)
		}
	case caudal.LeakyBucket:
		l.Queue = anyNumber(t, "queue", true)
		if rapid.Bool().Draw(t, "has wait") {
			l.MaxWait = time.Duration(rapid.Int64Range(1, 20_000_000).Draw(t, "wait")) * time.Microsecond
		}
	case caudal.FixedWindow:
		if l.Multiplier == 0 && l.Unit >= caudal.Day {
			l.Timezone = rapid.SampledFrom(zones).Draw(t, "zone")
		}
		if l.Timezone == "" {
			l.Epoch = rapid.Bool().Draw(t, "epoch")
		}
	}
	return l
}

// step draws how far time moves, back too.
func step(t *rapid.T, l *caudal.Compiled) int64 {
	period := l.PeriodMicros()
	interval := period / int64(max(l.Requests(), 1))
	d := rapid.SampledFrom([]int64{0, 0, 1, 2, 999, interval, interval + 1, interval * 3, period / 2, period - 1, period, period + 1,
		2 * period, 2*period - 1, 3 * period, 200 * 365 * 86400 * 1_000_000, -1, -interval, -period / 3, -period, -3 * period}).Draw(t, "step")
	if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
		d += rapid.Int64Range(-1_000_000, 1_000_000).Draw(t, "jitter")
	}
	return d
}

func anyCost(t *rapid.T, l *caudal.Compiled) uint32 {
	c := l.Capacity()
	costs := []uint64{0, 1, 1, 1, 1, 2, 3, c / 2, c - 1, c, c + 1, 1<<32 - 1}
	return uint32(min(rapid.SampledFrom(costs).Draw(t, "cost"), 1<<32-1))
}

// same compares decisions but for what a store chooses itself.
func same(got, want caudal.Decision) error {
	want.Receipt.Counter, want.Receipt.ID = got.Receipt.Counter, got.Receipt.ID
	if got != want {
		return fmt.Errorf("Lua = %+v\n Go = %+v", got, want)
	}
	return nil
}

// beyond reports whether a decision speaks of an instant that Lua's numbers do not
// hold exactly: some of what follows from a limit of two centuries that was made
// slower while calls were waiting.
func beyond(now int64, d caudal.Decision) bool {
	return now+max(d.ResetAfter, d.RetryAfter, d.Delay).Microseconds() >= 1<<53
}

// trace runs one random trace through both forms.
func trace(t *rapid.T, s *redisstore.Store, a caudal.Algorithm) {
	ctx, clients := context.Background(), 0
	limit := anyLimit(t, a)
	if a == caudal.LeakyBucket {
		clients = rapid.IntRange(0, 5).Draw(t, "clients")
	}
	if clients > 0 && rapid.Bool().Draw(t, "short") { // a queue that clients fill
		limit.Queue, limit.Requests = rapid.Uint32Range(0, 40).Draw(t, "queue"), rapid.Uint32Range(1, 100).Draw(t, "requests")
	}
	l, err := limit.Compile("", "differential")
	if err != nil {
		t.Fatal(err)
	}
	key := strconv.FormatInt(traceKey.Add(1), 10)
	now := rapid.SampledFrom([]int64{1_773_144_000_000_000, 1_773_144_000_000_001, firstInstant, lastInstant}).Draw(t, "start")
	var w twin
	var receipts []caudal.Receipt
	for range rapid.IntRange(1, 40).Draw(t, "events") {
		now = min(max(now+step(t, l), firstInstant), lastInstant)
		instant := caudal.Instant{Mono: now, Wall: now}
		switch rapid.IntRange(0, 9).Draw(t, "event") {
		case 0: // other numbers, the same counter
			changed := rapid.Custom(func(t *rapid.T) caudal.Limit {
				c := caudal.Limit{Algorithm: a, Requests: anyNumber(t, "requests", true), Unit: limit.Unit,
					Multiplier: limit.Multiplier}
				c = withNumbers(t, c)
				c.Timezone, c.Epoch = limit.Timezone, limit.Epoch
				return c
			}).Filter(func(l caudal.Limit) bool { return l.Validate() == nil }).Draw(t, "changed")
			if l, err = changed.Compile("", "differential"); err != nil {
				t.Fatal(err)
			}
		case 1, 2:
			if len(receipts) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(receipts)-1).Draw(t, "receipt")
			r := caudal.Refund{Receipt: receipts[i], N: receipts[i].Cost, Left: rapid.IntRange(0, 3).Draw(t, "left") == 0}
			if rapid.Bool().Draw(t, "part") {
				r.N = rapid.Uint32Range(0, r.N).Draw(t, "n")
			}
			receipts = append(receipts[:i], receipts[i+1:]...)
			w.refund(r, now)
			if err := s.Refund(ctx, instant, []caudal.Refund{r}); err != nil {
				t.Fatalf("Refund(%+v) = %v", r, err)
			}
			if err := s.Refund(ctx, instant, []caudal.Refund{r}); !errors.Is(err, caudal.ErrReceiptUsed) {
				t.Fatalf("Refund(%+v) again = %v, want %v", r, err, caudal.ErrReceiptUsed)
			}
		case 3:
			n := anyCost(t, l)
			w.credit(l, now, n)
			if err := s.Refund(ctx, instant, []caudal.Refund{{Limit: l, Key: key, N: n}}); err != nil {
				t.Fatalf("credit %d = %v", n, err)
			}
		default:
			cost, who := anyCost(t, l), ""
			if clients > 0 {
				who = rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"}[:1+clients]).Draw(t, "who")
			}
			want := w.takeFor(l, now, cost, who)
			var out [1]caudal.Decision
			err := s.Take(ctx, instant, []caudal.Call{{Limit: l, Key: []byte(key), Cost: cost, Fair: []byte(who)}}, out[:])
			got := out[0]
			if err != nil {
				t.Fatalf("Take(%s, at %d, cost %d, for %q) = %v", l.Limit(), now, cost, who, err)
			}
			if beyond(now, want) {
				return
			}
			if err := same(got, want); err != nil {
				t.Fatalf("Take(%s, at %d, cost %d, for %q):\n%v", l.Limit(), now, cost, who, err)
			}
			if got.Charged {
				receipts = append(receipts, got.Receipt)
			}
		}
	}
}

// The Go and the Lua form of every algorithm give the same decisions on random
// traces: odd rates, all costs, refunds, clocks that step, limits that change.
func TestDifferential(t *testing.T) {
	_, s := single(t, redisstore.Options{CallerTime: true})
	for _, name := range caudal.Algorithms() {
		a, _ := caudal.ParseAlgorithm(name)
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { trace(t, s, a) })
		})
	}
}

func FuzzDifferential(f *testing.F) {
	_, s := single(f, redisstore.Options{CallerTime: true})
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		trace(t, s, caudal.Algorithm(rapid.IntRange(1, 5).Draw(t, "algorithm")))
	}))
}
