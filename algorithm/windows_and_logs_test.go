package algorithm_test

import "testing"

// edge is 10:05:59 of a day, a second before a minute's window ends.
var edge = epochStart + (10*3600+5*60+59)*1_000_000

func TestFixedWindowWorkedExampleTwiceAtTheEdge(t *testing.T) {
	runTimeline(t, "100/m fixed_window", edge, []event{
		{cost: 1, times: 100, remaining: 0, reset: "1s"},
		{cost: 1, denied: true, retry: "1s", reset: "1s"},
		{at: "1s", cost: 1, times: 100, remaining: 0, reset: "1m"},
		{at: "1s", cost: 1, denied: true, retry: "1m", reset: "1m"},
	})
}

func TestSlidingWindowWorkedExample80And30(t *testing.T) {
	runTimeline(t, "100/m sliding_window", epochStart, []event{
		{cost: 80, remaining: 20, reset: "1m59.250001s"}, // one call counts 60/80 s before the end
		{at: "75s", cost: 30, remaining: 10, reset: "1m43.000001s"},
		{at: "75s", remaining: 10, reset: "1m43.000001s"},
		{at: "75s", cost: 1, remaining: 9, reset: "1m43.064517s"},
	})
}

func TestC01EveryAlgorithmAtTheEdge(t *testing.T) {
	for _, tt := range []struct {
		limit string
		want  []event // at 60.1 s, after 10 at 59.9 s
	}{
		{"10/m fixed_window", []event{{at: "200ms", cost: 10, remaining: 0, reset: "59.9s"}}},
		{"10/m sliding_log", []event{
			{at: "200ms", cost: 1, denied: true, retry: "59.8s", reset: "59.8s"},
			{at: "1m", cost: 1, remaining: 9, reset: "1m"},
		}},
		{"10/m sliding_window", []event{
			{at: "200ms", cost: 1, remaining: 0, reset: "59.900001s"},
			{at: "200ms", cost: 1, denied: true, retry: "5.900001s", reset: "59.900001s"},
			{at: "6.1s", cost: 1, denied: true, retry: "1us", reset: "54.000001s"},
			{at: "6.100001s", cost: 1, remaining: 0, reset: "1m24s"},
		}},
		{"10/m burst 10", []event{{at: "200ms", cost: 1, denied: true, retry: "5.8s", reset: "59.8s"}}},
	} {
		first := event{cost: 10, remaining: 0, reset: "1m"}
		switch tt.limit {
		case "10/m fixed_window":
			first.reset = "100ms"
		case "10/m sliding_window":
			first.reset = "54.100001s"
		}
		t.Run(tt.limit, func(t *testing.T) {
			runTimeline(t, tt.limit, epochStart+59_900_000, append([]event{first}, tt.want...))
		})
	}
}

func TestC03FixedWindowLateCallOfAFullWindow(t *testing.T) {
	runTimeline(t, "5/m fixed_window", epochStart, []event{
		{at: "30s", cost: 5, remaining: 0, reset: "30s"},
		{at: "59.999s", cost: 1, denied: true, retry: "1ms", reset: "1ms"},
		{at: "60.002s", cost: 5, remaining: 0, reset: "59.998s"},
		{at: "59.999s", cost: 1, denied: true, retry: "1m0.001s", reset: "1m0.001s"},
	})
}

func TestC07WindowsFromTheEpoch(t *testing.T) {
	const march10 = 1773144000 * 1_000_000 // 2026-03-10 12:00 UTC
	for limit, reset := range map[string]string{
		"5/week fixed_window epoch":  "36h", // 129600 s
		"5/month fixed_window epoch": "660h",
		"5/year fixed_window epoch":  "6780h",
		"5/week fixed_window":        "132h",
		"5/month fixed_window":       "516h",
		"5/year fixed_window":        "7116h",
	} {
		runTimeline(t, limit, march10, []event{{cost: 1, remaining: 4, reset: reset}})
	}
}

func TestC16OversizedCostPoisonsNothing(t *testing.T) {
	runTimeline(t, "10/m fixed_window", epochStart, []event{
		{cost: 50, denied: true, never: true, remaining: 10},
		{cost: 1, times: 10, remaining: 0, reset: "1m"},
	})
}

