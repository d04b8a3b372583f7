package algorithm_test

import (
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
)

func TestLeakyBucket50PerSecondQueue60(t *testing.T) {
	c, m := compile(t, parse(t, "50/s leaky_bucket queue 60")), &machine{kind: caudal.LeakyBucket}
	for i := range 100 {
		d := m.take(c, epochStart, 1)
		want := caudal.Decision{Limit: 61, Receipt: d.Receipt, ResetAfter: time.Duration(min(i+1, 61)) * 20 * time.Millisecond}
		if i < 61 {
			want.Allowed, want.Charged = true, true
			want.Remaining, want.Delay = uint64(60-i), time.Duration(i)*20*time.Millisecond
		} else {
			want.RetryAfter = 20 * time.Millisecond
		}
		if d != want {
			t.Errorf("call %d at once\n got %+v\nwant %+v", i+1, d, want)
		}
	}
}

// TestLeakyBucketTurnsNeverCloserThan20ms lets calls come at odd instants.
func TestLeakyBucketTurnsNeverCloserThan20ms(t *testing.T) {
	c, m := compile(t, parse(t, "50/s leaky_bucket queue 5")), &machine{kind: caudal.LeakyBucket}
	last := int64(-1 << 62)
	for now := int64(0); now < 3_000_000; now += 1 + now*7919%13_337 {
		d := m.take(c, epochStart+now, 1)
		if leaves := now + d.Delay.Microseconds(); d.Allowed {
			if leaves-last < 20_000 {
				t.Fatalf("a call leaves at %d us, another at %d us", last, leaves)
			}
			last = leaves
		}
	}
}

func TestLeakyBucketMaxWaitIsAccepted(t *testing.T) {
	runTimeline(t, "10/s leaky_bucket queue 100 max_wait 200ms", epochStart, []event{
		{cost: 1, times: 3, remaining: 0, reset: "300ms", delay: "200ms"},
		{cost: 1, denied: true, retry: "100ms", reset: "300ms"},
		{cost: 4, denied: true, never: true, remaining: 0, reset: "300ms"},
		{at: "99.999ms", cost: 1, denied: true, retry: "1us", reset: "200.001ms"},
		{at: "100ms", cost: 1, remaining: 0, reset: "300ms", delay: "200ms"},
	})
}

func TestLeakyBucketQueueZeroOnlySpaces(t *testing.T) {
	runTimeline(t, "10/s leaky_bucket queue 0", epochStart, []event{
		{cost: 1, remaining: 0, reset: "100ms"},
		{cost: 1, denied: true, retry: "100ms", reset: "100ms"},
		{at: "100ms", cost: 1, remaining: 0, reset: "100ms"},
		{at: "250ms", cost: 1, remaining: 0, reset: "100ms"},
	})
}

func TestLeakyBucketCostTakesConsecutiveTurns(t *testing.T) {
	runTimeline(t, "10/s leaky_bucket queue 9", epochStart, []event{
		{cost: 4, remaining: 6, reset: "400ms"},
		{cost: 3, remaining: 3, reset: "700ms", delay: "400ms"},
		{cost: 4, denied: true, remaining: 3, retry: "100ms", reset: "700ms"},
		{at: "100ms", cost: 4, remaining: 0, reset: "1s", delay: "600ms"},
	})
}

// TestLeakyBucketFractionalTurns: at 7 per second turns are 142857 1/7 us apart.
// Told turns are rounded up, but nothing adds up: the 7000th is at 1000 s.
func TestLeakyBucketFractionalTurns(t *testing.T) {
	c, m := compile(t, parse(t, "7/s leaky_bucket queue 7000")), &machine{kind: caudal.LeakyBucket}
	for i := range int64(7001) {
		d := m.take(c, epochStart, 1)
		if want := (i*1_000_000 + 6) / 7; d.Delay.Microseconds() != want {
			t.Fatalf("turn %d is %d us ahead, want %d", i, d.Delay.Microseconds(), want)
		}
	}
	if d := m.take(c, epochStart, 1); d.Allowed || d.RetryAfter != 142_858*time.Microsecond {
		t.Errorf("one more: %+v, want denied with a retry of 142858us", d)
	}
}

