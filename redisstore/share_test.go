package redisstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/redistest"
)

// opened opens a store for tests that look inside.
func opened(t *testing.T, url string, o Options) *Store {
	t.Helper()
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *Store) sessionOf(t *testing.T) *session {
	t.Helper()
	ses, err := s.link.session("test")
	if err != nil {
		t.Fatal(err)
	}
	return ses
}

// takes counts the script calls of decisions.
type takes struct{ n atomic.Int64 }

func (c *takes) Call(op string, _ time.Duration, _ error) {
	if op == "take" {
		c.n.Add(1)
	}
}
func (c *takes) DeniedLocally()        {}
func (c *takes) Connected(bool, error) {}

// everyKind gives a limit of 12 of every algorithm, which gains nothing meanwhile.
func everyKind(t *testing.T) []*caudal.Compiled {
	t.Helper()
	var all []*caudal.Compiled
	for _, limit := range []caudal.Limit{
		caudal.PerDay(12), caudal.Per(12, caudal.Year).WithBurst(12), caudal.PerDay(1).WithQueue(11, 0),
		caudal.PerDay(12).With(caudal.FixedWindow), caudal.PerDay(12).With(caudal.SlidingWindow), caudal.PerDay(12).With(caudal.SlidingLog),
	} {
		all = append(all, compiled(t, limit, limit.String()))
	}
	return all
}

func compiled(t testing.TB, limit caudal.Limit, scope string) *caudal.Compiled {
	t.Helper()
	l, err := limit.Compile("", scope)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// waitFor waits until something holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s: not %s", what)
		}
	}
}

// occupy takes all places for script calls, so that who asks must wait; waiting
// gives how many do.
func (x *sharer) occupy() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.underWay = maxUnderWay
}

func (x *sharer) count() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.waiting {
		n += c.live()
	}
	return n
}

// However many wait to ask the same, they are asked by one script call with one
// write, and get what they would have got one after the other.
func TestManyWaitersAreOneCall(t *testing.T) {
	r := redistest.Start(t)
	for _, l := range everyKind(t) {
		var seen takes
		s := opened(t, r.URL(), Options{Prefix: l.Limit().String() + ":", Observer: &seen})
		if _, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1); err != nil {
			t.Fatal(err)
		}
		s.scripts.batchFor(1 << formOf(l))
		seen.n.Store(0)
		s.sharer.occupy()
		const n = 200
		out := make([]caudal.Decision, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				var err error
				if out[i], err = s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 1); err != nil {
					t.Error(err)
				}
			})
			waitFor(t, "one more waits", func() bool { return s.sharer.count() == i+1 })
		}
		r.Do("CONFIG", "RESETSTAT")
		s.next(&s.sharer)
		wg.Wait()
		if got := seen.n.Load(); got != 1 {
			t.Errorf("%s: %d callers made %d script calls, want 1", l.Limit(), n, got)
		}
		for line := range strings.Lines(r.Do("INFO", "commandstats")) {
			if (strings.HasPrefix(line, "cmdstat_set:") || strings.HasPrefix(line, "cmdstat_get:")) && !strings.Contains(line, "calls=1,") && !strings.Contains(line, "calls=2,") && !strings.Contains(line, "calls=3,") && !strings.Contains(line, "calls=4,") {
				t.Errorf("%s: %d callers read or wrote too often: %s", l.Limit(), n, line)
			}
		}
		ids := map[uint64]bool{}
		for i, d := range out {
			if d.Allowed != (i < 11) || d.Remaining != uint64(max(10-i, 0)) {
				t.Errorf("%s: caller %d: allowed %v, %d remain; want it as if each came alone", l.Limit(), i, d.Allowed, d.Remaining)
			}
			if d.Charged {
				ids[d.Receipt.ID] = true
			}
		}
		if len(ids) != 11 {
			t.Errorf("%s: %d receipts for 11 charges", l.Limit(), len(ids))
		}
		for i := range 11 { // each can be given back by itself, and once
			f := []caudal.Refund{{Receipt: out[i].Receipt, N: 1}}
			if err := s.Refund(context.Background(), caudal.Instant{}, f); err != nil {
				t.Errorf("%s: Refund of charge %d = %v", l.Limit(), i, err)
			}
			if err := s.Refund(context.Background(), caudal.Instant{}, f); !errors.Is(err, caudal.ErrReceiptUsed) {
				t.Errorf("%s: Refund of charge %d again = %v, want ErrReceiptUsed", l.Limit(), i, err)
			}
		}
		if d, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 0); err != nil || d.Remaining != 11 && l.Algorithm() != caudal.LeakyBucket {
			t.Errorf("%s: %d remain after all was given back, want 11: %v", l.Limit(), d.Remaining, err)
		}
	}
}

