package failover

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// turnBook writes down when calls leave a leaky bucket, by instance.
type turnBook struct {
	mu    sync.Mutex
	begun time.Time
	by    map[int][]time.Duration
}

func (b *turnBook) note(instance int, delay time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.by[instance] = append(b.by[instance], time.Since(b.begun)+delay)
}

// worst gives the most turns in any half-open second, and the second.
func (b *turnBook) worst() (most int, at time.Duration) {
	var all []time.Duration
	for _, turns := range b.by {
		all = append(all, turns...)
	}
	slices.Sort(all)
	from := 0
	for i, t := range all {
		for all[from]+time.Second <= t {
			from++
		}
		if n := i - from + 1; n > most {
			most, at = n, all[from]
		}
	}
	return most, at
}

// closest gives the least distance between two turns of one instance.
func (b *turnBook) closest() (least, at time.Duration) {
	least = time.Hour
	for _, turns := range b.by {
		slices.Sort(turns)
		for i := 1; i < len(turns); i++ {
			if d := turns[i] - turns[i-1]; d < least {
				least, at = d, turns[i]
			}
		}
	}
	return least, at
}

// TestLeakyBucketIsHandedOverBothWays: instances that share a leaky bucket of
// 50/s, all of them with more calls than it lets through; the store goes and comes
// back. What the bucket protects never gets more than the rate and one call per
// instance in any second, and no instance's turns are closer than 20 ms.
func TestLeakyBucketIsHandedOverBothWays(t *testing.T) {
	for _, tt := range []struct {
		name      string
		limit     string
		instances int
		every     time.Duration // each instance's calls
		fault     int
	}{
		{"one, overrun", "50/s leaky_bucket queue 60", 1, 5 * ms, 0},
		{"two, overrun", "50/s leaky_bucket queue 60", 2, 5 * ms, 0},
		{"two, overrun, never answers", "50/s leaky_bucket queue 60", 2, 5 * ms, 1},
		{"two, at the rate", "50/s leaky_bucket queue 60", 2, 40 * ms, 0},
		{"two, idle", "50/s leaky_bucket queue 60", 2, 300 * ms, 0},
		{"two, no queue", "50/s leaky_bucket queue 0", 2, 3 * ms, 0},
		{"two, max_wait", "50/s leaky_bucket queue 600 max_wait 700ms", 2, 5 * ms, 0},
		{"three, queue that does not divide", "50/s leaky_bucket queue 61", 3, 5 * ms, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFake(nil)
				book := &turnBook{begun: time.Now(), by: map[int][]time.Duration{}}
				l := limit(t, tt.limit)
				var all sync.WaitGroup
				for i := range tt.instances {
					s := New(store, Options{ExpectedInstances: tt.instances})
					defer mustClose(t, s)
					all.Go(func() {
						time.Sleep(time.Duration(i) * ms)
						callers(t, s, l, tt.every, 12*time.Second, func(d caudal.Decision, took time.Duration) {
							if d.Allowed {
								book.note(i, d.Delay)
							}
						})
					})
				}
				time.Sleep(4 * time.Second)
				store.set(faults[tt.fault].fault(nil))
				time.Sleep(4 * time.Second)
				store.set(nil)
				all.Wait()
				if least, at := book.closest(); least < 20*ms {
					t.Errorf("two turns of one instance are %s apart, at %s, want at least 20ms", least, at)
				}
				if most, at := book.worst(); most > 50+tt.instances {
					t.Errorf("%d calls left in the second from %s, want at most %d", most, at, 50+tt.instances)
				}
			})
		})
	}
}