func TestC21LeakyBucketOnePerTenSeconds(t *testing.T) {
	runTimeline(t, "1/10s leaky_bucket queue 0", epochStart, []event{
		{cost: 1, remaining: 0, reset: "10s"},
		{at: "2s", cost: 1, denied: true, retry: "8s", reset: "8s"},
		{at: "10s", cost: 1, remaining: 0, reset: "10s"},
	})
}

func TestLeakyBucketAtTheLargestRateAndQueue(t *testing.T) {
	runTimeline(t, "4294967295/s leaky_bucket queue 4294967295", epochStart, []event{
		{cost: 4294967295, remaining: 1, reset: "1s"},
		{cost: 1, remaining: 0, reset: "1.000001s", delay: "1s"},
		{cost: 1, denied: true, retry: "1us", reset: "1.000001s"},
		{at: "1us", cost: 4294, remaining: 0, reset: "1.000001s", delay: "1s"}, // 4294.97 turns go by in a microsecond
	})
}

// TestLeakyBucketQueueTooLongForTime: the queue in time does not fit an int64,
// but max_wait bounds it.
func TestLeakyBucketQueueTooLongForTime(t *testing.T) {
	runTimeline(t, "1/year leaky_bucket queue 4294967295 max_wait 10s", epochStart, []event{
		{cost: 1, remaining: 0, reset: "8759h59m50s"},
		{cost: 1, denied: true, retry: "8759h59m50s", reset: "8759h59m50s"},
		{at: "8759h59m50s", cost: 1, remaining: 0, reset: "8760h", delay: "10s"},
	})
	runTimeline(t, "1/h leaky_bucket queue 9", epochStart, []event{ // so many turns would be 490 000 years
		{cost: 5, remaining: 5, reset: "5h"},
		{at: "1m", credit: 4294967295, remaining: 10},
	})
}

func TestC39CancelHeadMiddleAndTail(t *testing.T) {
	const limit = "1/s leaky_bucket queue 3"
	t.Run("head", func(t *testing.T) {
		runTimeline(t, limit, epochStart, []event{
			{cost: 1, remaining: 3, reset: "1s"},
			{cost: 1, as: "head", remaining: 2, reset: "2s", delay: "1s"},
			{cost: 2, remaining: 0, reset: "4s", delay: "2s"},
			{at: "500ms", refund: "head", cost: 1, remaining: 0, reset: "3.5s", delay: "500ms"},
		})
	})
	t.Run("middle", func(t *testing.T) {
		runTimeline(t, limit, epochStart, []event{
			{cost: 1, times: 2, remaining: 2, reset: "2s", delay: "1s"},
			{cost: 1, as: "middle", remaining: 1, reset: "3s", delay: "2s"},
			{cost: 1, remaining: 0, reset: "4s", delay: "3s"},
			{at: "500ms", refund: "middle", cost: 2, denied: true, remaining: 1, retry: "1.5s", reset: "3.5s"},
			{at: "500ms", cost: 1, remaining: 0, reset: "3.5s", delay: "1.5s"},
		})
	})
	t.Run("tail", func(t *testing.T) {
		runTimeline(t, limit, epochStart, []event{
			{cost: 1, times: 3, remaining: 1, reset: "3s", delay: "2s"},
			{cost: 1, as: "tail", remaining: 0, reset: "4s", delay: "3s"},
			{at: "500ms", refund: "tail", cost: 1, remaining: 0, reset: "3.5s", delay: "2.5s"},
		})
	})
	t.Run("the last, after its turn has come", func(t *testing.T) {
		runTimeline(t, limit, epochStart, []event{
			{cost: 1, remaining: 3, reset: "1s"},
			{cost: 1, as: "tail", remaining: 2, reset: "2s", delay: "1s"},
			{at: "1.2s", refund: "tail", cost: 1, remaining: 3, reset: "1s"},
		})
	})
	t.Run("one that has passed is lost", func(t *testing.T) {
		runTimeline(t, limit, epochStart, []event{
			{cost: 1, remaining: 3, reset: "1s"},
			{cost: 1, as: "second", remaining: 2, reset: "2s", delay: "1s"},
			{cost: 1, remaining: 1, reset: "3s", delay: "2s"},
			{at: "1.000001s", refund: "second", cost: 1, remaining: 1, reset: "2.999999s", delay: "1.999999s"},
		})
	})
}

