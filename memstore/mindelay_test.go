package memstore_test

import (
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

// TestMinDelay: a leaky bucket gives no turn sooner than the call asks, in a batch
// of one and in one of many; later calls are behind it. Other algorithms ignore it.
func TestMinDelay(t *testing.T) {
	queue, err := caudal.PerSecond(10).WithQueue(20, 0).Compile("", "queue")
	if err != nil {
		t.Fatal(err)
	}
	other, err := caudal.PerSecond(10).Compile("", "other")
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	store, at := memstore.New(memstore.Options{}), caudal.At(time.Unix(1_700_000_000, 0))
	call := func(min time.Duration, l *caudal.Compiled) caudal.Call {
		return caudal.Call{Limit: l, Key: []byte("k"), Cost: 1, MinDelay: min}
	}
	for i, step := range []struct {
		calls []caudal.Call
		delay time.Duration
		ok    bool
	}{
		{[]caudal.Call{call(250*ms, queue)}, 250 * ms, true},
		{[]caudal.Call{call(0, queue)}, 350 * ms, true},
		{[]caudal.Call{call(600*ms, queue), call(time.Hour, other)}, 600 * ms, true},
		{[]caudal.Call{call(2001*ms, queue), call(0, other)}, 0, false},
		{[]caudal.Call{call(0, queue)}, 700 * ms, true},
		{[]caudal.Call{call(10*ms, queue)}, 800 * ms, true},
	} {
		out := make([]caudal.Decision, len(step.calls))
		if err := store.Take(t.Context(), at, step.calls, out); err != nil {
			t.Fatal(err)
		}
		if d := out[0]; d.Allowed != step.ok || d.Delay != step.delay || !step.ok && d.RetryAfter != ms {
			t.Errorf("step %d: allowed %v after %s, retry %s; want %v, %s", i, d.Allowed, d.Delay, d.RetryAfter, step.ok, step.delay)
		}
	}
	d, err := store.TakeKey(t.Context(), at, other, "k", 0)
	if err != nil || d.Remaining != 9 {
		t.Errorf("the other limit: %d remaining, error %v; want 9", d.Remaining, err)
	}
}
