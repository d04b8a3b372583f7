package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/refmodel"
)

// traceLimits are what the random traces play: for each algorithm limits of one
// identity between which a trace changes.
var traceLimits = map[string][][]string{
	"TokenBucket": {
		{"1/h", "1/h burst 3", "7/h burst 2"}, {"10/13s", "10/13s burst 100", "3/13s"}, {"1000/h burst 10", "65535/h"},
		{"4294967295/day", "1/day burst 50"}, {"1/year", "3/year burst 9"}, {"100/m burst 20", "99/m"},
	},
	"LeakyBucket": {
		{"1/h leaky_bucket queue 3", "7/h leaky_bucket queue 2", "3/h leaky_bucket queue 5"}, {"10/13s leaky_bucket queue 9 max_wait 5s", "7/13s leaky_bucket queue 20"},
		{"100/m leaky_bucket queue 10", "7/m leaky_bucket queue 10"}, {"4294967295/day leaky_bucket queue 4294967294"}, {"1/year leaky_bucket queue 3 max_wait 9000h"},
	},
	"FixedWindow": {
		{"3/h fixed_window", "10/h fixed_window"}, {"10/13s fixed_window"}, {"4294967295/day fixed_window", "5/day fixed_window"},
		{"5/week fixed_window"}, {"5/month fixed_window"}, {"5/day fixed_window timezone America/Santiago"},
	},
	"SlidingLog": {
		{"3/h sliding_log", "10/h sliding_log"}, {"10/13s sliding_log", "4/13s sliding_log"}, {"4294967295/day sliding_log"}, {"50/m sliding_log"},
	},
	"SlidingWindow": {
		{"3/h sliding_window", "10/h sliding_window"}, {"10/13s sliding_window", "4/13s sliding_window"}, {"4294967295/day sliding_window"},
		{"100/m sliding_window", "50/m sliding_window"}, {"31/month sliding_window"},
	},
}

// traceRows compare a store with the reference model on random traces.
func traceRows() []row {
	var all []row
	for _, kind := range []string{"TokenBucket", "LeakyBucket", "FixedWindow", "SlidingLog", "SlidingWindow"} {
		all = append(all, row{
			name: "Trace/" + kind,
			rule: "every decision on a random trace of calls, refunds and changed limits, with a clock that goes back and forth, is that of the naive model",
			run:  func(s *script) { s.traces(traceLimits[kind], nil) },
		})
	}
	return all
}

// traces plays random traces of each group of limits; with clients, each call waits
// for one of them.
func (s *script) traces(groups [][]string, clients []string) {
	for seed := range s.opts.Traces {
		for i, limits := range groups {
			t := &trace{script: s, random: rand.New(rand.NewPCG(uint64(seed), uint64(i))), key: fmt.Sprint(seed, " ", i), clients: clients}
			if !t.play(limits) {
				return
			}
		}
	}
}

// trace plays one key.
type trace struct {
	*script
	random   *rand.Rand
	key      string
	clients  []string // of a fair queue; "" is nobody
	model    *refmodel.Model
	limit    *caudal.Compiled
	now      caudal.Instant
	receipts []numbered
	told     []duration
	log      []string
}

type numbered struct {
	receipt
	id int
}

func (t *trace) play(limits []string) bool {
	t.now = t.start.Add(duration(t.random.Int64N(int64(800 * 24 * 3600 * seconds(1)))).Truncate(us))
	t.limit = t.script.limit(limits[0])
	t.model = refmodel.New(t.limit.Algorithm())
	for id := range 40 {
		if t.random.IntN(8) == 0 {
			t.limit = t.script.limit(limits[t.random.IntN(len(limits))])
		}
		t.move()
		if t.refunder != nil && t.random.IntN(5) == 0 {
			t.refundSome()
		}
		if !t.step(id) {
			return false
		}
	}
	return true
}

// move picks the next instant: the same, at or just before a wait that was told,
// some part of a period on, or back.
func (t *trace) move() {
	period := t.limit.Limit().Period()
	switch t.random.IntN(9) {
	case 0, 1:
	case 2, 3, 4:
		if len(t.told) > 0 {
			t.now = t.now.Add(max(0, t.told[t.random.IntN(len(t.told))]-duration(t.random.IntN(2))*us))
		}
	case 5:
		t.now = t.now.Add(-duration(t.random.Int64N(int64(period))))
	case 6:
		t.now = t.now.Add(duration(t.random.IntN(3))*period + duration(t.random.IntN(3)-1)*us)
	default:
		t.now = t.now.Add(duration(t.random.Int64N(int64(period) / 2)))
	}
}

func (t *trace) refundSome() {
	if len(t.receipts) == 0 || t.random.IntN(3) == 0 {
		n := uint32(1 + t.random.IntN(3))
		t.note("credit %d", n)
		t.refund(t.now, caudal.Refund{Limit: t.limit, Key: t.key, N: n}, nil)
		t.model.Credit(t.limit.Limit(), t.now.Mono, n)
		return
	}
	i := t.random.IntN(len(t.receipts))
	r := t.receipts[i]
	t.receipts = append(t.receipts[:i], t.receipts[i+1:]...)
	n := 1 + t.random.Uint32N(r.Cost)
	t.note("refund %d of charge %d", n, r.id)
	t.refund(t.now, caudal.Refund{Receipt: r.receipt, N: n}, nil)
	t.model.Refund(t.limit.Limit(), t.now.Mono, n, r.id)
}

func (t *trace) step(id int) bool {
	capacity := uint32(t.limit.Capacity())
	costs := []uint32{0, 1, 1, 1, 2, capacity, capacity/2 + 1, capacity + 1, 1 + t.random.Uint32N(max(capacity, 1))}
	cost := costs[t.random.IntN(len(costs))]
	got, want := t.ask(cost, id)
	if got.Charged && cost <= 100 {
		t.receipts = append(t.receipts, numbered{got.Receipt, id})
	}
	got.Receipt = receipt{}
	t.note("call %d of cost %d: %s", id, cost, show(got))
	if got != want {
		t.wrong("%s\n got %s\nwant %s", strings.Join(t.log, "\n"), show(got), show(want))
		return false
	}
	t.told = []duration{got.RetryAfter, got.ResetAfter, got.Delay}
	return true
}

func (t *trace) ask(cost uint32, id int) (got, want caudal.Decision) {
	l, now := t.limit.Limit(), t.now.Mono
	if t.clients == nil {
		return t.take(t.now, t.limit, t.key, cost), t.model.Take(l, now, cost, id)
	}
	client := t.random.IntN(len(t.clients))
	t.note("for %q", t.clients[client])
	got = t.batch(t.now, fairCall(t.limit, t.key, t.clients[client], cost))[0]
	return got, t.model.TakeFair(l, now, cost, id, uint64(client))
}

func (t *trace) note(format string, args ...any) {
	t.log = append(t.log, fmt.Sprintf("%d %s: "+format, append([]any{t.now.Mono, t.limit.Limit()}, args...)...))
}