// TestLocalTurnIsBehindOwnSharedTurns: a single instance knows every turn that is
// outstanding. The first local turn is one interval behind the last, not a queue.
func TestLocalTurnIsBehindOwnSharedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{})
		defer mustClose(t, s)
		l := limit(t, "10/s leaky_bucket queue 20")
		for n := range 5 { // turns at 0 to 400 ms
			if d := take(t, s, l, "k"); d.Delay != time.Duration(n)*100*ms {
				t.Fatalf("shared call %d: %s", n+1, show(d))
			}
		}
		store.set(fails(errRefused))
		if d := take(t, s, l, "k"); !d.Degraded || d.Delay != 500*ms {
			t.Errorf("the first local call: %s, want its turn after 500ms", show(d))
		}
		if d := takeN(t, s, l, "other", 3); !d.Degraded || d.Delay != 0 {
			t.Errorf("the first call of another key: %s, want its turn at once", show(d))
		}
		degraded(t, s)
		if d := take(t, s, l, "k"); d.Delay != 600*ms {
			t.Errorf("the second local call: %s, want its turn after 600ms", show(d))
		}
		store.set(nil)
		for s.Degraded() {
			time.Sleep(ms)
		}
		gone := time.Since(s.State().Since) // what has passed is less to wait
		d := take(t, s, l, "k")
		if d.Degraded || d.Delay > 700*ms-gone || d.Delay < 600*ms {
			t.Errorf("the first shared call: %s, want one interval behind the last local turn", show(d))
		}
		if next := take(t, s, l, "k"); next.Delay != d.Delay+100*ms {
			t.Errorf("the next: %s, want 100ms behind %s", show(next), d.Delay)
		}
		if d := take(t, s, l, "other"); d.Degraded || d.Delay > 300*ms || d.Delay < 200*ms {
			t.Errorf("the other key: %s, want behind its three local turns", show(d))
		}
	})
}

// TestHiccupDoesNotFillTheQueue: of two instances, one call that is not answered
// in time gets a turn of its own, and is not treated as if the queue were full.
func TestHiccupDoesNotFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake(nil)
		s := New(store, Options{ExpectedInstances: 2})
		defer mustClose(t, s)
		time.Sleep(time.Second)
		l := limit(t, "10/s leaky_bucket queue 20")
		store.set(fails(errRefused))
		d := take(t, s, l, "k")
		store.set(nil)
		if !d.Allowed || !d.Degraded || d.Delay != 0 {
			t.Errorf("during the hiccup: %s, want a turn at once", show(d))
		}
		if d := take(t, s, l, "k"); d.Degraded || d.Delay != 2*100*ms+DefaultProbeInterval {
			t.Errorf("after it: %s, want one interval behind", show(d))
		}
	})
}

// TestTurnsAreBounded: what is forgotten still holds.
func TestTurnsAreBounded(t *testing.T) {
	turns := newTurns()
	const far = 1_000_000
	n := 2 * turnShards * maxTurns
	key := func(i int) keyhash.Hash { return keyhash.Hash{Lo: uint64(i)} }
	for i := range n {
		turns.note(key(i), 0, turn{next: far + int64(i), instances: i % 2})
	}
	held := 0
	for i := range turns.shards {
		held += len(turns.shards[i].m)
	}
	if held > turnShards*maxTurns {
		t.Errorf("%d turns are held, want at most %d", held, turnShards*maxTurns)
	}
	for i := range n {
		u, known := turns.last(key(i), 0)
		if !known && turns.forgotten[i%2].Load() < far+int64(i) {
			t.Fatalf("turn %d is forgotten, and what stands for it is %d", i, turns.forgotten[i%2].Load())
		}
		if known && u.next != far+int64(i) {
			t.Fatalf("turn %d is held as %d", i, u.next)
		}
	}
	for i := range n { // none of them matters any more: all make room
		turns.note(key(n+i), 10*far, turn{next: 20 * far})
	}
	if mark := turns.forgotten[0].Load(); mark >= 20*far && held == 0 {
		t.Errorf("turns ahead were forgotten although old ones could be: %d", mark)
	}
	turns.note(key(1), 0, turn{next: 50 * far})
	turns.note(key(1), 0, turn{next: 40 * far, instances: 2})
	if u, _ := turns.last(key(1), 0); u.next != 50*far || u.instances != 0 {
		t.Errorf("an earlier turn replaced a later one: %+v", u)
	}
}
