package redisstore

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/memstore"
)

// room is what two counters hold: a hot one and one beside it.
type room [2]uint64

// request2 is a call of one counter or of both; a refund gives back what it names.
type request2 struct {
	cost   room
	refund bool
	// held says that somebody held a lease, or a charge that was taken back later,
	// at some time from the call to its answer: a denial is legal then.
	held bool
}

// roomModel says which answers are right: an allowed call needs room for all that it
// asks, and a denied one has none, but while others hold some.
func roomModel(limits room) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return room{} },
		Step: func(state, input, output any) (bool, any) {
			used, in, allowed := state.(room), input.(request2), output.(bool)
			next, fits := used, true
			for i, n := range in.cost {
				if in.refund {
					next[i] -= n
				} else if n > 0 {
					next[i] += n
					fits = fits && next[i] <= limits[i]
				}
			}
			switch {
			case in.refund:
				return true, next
			case allowed:
				return fits, next
			}
			return !fits || in.held, used
		},
	}
}

// history records what concurrent callers asked and were told.
type history struct {
	mu      sync.Mutex
	ops     []porcupine.Operation
	base    time.Time
	limits  [2]*caudal.Compiled
	holding func() bool  // some lease is out
	asks    atomic.Int64 // for leases, and of both counters at once
	under   atomic.Int64 // of both counters, under way
}

func (h *history) Call(op string, _ time.Duration, _ error) {
	if op == "lease" || op == "refund" {
		h.asks.Add(1)
	}
}
func (h *history) DeniedLocally()        {}
func (h *history) Connected(bool, error) {}

// take asks and notes the answer.
func (h *history) take(t *testing.T, client int, s caudal.Store, cost room) []caudal.Decision {
	var calls []caudal.Call
	for i, n := range cost {
		if n > 0 {
			calls = append(calls, caudal.Call{Limit: h.limits[i], Key: []byte("k"), Cost: uint32(n)})
		}
	}
	out := make([]caudal.Decision, len(calls))
	both := len(calls) > 1
	if both {
		h.under.Add(1)
		h.asks.Add(1)
	}
	asks, held := h.asks.Load(), h.under.Load() > 0 || h.holding()
	call := time.Since(h.base)
	err := s.Take(context.Background(), caudal.Instant{}, calls, out)
	back := time.Since(h.base)
	held = held || h.under.Load() > 0 || h.holding() || h.asks.Load() != asks
	if both {
		h.under.Add(-1)
	}
	if err != nil {
		t.Errorf("Take = %v", err)
	}
	h.note(client, request2{cost: cost, held: held}, caudal.Judge(calls, out).Allowed, call, back)
	return out
}

func (h *history) note(client int, in request2, allowed bool, call, back time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: allowed, Call: int64(call), Return: int64(back)})
}

// run lets callers ask at the same time, each n times; both says how many in ten ask
// for both counters.
func (h *history) run(t *testing.T, stores []caudal.Store, n, both int, refunds bool) {
	var wg sync.WaitGroup
	seed := uint64(len(h.ops)) // nobody asks yet
	for c := range 2 * len(stores) {
		wg.Go(func() {
			pick := rand.New(rand.NewPCG(uint64(c), seed))
			s := stores[c%len(stores)]
			for range n {
				cost := room{1 + pick.Uint64N(3), 0}
				if pick.IntN(10) < both {
					cost[1] = 1
				}
				out := h.take(t, c, s, cost)
				if refunds && out[0].Charged && pick.IntN(4) == 0 {
					call := time.Since(h.base)
					r := []caudal.Refund{{Receipt: out[0].Receipt, N: out[0].Receipt.Cost, Left: true}}
					if err := s.(caudal.Refunder).Refund(context.Background(), caudal.Instant{}, r); err != nil {
						t.Errorf("Refund = %v", err)
					}
					h.note(c, request2{cost: room{cost[0], 0}, refund: true}, true, call, time.Since(h.base))
				}
			}
		})
	}
	wg.Wait()
}

// check asks whether some order of the calls explains the answers.
func (h *history) check(t *testing.T, what string) {
	t.Helper()
	model := roomModel(room{h.limits[0].Capacity(), h.limits[1].Capacity()})
	result := porcupine.CheckOperationsTimeout(model, h.ops, time.Minute)
	if result == porcupine.Illegal {
		t.Errorf("%s: no order of the %d calls explains the answers", what, len(h.ops))
	}
	if result == porcupine.Unknown {
		t.Logf("%s: whether an order of the %d calls explains the answers was not found out in a minute", what, len(h.ops))
	}
}