// A caller who leaves before its crowd is sent is not charged, and the others move
// up. One who leaves later is.
func TestLeavingACrowd(t *testing.T) {
	r := redistest.Start(t)
	for _, l := range everyKind(t) {
		s := opened(t, r.URL(), Options{Prefix: l.Limit().String() + ":"})
		s.sharer.occupy()
		var cancels []context.CancelFunc
		out, errs := make([]caudal.Decision, 6), make([]error, 6)
		var early, late, all sync.WaitGroup
		for i := range 6 {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			cancels = append(cancels, cancel)
			wg := &all
			if i == 1 || i == 3 {
				wg = &early
			} else if i == 4 {
				wg = &late
			}
			wg.Go(func() { out[i], errs[i] = s.TakeKey(ctx, caudal.Instant{}, l, "k", 1) })
			waitFor(t, "one more waits", func() bool { return s.sharer.count() == i+1 })
		}
		cancels[1]()
		cancels[3]()
		early.Wait()
		batch := s.sharer.take()
		cancels[4]()
		late.Wait()
		s.askShared(batch, "")
		s.next(&s.sharer)
		all.Wait()
		for i, remain := range map[int]uint64{0: 11, 2: 10, 5: 8} {
			if errs[i] != nil || !out[i].Allowed || out[i].Remaining != remain {
				t.Errorf("%s: caller %d: %v, allowed %v, %d remain, want %d", l.Limit(), i, errs[i], out[i].Allowed, out[i].Remaining, remain)
			}
		}
		for _, i := range []int{1, 3, 4} {
			if !errors.Is(errs[i], context.Canceled) {
				t.Errorf("%s: caller %d who left = %v, want context.Canceled", l.Limit(), i, errs[i])
			}
		}
		if d, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "k", 0); err != nil || d.Remaining != 8 {
			t.Errorf("%s: %d remain, want 8: %v", l.Limit(), d.Remaining, err)
		}
	}
}

// A crowd whose callers have all left is not asked for, and the place becomes free.
func TestAllLeaveACrowd(t *testing.T) {
	r := redistest.Start(t)
	var seen takes
	s := opened(t, r.URL(), Options{Observer: &seen})
	l := compiled(t, caudal.PerDay(5), "s")
	s.sharer.occupy()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := s.TakeKey(ctx, caudal.Instant{}, l, "k", 1)
		done <- err
	}()
	waitFor(t, "one waits", func() bool { return s.sharer.count() == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("TakeKey = %v, want context.Canceled", err)
	}
	s.next(&s.sharer)
	if s.sharer.underWay != maxUnderWay-1 || len(s.sharer.waiting)+len(s.sharer.open) != 0 || seen.n.Load() != 0 {
		t.Errorf("%d under way, %d wait, %d calls, want %d, 0, 0", s.sharer.underWay, len(s.sharer.waiting), seen.n.Load(), maxUnderWay-1)
	}
}

// Others in the same script call are not touched by a crowd that fails.
func TestACrowdFailsAlone(t *testing.T) {
	r := redistest.Start(t)
	for _, l := range everyKind(t) {
		s := opened(t, r.URL(), Options{Prefix: l.Limit().String() + ":"})
		r.Do("SET", s.name(counterOf(l, "bad")), "not ours", "PX", "60000")
		var batch []*crowd
		for _, key := range []string{"good", "bad", "other"} {
			c := &caudal.Call{Limit: l, Cost: 1}
			batch = append(batch, &crowd{ses: s.sessionOf(t), n: 5, done: make(chan struct{}), key: string(s.appendOne(nil, counterOf(l, key), c, time.Now().UnixMicro()))})
		}
		s.askShared(batch, "")
		for i, c := range batch {
			switch {
			case i == 1 && (c.ask.err == nil || !strings.Contains(c.ask.err.Error(), "BADSTATE")):
				t.Errorf("%s: a counter that cannot be read = %v, want BADSTATE", l.Limit(), c.ask.err)
			case i != 1 && c.ask.err != nil:
				t.Errorf("%s: beside one that cannot be read = %v", l.Limit(), c.ask.err)
			case i != 1:
				if v := (answer{c.ask, 4}).verdict(0, l); v.remaining != 7 {
					t.Errorf("%s: %d remain after five, want 7", l.Limit(), v.remaining)
				}
			}
		}
	}
}

