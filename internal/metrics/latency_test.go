package metrics

import (
	"math"
	"testing"
	"time"
)

func TestTimingGivesQuantilesOfWhatCameAfter(t *testing.T) {
	calls := NewStoreCalls()
	if got := calls.Timing(); got.Count() != 0 || got.Quantile(0.5) != 0 {
		t.Errorf("Timing() before any call = %v, want none", got)
	}
	for range 100 {
		calls.Observe("take", 30*time.Millisecond, "")
	}
	before := calls.Timing()
	for range 98 {
		calls.Observe("take", 15*time.Microsecond, "")
	}
	calls.Observe("refund", 1500*time.Microsecond, "timeout")
	calls.Observe("refund", time.Minute, "timeout") // beyond all bounds
	after := calls.Timing().Since(before)
	if got := after.Count(); got != 100 {
		t.Fatalf("Since(before).Count() = %d, want 100", got)
	}
	for q, want := range map[float64]float64{0.5: 10e-6 + 10e-6*50/98, 0.99: 2e-3, 1: 50e-3} {
		if got := after.Quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
	if got := calls.Failures(); got != 2 {
		t.Errorf("Failures() = %d, want 2", got)
	}
}