func TestC15CostAboveTheLimit(t *testing.T) {
	for _, limit := range []string{"3/2s", "3/2s leaky_bucket queue 2", "3/2s fixed_window", "3/2s sliding_log", "3/2s sliding_window"} {
		l := parse(t, limit)
		c, m := compile(t, l), &machine{kind: l.Algorithm}
		if d := m.take(c, epochStart, 4); d.Allowed || !d.Never || d.RetryAfter != 0 || d.Remaining != 3 {
			t.Errorf("%s: cost 4 = %+v, want never, 3 remaining", limit, d)
		}
		if d := m.take(c, epochStart, 1); !d.Allowed || d.Remaining != 2 {
			t.Errorf("%s: cost 1 after it = %+v, want allowed, 2 remaining", limit, d)
		}
	}
}

func TestC14LimitZero(t *testing.T) {
	for _, limit := range []string{"0/s", "0/s burst 1", "0/s leaky_bucket queue 2", "0/s fixed_window", "0/s sliding_log", "0/s sliding_window"} {
		runTimeline(t, limit, epochStart, []event{
			{cost: 0, denied: true, never: true},
			{cost: 1, times: 3, denied: true, never: true},
		})
	}
}

func TestC17CreditFloorsAtNothingUsed(t *testing.T) {
	for limit, reset := range map[string]string{
		"5/m": "48s", "5/m leaky_bucket queue 4": "48s", "5/m fixed_window": "1m", "5/m sliding_log": "1m", "5/m sliding_window": "1m45.000001s",
	} {
		t.Run(limit, func(t *testing.T) {
			runTimeline(t, limit, epochStart, []event{
				{cost: 4, remaining: 1, reset: reset},
				{remaining: 1, reset: reset},
				{credit: 10, remaining: 5},
			})
		})
	}
}

func TestC23SlidingLog(t *testing.T) {
	runTimeline(t, "5/m sliding_log", epochStart, []event{
		{cost: 4, remaining: 1, reset: "1m"},
		{cost: 1, remaining: 0, reset: "1m"},
		{cost: 1, denied: true, retry: "1m", reset: "1m"},
	})
	runTimeline(t, "1/m sliding_log", epochStart, []event{
		{cost: 1, remaining: 0, reset: "1m"},
		{at: "60.001s", cost: 1, remaining: 0, reset: "1m"},
	})
	runTimeline(t, "5/m sliding_log", epochStart, []event{
		{cost: 1, times: 5, remaining: 0, reset: "1m"},
		{cost: 1, times: 495, denied: true, retry: "1m", reset: "1m"},
	})
}

func TestC05FixedWindowFollowsTheWall(t *testing.T) {
	// The wall clock is what windows are given; see storetest for both clocks.
	runTimeline(t, "5/m fixed_window", epochStart, []event{
		{cost: 5, remaining: 0, reset: "1m"},
		{at: "1h", cost: 5, remaining: 0, reset: "1m"},
		{at: "1s", cost: 1, denied: true, retry: "1h0m59s", reset: "1h0m59s"}, // set back: the key stays in its window
	})
}

func TestC09DaysOf23And25HoursInBerlin(t *testing.T) {
	const midnightMarch29, midnightOctober25 = 1774738800 * 1_000_000, 1792879200 * 1_000_000
	runTimeline(t, "5/day fixed_window timezone Europe/Berlin", midnightMarch29, []event{
		{cost: 5, remaining: 0, reset: "23h"},
		{at: "22h59m59.999999s", cost: 1, denied: true, retry: "1us", reset: "1us"},
		{at: "23h", cost: 5, remaining: 0, reset: "24h"},
	})
	runTimeline(t, "5/day fixed_window timezone Europe/Berlin", midnightOctober25, []event{
		{cost: 5, remaining: 0, reset: "25h"},
		{at: "25h", cost: 5, remaining: 0, reset: "24h"},
	})
}

// A peek passes also when a lowered limit is below what was counted.
func TestPeekPassesUnderALoweredLimit(t *testing.T) {
	for kind, reset := range map[string]string{"fixed_window": "1m", "sliding_log": "1m", "sliding_window": "1m52.500001s"} {
		runTimeline(t, "10/m "+kind, epochStart, []event{
			{cost: 8, remaining: 2, reset: reset},
			{limit: "5/m " + kind, remaining: 0, reset: reset},
		})
	}
}

// A peek far ahead must not purge what still counts for a clock that lags.
func TestSlidingLogPeekAheadPurgesNothing(t *testing.T) {
	runTimeline(t, "5/m sliding_log", epochStart, []event{
		{cost: 5, remaining: 0, reset: "1m"},
		{at: "2m", remaining: 5},
		{at: "2m", cost: 6, denied: true, never: true, remaining: 5},
		{at: "30s", cost: 1, denied: true, retry: "30s", reset: "30s"},
	})
}