// TestLeakyBucketChangedRate: turns given stand, and new ones are spaced from the
// last at the present rate; its fraction is rounded up to one of the new rate.
func TestLeakyBucketChangedRate(t *testing.T) {
	runTimeline(t, "3/s leaky_bucket queue 9", epochStart, []event{
		{cost: 2, remaining: 8, reset: "666667us"}, // last at 1/3 s
		{limit: "1/s leaky_bucket queue 3", cost: 1, remaining: 1, reset: "2.333334s", delay: "1.333334s"},
		{limit: "3/s leaky_bucket queue 9", cost: 1, remaining: 3, reset: "2000001us", delay: "1666668us"},
	})
}

func TestLeakyBucketFreedTurnBeyondALoweredQueue(t *testing.T) {
	runTimeline(t, "1/s leaky_bucket queue 5", epochStart, []event{
		{cost: 1, times: 4, remaining: 2, reset: "4s", delay: "3s"},
		{cost: 1, as: "freed", remaining: 1, reset: "5s", delay: "4s"},
		{cost: 1, remaining: 0, reset: "6s", delay: "5s"},
		{refund: "freed", limit: "1/s leaky_bucket queue 1", cost: 1, denied: true, retry: "3s", reset: "6s"},
		{at: "3s", cost: 1, remaining: 0, reset: "3s", delay: "1s"},
	})
}

// TestLeakyBucketFreedTurnsAreBounded: cancelling without end takes no memory
// without end.
func TestLeakyBucketFreedTurnsAreBounded(t *testing.T) {
	c := compile(t, parse(t, "1/s leaky_bucket queue 5000"))
	var s algorithm.LeakyBucket
	var receipts []caudal.Receipt
	for range 5000 {
		var d caudal.Decision
		s, d = s.Take(c, epochStart, 1)
		receipts = append(receipts, d.Receipt)
	}
	for _, r := range receipts[1:4999] {
		s = s.Refund(r, epochStart, 1)
	}
	if len(s.Freed) != algorithm.MaxFreed {
		t.Errorf("after 4998 cancelled turns %d are kept, want %d", len(s.Freed), algorithm.MaxFreed)
	}
}

// A cancelled turn is still good at its very instant, and lost a microsecond
// later. Under a queue of 0 that instant is the only one at which it can be had.
func TestLeakyBucketFreedTurnAtItsInstant(t *testing.T) {
	runTimeline(t, "1/s leaky_bucket queue 2", epochStart, []event{
		{cost: 1, remaining: 2, reset: "1s"},
		{cost: 1, as: "freed", remaining: 1, reset: "2s", delay: "1s"},
		{cost: 1, remaining: 0, reset: "3s", delay: "2s"},
		{refund: "freed", limit: "1/s leaky_bucket queue 0", remaining: 0, reset: "1s"},
		{limit: "1/s leaky_bucket queue 0", cost: 1, denied: true, retry: "1s", reset: "1s"},
		{at: "1.000001s", cost: 1, denied: true, retry: "1.999999s", reset: "1.999999s"},
		{at: "1s", remaining: 1},
		{at: "1s", cost: 1, remaining: 0, reset: "2s"},
		{at: "1s", cost: 1, denied: true, retry: "2s", reset: "2s"},
	})
}