// On a Cluster callers who ask the same share calls too, and nobody else waits for
// them.
func TestManyWaitersOnACluster(t *testing.T) {
	c := redistest.StartCluster(t)
	var seen takes
	s := opened(t, c.URL(), Options{Observer: &seen})
	l := compiled(t, caudal.PerDay(1000), "s")
	call := &caudal.Call{Limit: l, Cost: 1}
	key := s.appendOne(nil, counterOf(l, "hot"), call, 0)
	x := s.sharers.get(key)
	x.occupy()
	const n = 100
	var wg sync.WaitGroup
	var sum atomic.Uint64
	for range n {
		wg.Go(func() {
			d, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "hot", 1)
			if err != nil || !d.Allowed {
				t.Errorf("TakeKey = %+v, %v", d, err)
			}
			sum.Add(d.Remaining)
		})
	}
	waitFor(t, "all wait", func() bool { return x.count() == n })
	if _, err := s.TakeKey(context.Background(), caudal.Instant{}, l, "another", 1); err != nil {
		t.Fatal(err)
	}
	seen.n.Store(0)
	s.next(x)
	wg.Wait()
	s.sharers.put(x, key)
	if got := seen.n.Load(); got != 1 {
		t.Errorf("%d callers made %d script calls, want 1", n, got)
	}
	if want := uint64(n*1000 - n*(n+1)/2); sum.Load() != want {
		t.Errorf("the sum of what remained = %d, want %d: each value once", sum.Load(), want)
	}
	if len(s.sharers.m) != 0 {
		t.Errorf("%d sharers are left when nothing is under way", len(s.sharers.m))
	}
}

// Never one too many: hundreds of callers of two instances, with lists of one and of
// two limits, are let through as often as there is room, and no two are told that the
// same remains.
func TestCrowdsNeverAboveTheLimit(t *testing.T) {
	r := redistest.Start(t)
	const limit, callers, each = 700, 128, 8
	for _, limits := range [][]caudal.Limit{
		{caudal.PerDay(limit)}, {caudal.Per(limit, caudal.Year).WithBurst(limit)}, {caudal.PerDay(1).WithQueue(limit-1, 0)},
		{caudal.PerDay(limit).With(caudal.FixedWindow)}, {caudal.PerDay(limit).With(caudal.SlidingWindow)}, {caudal.PerDay(limit).With(caudal.SlidingLog)},
		{caudal.PerDay(limit).With(caudal.SlidingLog), caudal.PerDay(2 * limit).With(caudal.SlidingWindow)},
	} {
		prefix := limits[0].String() + strings.Repeat("+", len(limits)) + ":"
		stores := []*Store{opened(t, r.URL(), Options{Prefix: prefix}), opened(t, r.URL(), Options{Prefix: prefix})}
		var calls []caudal.Call
		for _, l := range limits {
			calls = append(calls, caudal.Call{Limit: compiled(t, l, l.String()), Key: []byte("hot"), Cost: 1})
		}
		var mu sync.Mutex
		told, denied := map[uint64]int{}, 0
		var wg sync.WaitGroup
		for c := range 2 * callers {
			wg.Go(func() {
				for range each {
					out := make([]caudal.Decision, len(calls))
					if err := stores[c%2].Take(context.Background(), caudal.Instant{}, append([]caudal.Call(nil), calls...), out); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if caudal.Judge(calls, out).Allowed {
						told[out[0].Remaining]++
					} else {
						denied++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(told) != limit || denied != 2*callers*each-limit {
			t.Errorf("%v: %d different remainders, %d denied; want %d and %d", limits, len(told), denied, limit, 2*callers*each-limit)
		}
	}
}
