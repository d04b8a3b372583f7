package algorithm_test

import (
	"math"
	"testing"

	"github.com/caudal-dev/caudal"
)

func TestTokenBucketWorkedExampleCapacity10TwoPerSecond(t *testing.T) {
	runTimeline(t, "2/s burst 10", epochStart, []event{
		{cost: 1, times: 10, remaining: 0, reset: "5s"},
		{cost: 1, times: 5, denied: true, retry: "500ms", reset: "5s"},
		{at: "3s", cost: 1, times: 5, remaining: 1, reset: "4.5s"},
	})
}

func TestTokenBucketWorkedExampleCapacity5OnePerSecond(t *testing.T) {
	runTimeline(t, "1/s burst 5", epochStart, []event{
		{cost: 1, times: 5, remaining: 0, reset: "5s"},
		{cost: 1, denied: true, retry: "1s", reset: "5s"},
		{at: "1s", cost: 1, remaining: 0, reset: "5s"},
		{at: "1s", cost: 1, denied: true, retry: "1s", reset: "5s"},
	})
}

func TestC04TokenBucketClockStepsBack(t *testing.T) {
	runTimeline(t, "1/s burst 3", epochStart, []event{
		{at: "100s", cost: 1, remaining: 2, reset: "1s"},
		{at: "89s", cost: 2, remaining: 0, reset: "14s"},
		{at: "89s", cost: 1, denied: true, retry: "12s", reset: "14s"},
		{at: "100s", cost: 1, denied: true, retry: "1s", reset: "3s"}, // no refill for the time that came twice
		{at: "101s", cost: 1, remaining: 0, reset: "3s"},
	})
}

func TestC06TokenBucketTwoNodesWithDifferentClocks(t *testing.T) {
	runTimeline(t, "10/s", epochStart, []event{
		{at: "1000s", cost: 1, remaining: 9, reset: "100ms"},
		{at: "999.4s", cost: 1, remaining: 8, reset: "800ms"},
		{at: "1000s", remaining: 8, reset: "200ms"},
	})
}

