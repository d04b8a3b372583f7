package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
)

// crowdLimit draws a limit whose numbers are small, odd or large.
func crowdLimit(t *rapid.T, scope string) *caudal.Compiled {
	number := func(name string) uint32 {
		return rapid.SampledFrom([]uint32{0, 1, 2, 3, 7, 9, 13, 20, 40, 100, 999, 65536, 1<<32 - 1}).Draw(t, name)
	}
	l := rapid.Custom(func(t *rapid.T) caudal.Limit {
		l := caudal.Limit{Algorithm: caudal.Algorithm(rapid.IntRange(1, 5).Draw(t, "algorithm")), Requests: number("requests"), Unit: caudal.Unit(rapid.IntRange(1, 7).Draw(t, "unit"))}
		if rapid.IntRange(0, 3).Draw(t, "multiplied") == 0 {
			l.Multiplier = rapid.SampledFrom([]uint32{2, 13, 1000}).Draw(t, "multiplier")
		}
		switch l.Algorithm {
		case caudal.TokenBucket:
			l.Burst = number("burst")
		case caudal.LeakyBucket:
			l.Queue, l.MaxWait = number("queue"), time.Duration(rapid.SampledFrom([]int64{0, 1, 999, 1_000_000, 3_600_000_000}).Draw(t, "wait"))*time.Microsecond
		}
		return l
	}).Filter(func(l caudal.Limit) bool { return l.Validate() == nil }).Draw(t, "limit")
	c, err := l.Compile("", scope)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// takeCrowd asks for n callers at once, as those who waited are.
func (s *Store) takeCrowd(t *rapid.T, at caudal.Instant, calls []caudal.Call, n int) [][]caudal.Decision {
	ses, err := s.link.session("test")
	if err != nil {
		t.Fatal(err)
	}
	r := new(request)
	r.fill(calls)
	members := make([]int, len(calls))
	for i := range members {
		members[i] = i
	}
	in := s.instant(ses, at)
	walls := map[int]int64{}
	wall := func(n int) int64 {
		if w, ok := walls[n]; ok {
			return w
		}
		return in.wall
	}
	var c *crowd
	for c == nil || !c.ask.answered() {
		key := s.appendAsk(nil, r, calls, members, false, wall)
		if len(calls) == 1 {
			key = s.appendOne(nil, r.counters[0], &calls[0], wall(0))
		}
		c = &crowd{key: string(key), ses: ses, n: n, done: make(chan struct{})}
		s.askShared([]*crowd{c}, in.now)
		if c.ask.err != nil || len(walls) > 0 && !c.ask.answered() && walls[c.ask.lacks] == c.ask.wall {
			t.Fatalf("%d callers at once = %v", n, c.ask.err)
		}
		if !c.ask.answered() {
			walls[c.ask.lacks] = c.ask.wall
		}
	}
	all := make([][]caudal.Decision, n)
	for i := range all {
		all[i] = make([]caudal.Decision, len(calls))
		decide(answer{c.ask, i}, r, calls, members, all[i])
	}
	return all
}

// crowdCalls draws a request whose limits all differ, and calls that a crowd must ask
// one after the other, at times.
func crowdCalls(t *rapid.T, limits []*caudal.Compiled, key string) []caudal.Call {
	calls := make([]caudal.Call, rapid.IntRange(1, len(limits)).Draw(t, "limits"))
	odd := rapid.IntRange(0, 3).Draw(t, "odd") == 0
	for i := range calls {
		calls[i] = caudal.Call{Limit: limits[i], Key: []byte(key), Cost: 1,
			Mode: rapid.SampledFrom([]caudal.Mode{caudal.Enforce, caudal.Enforce, caudal.Shadow, caudal.Quota}).Draw(t, "mode")}
		if !odd {
			continue
		}
		calls[i].Cost = rapid.SampledFrom([]uint32{0, 1, 1, 2}).Draw(t, "cost")
		calls[i].CountDenied = rapid.Bool().Draw(t, "counting")
		calls[i].Fair = []byte(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "for"))
		if rapid.Bool().Draw(t, "late") {
			calls[i].MinDelay = time.Duration(rapid.Int64Range(1, 2_000_000).Draw(t, "least delay")) * time.Microsecond
		}
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "the same counter") == 0 {
			calls[i].Limit, calls[i].Fair = calls[0].Limit, calls[0].Fair
		}
	}
	return calls
}

// What callers get who are asked for at once is what they would have got one after
// the other, to the last bit, and so is what Redis holds afterwards: all algorithms,
// lists of limits, modes, refunds, clocks that step.
func TestACrowdIsOneAfterTheOther(t *testing.T) {
	r := redistest.Start(t)
	crowds, alone := opened(t, r.URL(), Options{Prefix: "crowd:", CallerTime: true}), opened(t, r.URL(), Options{Prefix: "alone:", CallerTime: true})
	keys, closed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		keys++
		var limits []*caudal.Compiled
		for i := range rapid.IntRange(1, 3).Draw(t, "lists") {
			limits = append(limits, crowdLimit(t, fmt.Sprint("scope", i)))
		}
		now := int64(1_773_144_000_000_000)
		var receipts [][2]caudal.Receipt
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			l := rapid.SampledFrom(limits).Draw(t, "step of")
			interval := l.PeriodMicros() / int64(max(l.Requests(), 1))
			now += rapid.SampledFrom([]int64{0, 0, 1, interval, 3*interval + 1, l.PeriodMicros() / 3, l.PeriodMicros(), -interval, -1}).Draw(t, "step")
			now = min(max(now, 1_700_000_000_000_000), 2_600_000_000_000_000)
			at := caudal.Instant{Mono: now, Wall: now}
			if len(receipts) > 0 && rapid.IntRange(0, 3).Draw(t, "refund") == 0 {
				i := rapid.IntRange(0, len(receipts)-1).Draw(t, "receipt")
				for n, s := range []*Store{crowds, alone} {
					if err := s.Refund(context.Background(), at, []caudal.Refund{{Receipt: receipts[i][n], N: receipts[i][n].Cost}}); err != nil {
						t.Fatal(err)
					}
				}
				receipts = append(receipts[:i], receipts[i+1:]...)
				continue
			}
			calls := crowdCalls(t, limits, strconv.Itoa(keys))
			n := rapid.IntRange(2, 30).Draw(t, "callers")
			got := crowds.takeCrowd(t, at, calls, n)
			for i := range n {
				want := make([]caudal.Decision, len(calls))
				if err := alone.Take(context.Background(), at, calls, want); err != nil {
					t.Fatal(err)
				}
				for j := range want {
					g, w := got[i][j], want[j]
					if g.Charged {
						closed++
						receipts = append(receipts, [2]caudal.Receipt{g.Receipt, w.Receipt})
					}
					g.Receipt.ID, w.Receipt.ID = 0, 0
					if g != w {
						t.Fatalf("at %d, caller %d of %d, limit %d of %d (%s, %v):\n got %+v\nwant %+v", now, i, n, j, len(calls), calls[j].Limit.Limit(), calls[j].Mode, g, w)
					}
				}
			}
			for _, l := range limits {
				c := counterOf(l, strconv.Itoa(keys))
				got, want := r.Do("GET", crowds.name(c)), r.Do("GET", alone.name(c))
				if got != want {
					t.Fatalf("%s: Redis holds %x after %d at once, want %x", l.Limit(), got, n, want)
				}
			}
		}
	})
	if closed == 0 {
		t.Error("no charge was compared")
	}
}
