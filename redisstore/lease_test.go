package redisstore

import (
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// table is a table of leases on a clock that the test sets.
type table struct {
	*testing.T
	x   *leases
	l   *caudal.Compiled
	h   keyhash.Hash
	now caudal.Instant
}

func newTable(t *testing.T, limit caudal.Limit) *table {
	t.Helper()
	l, err := limit.Compile("", "", caudal.WithAccuracy(caudal.Leased))
	if err != nil {
		t.Fatal(err)
	}
	return &table{t, newLeases(10), l, hashOf(l, "k"), caudal.At(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))}
}

func (t *table) pass(d time.Duration) { t.now = t.now.Add(d) }

// spend takes n calls and gives how many passed.
func (t *table) spend(n int) (passed int) {
	var d caudal.Decision
	for range n {
		if ok, _ := t.x.spend(t.h, t.l, 1, t.now, &d); ok {
			passed++
		}
	}
	return passed
}

// heat makes the key hot and gives what to ask for.
func (t *table) heat() *wanted {
	t.Helper()
	for range hotCalls - 1 {
		if w := t.x.begin(t.h, t.l, counter{1, 2}, 1, t.now); w != nil {
			t.Fatalf("begin before %d calls = %+v, want an exact call", hotCalls, w)
		}
	}
	w := t.x.begin(t.h, t.l, counter{1, 2}, 1, t.now)
	if w == nil {
		t.Fatalf("begin of call %d = nil, want a lease to ask for", hotCalls)
	}
	return w
}

// grant finishes w with n tokens, asked for so long ago. Ends says when the server
// ends it, from when it gave it.
func (t *table) grant(w *wanted, n, out uint64, took, ends time.Duration) {
	server := t.now.Wall + time.Hour.Microseconds() // another clock
	t.x.finish(w, &granted{now: server, leased: n, out: out, ends: server + ends.Microseconds(), at: server, remaining: 2 * n, reset: server + 5e6},
		t.now.Add(-took), t.now)
}

// A key is leased once it is asked often, and not by those who come while somebody
// asks.
func TestLeaseOnlyHotKeys(t *testing.T) {
	x := newTable(t, caudal.PerSecond(1000))
	for range 10 * hotCalls { // slower than hotCalls in hotSpan
		if w := x.x.begin(x.h, x.l, counter{}, 1, x.now); w != nil {
			t.Fatal("a key that is asked slowly is leased, want exact calls")
		}
		x.pass(hotSpan / (hotCalls - 2))
	}
	x.pass(time.Second)
	w := x.heat()
	if again := x.x.begin(x.h, x.l, counter{}, 1, x.now); again != nil {
		t.Error("a second caller asks for a lease while the first does, want an exact call")
	}
	x.grant(w, 5, 5, time.Millisecond, leaseLife)
	if got := x.spend(7); got != 5 {
		t.Errorf("%d of 7 calls passed on a lease of 5, want 5", got)
	}
}

// The end counts from before the lease was asked for, by the slower of both ideas of
// time, whatever the server's clock says; what is left then is not spent.
func TestLeaseEndsAsCountedFromTheQuestion(t *testing.T) {
	for _, c := range []struct {
		name string
		pass func(*table)
		want int
	}{
		{"in time", func(x *table) { x.pass(leaseLife - leaseMargin - 500*time.Millisecond - 10*time.Millisecond) }, 1},
		{"after the question's time", func(x *table) { x.pass(leaseLife - leaseMargin - 500*time.Millisecond) }, 0},
		{"a computer that slept", func(x *table) { x.now.Wall += leaseLife.Microseconds() }, 0},
	} {
		x := newTable(t, caudal.PerSecond(1000))
		x.grant(x.heat(), 5, 5, 500*time.Millisecond, leaseLife)
		c.pass(x)
		if got := x.spend(1); got != c.want {
			t.Errorf("%s: %d of 1 call passed, want %d", c.name, got, c.want)
		}
	}
	day := newTable(t, caudal.PerDay(1000).With(caudal.FixedWindow))
	day.grant(day.heat(), 5, 5, 0, time.Minute)
	day.pass(time.Minute)
	if got := day.spend(1); got != 0 {
		t.Errorf("at the end of the window %d calls passed, want none: the lease is void", got)
	}
}

// What was spent is reported once; when the answer is lost, it is not reported again,
// and what the server may have given beside is reported as spent later.
func TestLeaseReportsOnce(t *testing.T) {
	x := newTable(t, caudal.PerSecond(1000))
	x.grant(x.heat(), 100, 100, 0, leaseLife)
	x.spend(60)
	w := x.x.renew(x.h, x.now)
	if w == nil || w.spent != 60 || w.back != 0 {
		t.Fatalf("renew = %+v, want 60 spent and nothing back", w)
	}
	x.spend(10)
	x.x.finish(w, nil, x.now, x.now) // the answer was lost, and a grant of 50 with it
	if got := x.spend(5); got != 5 {
		t.Errorf("%d of 5 calls passed after a lost answer, want 5: what is here is still good", got)
	}
	x.pass(time.Second)
	w = x.x.renew(x.h, x.now)
	if w.spent != 15 {
		t.Errorf("reported %d, want the 15 since: the 60 may have arrived", w.spent)
	}
	x.grant(w, 20, 25+50+20, 0, leaseLife)
	w = x.x.renew(x.h, x.now)
	if w.spent != 50 || x.spend(100) != 45 {
		t.Errorf("reported %d, want the 50 of the lost answer; and 25 + 20 left to spend", w.spent)
	}
}