func TestC11TokenBucketPollingKeepsFractions(t *testing.T) {
	c, m := compile(t, parse(t, "10/30s")), &machine{kind: caudal.TokenBucket}
	passed := 0
	for second := range int64(32) {
		for m.take(c, epochStart+second*1_000_000, 1).Allowed {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("10 per 30 s polled each second for 31 s: %d passed, want 10 + floor(31/3)", passed)
	}
	runTimeline(t, "2/s burst 10", epochStart, []event{
		{cost: 1, remaining: 9, reset: "500ms"},
		{at: "600ms", cost: 10, remaining: 0, reset: "5s"},
	})
}

func TestC12TokenBucketIdleFor12Hours(t *testing.T) {
	runTimeline(t, "1000000/s", epochStart, []event{
		{cost: 1000000, remaining: 0, reset: "1s"},
		{at: "12h", remaining: 1000000},
		{at: "12h", cost: 1000000, remaining: 0, reset: "1s"},
	})
}

func TestC91TokenBucketBurstPlusRefillInOnePeriod(t *testing.T) {
	for _, tt := range []struct {
		limit string
		want  int // of one call every 3 s from 0 s on, before 60 s
	}{
		{"10/m", 19}, // a call comes each 3 s and a token each 6 s: the 20th passes at 60 s
		{"10/m sliding_log", 10},
	} {
		l := parse(t, tt.limit)
		c, m, passed := compile(t, l), &machine{kind: l.Algorithm}, 0
		for second := int64(0); second < 60; second += 3 {
			if m.take(c, epochStart+second*1_000_000, 1).Allowed {
				passed++
			}
		}
		if passed != tt.want {
			t.Errorf("%s, one call every 3 s: %d passed in [0 s, 60 s), want %d", tt.limit, passed, tt.want)
		}
	}
}

// A lowered burst clamps what was consumed: as if it had been the lower one since
// the last charge, so that the wait that a denial names is exact although the
// denial changes nothing.
func TestC49TokenBucketChangedNumbers(t *testing.T) {
	runTimeline(t, "10/m", epochStart, []event{
		{cost: 8, remaining: 2, reset: "48s"},
		{limit: "20/m", remaining: 12, reset: "24s"},
		{limit: "5/m", remaining: 0, reset: "1m"},
		{limit: "5/m", cost: 1, denied: true, retry: "12s", reset: "1m"},
		{limit: "10/m", remaining: 2, reset: "48s"},
		{at: "12s", limit: "5/m", cost: 1, remaining: 0, reset: "1m"},
	})
}

// TestTokenBucketTicks: beyond a day a bucket counts in milliseconds, beyond 34
// years in seconds; waits end on a tick, and are exact there.
func TestTokenBucketTicks(t *testing.T) {
	runTimeline(t, "7/2d burst 1", epochStart, []event{
		{at: "0.0009s", cost: 1, remaining: 0, reset: "6h51m25.7141s"}, // ceil(172800000 / 7) ms from tick 0
		{at: "6h51m25.714999s", cost: 1, denied: true, retry: "1us", reset: "1us"},
		{at: "6h51m25.715s", cost: 1, remaining: 0, reset: "6h51m25.715s"},
	})
	runTimeline(t, "1/40 years", epochStart, []event{
		{cost: 1, remaining: 0, reset: "350400h"},
		{at: "350399h59m59.999999s", cost: 1, denied: true, retry: "1us", reset: "1us"},
		{at: "350400h", cost: 1, remaining: 0, reset: "350400h"},
	})
	runTimeline(t, "7/d burst 1", epochStart, []event{ // a day is still exact to the microsecond
		{cost: 1, remaining: 0, reset: "3h25m42.857143s"},
		{at: "3h25m42.857142s", cost: 1, denied: true, retry: "1us", reset: "1us"},
	})
}

// TestTokenBucketOddRates refills at each rate for a while that is a whole number
// of tokens, in steps that are not, and finds not one more or less.
func TestTokenBucketOddRates(t *testing.T) {
	for _, tt := range []struct {
		limit  string
		tokens uint32
		micros int64 // in which they come back
	}{
		{"1/h burst 1000", 1000, 1000 * 3600e6},
		{"10/13s burst 1000", 1000, 1300e6},
		{"65535/s burst 655350", 655350, 10e6},
		{"1000000/s burst 1000000", 999999, 999999},
		{"4294967295/s", math.MaxUint32, 1e6},
		{"1/year burst 100", 100, 100 * 365 * 86400e6},
		{"4294967295/d", math.MaxUint32, 86400e6},
	} {
		l := parse(t, tt.limit)
		c, m := compile(t, l), &machine{kind: caudal.TokenBucket}
		for charge := uint64(l.Capacity()); charge > 0; charge -= min(charge, math.MaxUint32) {
			m.take(c, epochStart, uint32(min(charge, math.MaxUint32)))
		}
		for part := range int64(100) {
			m.ask(c, epochStart+tt.micros*part/100, 1)
		}
		if d := m.ask(c, epochStart+tt.micros, 0); d.Remaining != uint64(tt.tokens) {
			t.Errorf("%s emptied, after %d us: %d remain, want %d", tt.limit, tt.micros, d.Remaining, tt.tokens)
		}
		if d := m.ask(c, epochStart+tt.micros-c.Tick(), 0); d.Remaining != uint64(tt.tokens)-1 && l.Requests < 1_000_000 {
			t.Errorf("%s emptied, a tick before: %d remain, want %d", tt.limit, d.Remaining, tt.tokens-1)
		}
	}
}

// What such a bucket has consumed needs two machine words. A lowered burst clamps
// it there too.
func TestTokenBucketOfTwoWords(t *testing.T) {
	runTimeline(t, "4294967295/year", epochStart, []event{
		{cost: 4294967295, remaining: 0, reset: "8760h"},
		{cost: 1, denied: true, retry: "8ms", reset: "8760h"}, // 7.3 ms, on a tick
		{limit: "4294967295/year burst 2000000000", cost: 1, denied: true, retry: "8ms", reset: "14685094.36s"},
		{at: "8ms", limit: "4294967295/year burst 2000000000", cost: 1, remaining: 0, reset: "14685094.36s"},
		{at: "8760h", limit: "4294967295/year", cost: 4294967295, remaining: 0, reset: "8760h"},
	})
	runTimeline(t, "4294967295/year", epochStart, []event{
		{cost: 4294967295, remaining: 0, reset: "8760h"},
		{limit: "4294967295/year burst 5", cost: 1, denied: true, retry: "8ms", reset: "37ms"}, // from two words to one
		{at: "37ms", limit: "4294967295/year burst 5", remaining: 5},
		{limit: "4294967295/year", remaining: 0, reset: "8760h"},
	})
}
