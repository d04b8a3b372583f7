package algorithm_test

import (
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

// These are the choices that people ask about, each with the algorithm that fits
// and what happens.

// An API of 1000 calls an hour that tolerates bursts: a token bucket. A burst of
// 100 passes at once, then a call each 3.6 s; nobody gets 1000 in a moment.
func TestChoice1000AnHourToleratingBursts(t *testing.T) {
	runTimeline(t, "1000/h burst 100", epochStart, []event{
		{cost: 1, times: 100, remaining: 0, reset: "6m"},
		{cost: 1, denied: true, retry: "3.6s", reset: "6m"},
		{at: "3.6s", cost: 1, remaining: 0, reset: "6m"},
		{at: "3m3.6s", cost: 1, times: 50, remaining: 0, reset: "6m"},
	})
	c, m, passed := compile(t, parse(t, "1000/h burst 100")), &machine{kind: caudal.TokenBucket}, 0
	for now := int64(0); now < 3600e6; now += 100_000 {
		if m.take(c, epochStart+now, 1).Allowed {
			passed++
		}
	}
	if passed != 1099 { // the burst, and one each 3.6 s; the 1000th comes back at the hour
		t.Errorf("an hour of asking all the time: %d passed, want 1099", passed)
	}
}

// A legacy API that breaks above 50 a second: a leaky bucket. Calls wait for their
// turn, 20 ms apart, at most 2 s; who would wait longer is told so at once.
func TestChoiceLegacyAPI50PerSecond(t *testing.T) {
	c := compile(t, parse(t, "50/s leaky_bucket queue 100 max_wait 2s"))
	m := &machine{kind: caudal.LeakyBucket}
	var left []int64
	refused := 0
	for second := range int64(3) {
		for range 120 { // more than the upstream can bear
			now := epochStart + second*1_000_000
			d := m.take(c, now, 1)
			switch {
			case !d.Allowed:
				refused++
			case d.Delay > 2*time.Second:
				t.Errorf("a call waits %s, more than max_wait", d.Delay)
			default:
				left = append(left, now+d.Delay.Microseconds())
			}
		}
	}
	for i, at := range left {
		if want := epochStart + int64(i)*20_000; at != want {
			t.Fatalf("call %d leaves at %d us, want %d", i, at-epochStart, want-epochStart)
		}
	}
	if len(left) != 201 || refused != 159 { // 101 at once, then 50 more each second
		t.Errorf("%d left and %d were refused, want 201 and 159", len(left), refused)
	}
}

// Five logins a minute against brute force, never ten around an edge: a sliding
// log. A fixed window would let ten through in a moment.
func TestChoiceFiveLoginsPerMinuteNever10AtAnEdge(t *testing.T) {
	runTimeline(t, "5/m sliding_log", epochStart, []event{
		{at: "59s", cost: 1, times: 5, remaining: 0, reset: "1m"},
		{at: "60s", cost: 1, times: 5, denied: true, retry: "59s", reset: "59s"},
		{at: "118.999999s", cost: 1, denied: true, retry: "1us", reset: "1us"},
		{at: "119s", cost: 1, times: 5, remaining: 0, reset: "1m"},
	})
	runTimeline(t, "5/m fixed_window", epochStart, []event{
		{at: "59s", cost: 1, times: 5, remaining: 0, reset: "1s"},
		{at: "60s", cost: 1, times: 5, remaining: 0, reset: "1m"},
	})
}

// A daily quota for a plan: a fixed window in the customer's timezone. It resets
// at the customer's midnight, whatever the season.
func TestChoiceDailyQuotaInTheCustomersTimezone(t *testing.T) {
	const noonInMadrid = 1774695600 * 1_000_000 // 2026-03-28 12:00, the day before the clock goes forward
	runTimeline(t, "10000/day fixed_window timezone Europe/Madrid", noonInMadrid, []event{
		{cost: 10000, remaining: 0, reset: "12h"},
		{cost: 1, denied: true, retry: "12h", reset: "12h"},
		{at: "12h", cost: 10000, remaining: 0, reset: "23h"},
	})
}

// Many counters with little memory: a sliding window, two numbers a key. It has
// no burst of twice the limit at an edge, and is off by its assumption that calls
// were spread evenly.
func TestChoiceManyKeysNearlyExact(t *testing.T) {
	runTimeline(t, "100/m sliding_window", epochStart, []event{
		{at: "59s", cost: 100, remaining: 0, reset: "1m0.400001s"},
		{at: "60s", cost: 1, denied: true, retry: "1us", reset: "59.400001s"},
		{at: "90s", cost: 50, remaining: 0, reset: "1m28.800001s"},
	})
}