// slowly gives limits that regain next to nothing during a test.
func slowly(t *testing.T, a caudal.Algorithm, hot, beside uint32, accuracy caudal.Accuracy) [2]*caudal.Compiled {
	t.Helper()
	var out [2]*caudal.Compiled
	for i, n := range []uint32{hot, beside} {
		limit := caudal.Per(n, caudal.Year).With(a)
		limit.Multiplier = 100
		l, err := limit.Compile("", string(rune('a'+i)), caudal.WithAccuracy([2]caudal.Accuracy{accuracy, caudal.Exact}[i]))
		if err != nil {
			t.Fatal(err)
		}
		out[i] = l
	}
	return out
}

// rounds is how often each history is made anew.
func rounds() int {
	if os.Getenv("CAUDAL_SOAK") != "" {
		return 200
	}
	return 1
}

// Concurrent calls of three instances with leases, remembered denials and shared
// script calls, on one server and on a Cluster with requests of two counters whose
// charges are taken back: there is an order that explains every answer. It covers
// C37.
func TestLinearizable(t *testing.T) {
	cluster := redistest.StartCluster(t)
	single := redistest.Start(t)
	for _, c := range []struct {
		name, url string
		both      int
		accuracy  caudal.Accuracy
	}{
		{"single, leased", single.URL(), 0, caudal.Leased},
		{"single, exact", single.URL(), 3, caudal.Exact},
		{"single, leased and two counters", single.URL(), 3, caudal.Leased},
		{"cluster, exact", cluster.URL(), 3, caudal.Exact},
		{"cluster, leased and two counters", cluster.URL(), 3, caudal.Leased},
	} {
		for _, a := range []caudal.Algorithm{caudal.TokenBucket, caudal.FixedWindow, caudal.SlidingWindow} {
			t.Run(c.name+", "+a.String(), func(t *testing.T) {
				for range rounds() {
					linearizable(t, c.url, c.both, slowly(t, a, 500, 30, c.accuracy))
				}
			})
		}
	}
}

// histories numbers them, so that each has counters of its own.
var histories atomic.Int64

func linearizable(t *testing.T, url string, both int, limits [2]*caudal.Compiled) {
	t.Helper()
	h := &history{base: time.Now(), limits: limits}
	prefix := "history " + strconv.FormatInt(histories.Add(1), 10) + ":"
	var all []*Store
	var stores []caudal.Store
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		s, err := Open(ctx, url, Options{Prefix: prefix, Denials: 100, Observer: h, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		all, stores = append(all, s), append(stores, s)
	}
	h.holding = func() bool {
		for _, s := range all {
			if s.leases.count.Load()+s.leases.going.Load() > 0 {
				return true
			}
		}
		return false
	}
	h.run(t, stores, 25, both, false)
	// When all leases are back and everybody has heard so, the rest is exact.
	deadline := time.Now().Add(20 * time.Second)
	for quiet := false; !quiet; time.Sleep(5 * time.Millisecond) {
		quiet = !h.holding()
		for _, s := range all {
			quiet = quiet && !s.denials.holds(counterOf(limits[0], "k"))
		}
		if time.Now().After(deadline) {
			t.Fatal("leases are out, or denials remembered, 20 s after the last call")
		}
	}
	h.run(t, stores, 4, 0, false)
	for range 600 { // to the end, one after the other
		if d := h.take(t, 0, stores[1], room{50, 0}); !d[0].Allowed {
			break
		}
	}
	h.run(t, stores, 25, both, false)
	h.check(t, limits[0].Limit().String())
}

// holds reports whether a denial of a counter may be believed.
func (x *denials) holds(c counter) bool {
	sh := x.shard(c)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d, ok := sh.m[c]
	return ok && !d.over(time.Since(x.base))
}

// The same of the store in memory, with refunds: always exact.
func TestLinearizableInMemory(t *testing.T) {
	for _, a := range []caudal.Algorithm{caudal.TokenBucket, caudal.FixedWindow, caudal.SlidingWindow, caudal.SlidingLog} {
		for range rounds() {
			s := memstore.New(memstore.Options{})
			h := &history{base: time.Now(), limits: slowly(t, a, 200, 30, caudal.Exact), holding: func() bool { return false }}
			h.run(t, []caudal.Store{s, s, s}, 40, 0, true)
			h.check(t, a.String())
			_ = s.Close()
		}
	}
}
