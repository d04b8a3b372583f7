package algorithm_test

import (
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
)

// TestC16WindowThatCountsDenials: with TakeCounting a denied cost is counted, up
// to what a store has room for, until the window ends.
func TestC16WindowThatCountsDenials(t *testing.T) {
	l, err := caudal.PerMinute(10).With(caudal.FixedWindow).Compile("", "")
	if err != nil {
		t.Fatal(err)
	}
	const minute = 60_000_000
	var s algorithm.FixedWindow
	for i, c := range []struct {
		at             int64
		cost           uint32
		allowed, never bool
		remaining      uint64
		count          uint64
	}{
		{0, 4, true, false, 6, 4},
		{1, 7, false, false, 0, 11},
		{2, 0, false, false, 0, 11}, // a peek above the limit
		{3, 50, false, true, 0, 61},
		{4, 1<<32 - 1, false, true, 0, 1<<32 - 1},
		{5, 1, false, false, 0, 1<<32 - 1},
		{minute, 0, true, false, 10, 1<<32 - 1}, // a peek changes nothing
		{minute, 10, true, false, 0, 10},
		{minute, 0, true, false, 0, 10}, // at the limit, not above
	} {
		next, d := s.TakeCounting(l, c.at, c.cost)
		if d.Allowed != c.allowed || d.Never != c.never || d.Remaining != c.remaining || next.Count != c.count || d.Charged != (c.allowed && c.cost > 0) {
			t.Errorf("call %d: TakeCounting(%d, cost %d) = %+v, %+v, want %+v", i+1, c.at, c.cost, next, d, c)
		}
		if wait := int64(d.RetryAfter.Microseconds()); !d.Allowed && !d.Never && wait != minute-c.at {
			t.Errorf("call %d: retry after %d us, want the end of the window", i+1, wait)
		}
		s = next
	}
}
