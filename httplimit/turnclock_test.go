package httplimit

import (
	"testing"
	"time"
)

// TestLateAnswersDoNotShiftTurns: the store's clock is 5 s behind ours, and decides
// every 20 ms. Answers come late by more or less; once a fast one has told how far the clocks
// are apart, the instants of the decisions are as evenly spaced as they were made,
// and always between question and answer.
func TestLateAnswersDoNotShiftTurns(t *testing.T) {
	var c turnClock
	const behind = 5 * time.Second
	at := func(after time.Duration) time.Time { return epoch.Add(time.Minute + after) }
	store := func(t time.Time) int64 { return t.Add(-behind).Sub(epoch).Microseconds() }
	var last time.Time
	for i, step := range []struct{ there, back time.Duration }{
		{2 * time.Millisecond, 9 * time.Millisecond},
		{50 * time.Microsecond, 60 * time.Microsecond}, // the clocks' distance is known to 110 us
		{8 * time.Millisecond, 70 * time.Microsecond},
		{100 * time.Microsecond, 12 * time.Millisecond},
		{time.Millisecond, time.Millisecond},
		{0, 0},
		{3 * time.Millisecond, 0},
		{0, 3 * time.Millisecond},
	} {
		decided := at(time.Duration(i) * 20 * time.Millisecond)
		asked, answered := decided.Add(-step.there), decided.Add(step.back)
		got := c.decided(asked, answered, store(decided))
		if got.Before(asked) || got.After(answered) {
			t.Errorf("decision %d is taken for %s after the question and %s before the answer, want it between", i, got.Sub(asked), answered.Sub(got))
		}
		if gap := got.Sub(last) - 20*time.Millisecond; i > 1 && gap.Abs() > 110*time.Microsecond {
			t.Errorf("decision %d is %s after the one before, want 20ms to 0.11 ms", i, gap+20*time.Millisecond)
		}
		last = got
	}
	// Another store answers, with another clock: it is believed at once.
	asked, answered := at(time.Second), at(time.Second+time.Millisecond)
	if got := c.decided(asked, answered, 7); got.Before(asked) || got.After(answered) {
		t.Errorf("a decision by another clock is taken for %s after the question, want between it and the answer", got.Sub(asked))
	}
}
