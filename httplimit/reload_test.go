package httplimit

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/rule"
)

type someone map[string]string

func (s someone) Attribute(name string) (string, bool) { v, ok := s[name]; return v, ok }
func (s someone) Address() netip.Addr                  { return netip.Addr{} }

// take makes n calls and counts those that pass.
func take(t *testing.T, d *Decider, n int) (passed int) {
	t.Helper()
	for range n {
		o := d.DecideRequest(t.Context(), someone{"user": "u"})
		if o.Action == Pass {
			passed++
		}
		o.Release()
	}
	return passed
}

func domainOf(t *testing.T, limit string) *rule.Domain {
	t.Helper()
	set, _, err := rule.Parse("r.yaml", []byte("domain: d\ndescriptors: [{key: user, rate_limit: {"+limit+"}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	return domain
}

// TestC49ReloadKeepsWhatWasUsed: numbers apply at once, and what was consumed
// stays; also when the rule was away for a while, as long as its store remembers.
func TestC49ReloadKeepsWhatWasUsed(t *testing.T) {
	const ten = "unit: minute, algorithm: fixed_window, requests_per_unit: 10"
	for _, c := range []struct {
		name, then string
		left       int
	}{
		{"the same", ten, 2},
		{"raised", "unit: minute, algorithm: fixed_window, requests_per_unit: 20", 12},
		{"lowered", "unit: minute, algorithm: fixed_window, requests_per_unit: 5", 0},
		{"another period", "unit: hour, algorithm: fixed_window, requests_per_unit: 10", 10},
		{"another algorithm", "unit: minute, algorithm: sliding_log, requests_per_unit: 10", 10},
	} {
		d := rules(t, "domain: d\ndescriptors: [{key: user, rate_limit: {"+ten+"}}]\n", nil, Options{Clock: newClock()})
		if got := take(t, d, 8); got != 8 {
			t.Fatalf("%d of 8 passed at first", got)
		}
		d.SetDomain(domainOf(t, c.then))
		if got := take(t, d, 30); got != c.left {
			t.Errorf("%s: %d passed after the reload, want %d", c.name, got, c.left)
		}
	}
	clock := newClock()
	d := rules(t, "domain: d\ndescriptors: [{key: user, rate_limit: {"+ten+"}}]\n", nil, Options{Clock: clock})
	take(t, d, 10)
	d.SetDomain(domainOf(t, "unit: minute, algorithm: fixed_window, requests_per_unit: 5"))
	clock.advance(time.Minute)
	if got := take(t, d, 30); got != 5 {
		t.Errorf("in the next window %d passed, want 5", got)
	}
}

// TestC50RaisedLimitHelpsAtOnce: denied calls were not counted.
func TestC50RaisedLimitHelpsAtOnce(t *testing.T) {
	d := rules(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: hour, algorithm: fixed_window, requests_per_unit: 10}}]\n", nil, Options{Clock: newClock()})
	if got := take(t, d, 50); got != 10 {
		t.Fatalf("%d of 50 passed, want 10", got)
	}
	d.SetDomain(domainOf(t, "unit: hour, algorithm: fixed_window, requests_per_unit: 20"))
	if got := take(t, d, 50); got != 10 {
		t.Errorf("%d more passed, want 10", got)
	}
}

// TestC46ReloadsUnderLoad: 500 reloads while four clients call lose no count, and
// leave no goroutine and no memory behind. What is live is looked at while nobody
// calls, as a collection beside callers keeps what they made meanwhile.
func TestC46ReloadsUnderLoad(t *testing.T) {
	const limit = "unit: year, algorithm: fixed_window, requests_per_unit: 4000000000"
	d := rules(t, "domain: d\ndescriptors: [{key: user, rate_limit: {"+limit+"}}]\n", nil, Options{Clock: newClock()})
	var passed int64
	reload := func(i int) {
		// Each has other rules beside, which must be gone with the next.
		d.SetDomain(crowdedDomain(t, limit, i))
	}
	reload(0)
	passed += callWhile(t, d, func() {})
	goroutines, heap := runtime.NumGoroutine(), liveHeap()
	passed += callWhile(t, d, func() {
		for i := range 500 {
			reload(i)
		}
	})
	// A client that is done may not have ended yet.
	for until := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(until); {
		runtime.Gosched()
	}
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("%d goroutines after 500 reloads, %d after the first", got, goroutines)
	}
	// Far less than 500 sets of 20 rules take (15 MB).
	if got := liveHeap(); got > heap+2<<20 {
		t.Errorf("%d bytes live after 500 reloads, %d after the first", got, heap)
	}
	o := d.DecideRequest(t.Context(), someone{"user": "u"})
	defer o.Release()
	if used := 4_000_000_000 - int64(o.Decisions[0].Remaining) - 1; used != passed {
		t.Errorf("%d calls passed and %d were counted", passed, used)
	}
}

// crowdedDomain gives a domain with a limit for each user, and 20 rules whose names
// no other number gives.
func crowdedDomain(t *testing.T, limit string, n int) *rule.Domain {
	t.Helper()
	text := fmt.Appendf(nil, "domain: d\ndescriptors:\n- {key: user, rate_limit: {%s}}\n", limit)
	for i := range 20 {
		text = fmt.Appendf(text, "- {key: user, value: n%d-%d, rate_limit: {%s}}\n", n, i, limit)
	}
	set, _, err := rule.Parse("r.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	return domain
}

// callWhile lets four clients call until f has returned and each has called, and
// gives how many calls passed.
func callWhile(t *testing.T, d *Decider, f func()) int64 {
	t.Helper()
	var passed atomic.Int64
	var clients sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		clients.Go(func() {
			for over := false; !over; {
				select {
				case <-done:
					over = true
				default:
				}
				o := d.DecideRequest(t.Context(), someone{"user": "u"})
				if o.Action == Pass {
					passed.Add(1)
				}
				o.Release()
			}
		})
	}
	f()
	close(done)
	clients.Wait()
	return passed.Load()
}

// liveHeap gives what is live.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one's pools let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
