package httplimit

import (
	"fmt"
	"math"
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
// leave no goroutine and no memory behind.
func TestC46ReloadsUnderLoad(t *testing.T) {
	const limit = "unit: year, algorithm: fixed_window, requests_per_unit: 4000000000"
	d := rules(t, "domain: d\ndescriptors: [{key: user, rate_limit: {"+limit+"}}]\n", nil, Options{Clock: newClock()})
	var passed atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
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
	reload := func(i int) {
		// Each has another rule beside, which must be gone with the next.
		set, _, err := rule.Parse("r.yaml", fmt.Appendf(nil, "domain: d\ndescriptors: [{key: user, rate_limit: {%s}}, {key: user, value: n%d, rate_limit: {%s}}]\n", limit, i, limit))
		if err != nil {
			t.Error(err)
			return
		}
		domain, err := set.Default()
		if err != nil {
			t.Error(err)
			return
		}
		d.SetDomain(domain)
	}
	reload(0)
	goroutines, heap := runtime.NumGoroutine(), liveHeap()
	for i := range 500 {
		reload(i)
	}
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("%d goroutines after 500 reloads, %d after the first", got, goroutines)
	}
	if got := liveHeap(); got > heap+1<<20 {
		t.Errorf("%d bytes live after 500 reloads, %d after the first", got, heap)
	}
	close(stop)
	clients.Wait()
	o := d.DecideRequest(t.Context(), someone{"user": "u"})
	defer o.Release()
	if used := 4_000_000_000 - int64(o.Decisions[0].Remaining) - 1; used != passed.Load() {
		t.Errorf("%d calls passed and %d were counted", passed.Load(), used)
	}
}

// liveHeap gives what is live: the least of several looks, as the clients go on
// making garbage between a collection and the look after it.
func liveHeap() uint64 {
	least := uint64(math.MaxUint64)
	for range 5 {
		runtime.GC()
		runtime.GC() // what the first one's pools let go
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
	}
	return least
}