// What the server no longer has is not spent either.
func TestLeaseShrinksToWhatTheServerKnows(t *testing.T) {
	x := newTable(t, caudal.PerSecond(1000))
	x.grant(x.heat(), 100, 100, 0, leaseLife)
	x.grant(x.x.renew(x.h, x.now), 20, 20, 0, leaseLife) // FLUSHALL in between
	if got := x.spend(200); got != 20 {
		t.Errorf("%d calls passed, want the 20 that the server knows of", got)
	}
}

// A limit whose numbers change applies at once: the lease is not spent, and goes
// back with the next question. A reload of the same numbers keeps it.
func TestLeaseOfAChangedLimit(t *testing.T) {
	x := newTable(t, caudal.PerSecond(1000))
	x.grant(x.heat(), 100, 100, 0, leaseLife)
	same := newTable(t, caudal.PerSecond(1000)).l
	old := x.l
	if x.l = same; x.spend(1) != 1 {
		t.Error("a reload of the same limit lost the lease")
	}
	if x.l = newTable(t, caudal.PerSecond(10)).l; x.spend(1) != 0 {
		t.Error("a call passed on the lease of a limit that was changed")
	}
	w := x.x.begin(x.h, x.l, counter{1, 2}, 1, x.now)
	if w == nil || w.back != 99 || w.spent != 1 || w.limit != x.l {
		t.Errorf("begin with the changed limit = %+v, want 99 back and 1 spent", w)
	}
	if x.l = old; x.spend(1) != 0 {
		t.Error("a call passed on a lease that went back")
	}
}

// Windows: a grant of the next window does not carry the old one's rest along.
func TestLeaseOfAnOldWindowIsDropped(t *testing.T) {
	x := newTable(t, caudal.PerSecond(1000).With(caudal.SlidingWindow))
	x.grant(x.heat(), 100, 100, 0, time.Second)
	x.pass(900 * time.Millisecond)
	w := x.x.renew(x.h, x.now)
	x.grant(w, 30, 30, 0, time.Second)
	if got := x.spend(200); got != 30 {
		t.Errorf("%d calls passed, want the 30 of the new window", got)
	}
}

// A call that another limit denied comes back to its lease, unless the server knows
// of it already.
func TestLeaseGiveBack(t *testing.T) {
	x := newTable(t, caudal.PerSecond(1000))
	x.grant(x.heat(), 10, 10, 0, leaseLife)
	var d caudal.Decision
	x.x.spend(x.h, x.l, 4, x.now, &d)
	if !x.x.giveBack(x.h, d.Receipt) || x.spend(20) != 10 {
		t.Error("giveBack before a report lost the call's 4")
	}
	x.x.renew(x.h, x.now)
	if x.x.giveBack(x.h, d.Receipt) {
		t.Error("giveBack after the report = true, want false: only the server can")
	}
}

// What nobody wants goes back; what is old is renewed; the number of keys is
// bounded.
func TestLeaseSweep(t *testing.T) {
	x := newTable(t, caudal.PerSecond(1000))
	x.grant(x.heat(), 100, 100, 0, leaseLife)
	x.spend(30)
	if back, again := x.x.sweep(x.now, false); len(back)+len(again) != 0 {
		t.Errorf("sweep of a busy lease = %d back, %d again, want none", len(back), len(again))
	}
	x.pass(leaseIdle + time.Microsecond)
	back, _ := x.x.sweep(x.now, false)
	if len(back) != 1 || back[0].back != 70 || back[0].spent != 30 || x.x.count.Load() != 0 {
		t.Errorf("sweep of an idle lease = %+v, want 70 back and 30 spent, and the key forgotten", back)
	}
	x.grant(x.heat(), 100, 100, 0, leaseLife)
	for range 11 {
		x.pass(100 * time.Millisecond)
		x.spend(5)
	}
	_, again := x.x.sweep(x.now, false)
	if len(again) != 0 {
		t.Errorf("sweep of an old lease of a slow key: %d renewed, want it to go back", len(again))
	}
	for i := range 100 {
		h := keyhash.Hash{Hi: uint64(i) << 32, Lo: uint64(i)}
		for range hotCalls {
			x.x.begin(h, x.l, counter{uint64(i), 0}, 1, x.now)
		}
	}
	if got := x.x.count.Load(); got != 10 {
		t.Errorf("%d keys are leased, want the 10 of the bound", got)
	}
}
