package caudal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

const day = 24 * time.Hour

func TestWorstCase(t *testing.T) {
	tests := []struct {
		limit  string
		calls  uint64
		cost   uint64
		period time.Duration
		want   string
	}{
		{"100/m burst 20", 120, 120, time.Minute, "at most 120 in any minute: a burst of 20, and 100 more as they are refilled"},
		{"100/m", 200, 200, time.Minute, "at most 200 in any minute: a burst of 100, and 100 more as they are refilled"},
		{"10/13s burst 1", 11, 11, 13 * time.Second, "at most 11 in any 13 seconds: a burst of 1, and 10 more as they are refilled"},
		{"100/m fixed_window", 200, 200, time.Minute, "at most 200 in any minute: all at once around the edge of two windows"},
		{"4294967295/s fixed_window", 8589934590, 8589934590, time.Second, "at most 8589934590 in any second: all at once around the edge of two windows"},
		{"10/d fixed_window", 20, 20, day, "at most 20 in any day: all at once around the edge of two windows"},
		{"10/d fixed_window timezone UTC", 20, 20, day, "at most 20 in any day: all at once around the edge of two windows"},
		{"10/d fixed_window timezone Europe/Madrid", 20, 20, 23 * time.Hour, "at most 20 in any 23 hours: all at once around the edge of two windows"},
		{"10/w fixed_window", 20, 20, 7 * day, "at most 20 in any week: all at once around the edge of two windows"},
		{"10/w fixed_window timezone Europe/Madrid", 20, 20, 167 * time.Hour, "at most 20 in any 167 hours: all at once around the edge of two windows"},
		{"10/month fixed_window", 20, 20, 28 * day, "at most 20 in any 28 days: all at once around the edge of two windows"},
		{"10/year fixed_window timezone Europe/Madrid", 20, 20, 365 * day, "at most 20 in any 365 days: all at once around the edge of two windows"},
		{"10/month fixed_window epoch", 20, 20, 30 * day, "at most 20 in any 30 days: all at once around the edge of two windows"},
		{"10/2 months fixed_window", 20, 20, 60 * day, "at most 20 in any 60 days: all at once around the edge of two windows"},
		{"5/m sliding_log", 5, 5, time.Minute, "at most 5 in any minute: exactly the limit, wherever the interval lies"},
		{"100/m sliding_window", 200, 200, time.Minute, "at most 200 in any minute: beyond 100 only as fast as the previous window's share falls"},
		{"50/s leaky_bucket queue 60", 50, 110, time.Second, "at most 50 in any second: they leave by turns, one each 20 ms"},
		{"50/s leaky_bucket queue 0", 50, 50, time.Second, "at most 50 in any second: they leave by turns, one each 20 ms"},
		{"7/90s leaky_bucket queue 0", 7, 7, 90 * time.Second, "at most 7 in any 90 seconds: they leave by turns, one each 12.86 s"},
		{"0/m", 0, 0, time.Minute, "none: the limit is 0, so everything is denied"},
		{"0/m leaky_bucket queue 5", 0, 0, time.Minute, "none: the limit is 0, so everything is denied"},
	}
	for _, tt := range tests {
		got := parse(t, tt.limit).WorstCase()
		if got.Calls != tt.calls || got.Cost != tt.cost || got.Period != tt.period {
			t.Errorf("WorstCase(%q) = %d calls, cost %d, per %s, want %d, %d, %s",
				tt.limit, got.Calls, got.Cost, got.Period, tt.calls, tt.cost, tt.period)
		}
		if got.String() != tt.want {
			t.Errorf("WorstCase(%q).String() = %q, want %q", tt.limit, got, tt.want)
		}
	}
}

func TestWords(t *testing.T) {
	tests := []struct{ limit, want string }{
		{"100/m burst 20", "100 per minute, bursts of up to 20, refilled steadily"},
		{"100/m", "100 per minute, bursts of up to 100, refilled steadily"},
		{"10/13s", "10 per 13 seconds, bursts of up to 10, refilled steadily"},
		{"50/s leaky_bucket queue 60 max_wait 2s", "50 per second, up to 60 waiting, at most 2 s"},
		{"50/s leaky_bucket queue 60 max_wait 250ms", "50 per second, up to 60 waiting, at most 250 ms"},
		{"50/s leaky_bucket queue 60 max_wait 1500us", "50 per second, up to 60 waiting, at most 1.5 ms"},
		{"50/h leaky_bucket queue 60 max_wait 90m", "50 per hour, up to 60 waiting, at most 1h30m"},
		{"50/h leaky_bucket queue 60 max_wait 10m", "50 per hour, up to 60 waiting, at most 10m"},
		{"50/h leaky_bucket queue 60 max_wait 20h", "50 per hour, up to 60 waiting, at most 20h"},
		{"50/s leaky_bucket queue 60", "50 per second, up to 60 waiting"},
		{"50/s leaky_bucket", "50 per second, none waiting"},
		{"100/m fixed_window", "100 per clock minute"},
		{"100/2h fixed_window", "100 per window of 2 hours"},
		{"100/month fixed_window", "100 per calendar month, UTC"},
		{"100/month fixed_window epoch", "100 per window of 30 days"},
		{"100/w fixed_window epoch", "100 per week from Thursday to Thursday, UTC"},
		{"100/d fixed_window timezone Europe/Madrid", "100 per calendar day in Europe/Madrid"},
		{"5/m sliding_log", "5 per minute, exact over any minute"},
		{"100/m sliding_window", "100 per minute, nearly exact over any minute"},
		{"0/m", "nothing: everything is denied"},
	}
	for _, tt := range tests {
		if got := parse(t, tt.limit).Words(); got != tt.want {
			t.Errorf("Words(%q) = %q, want %q", tt.limit, got, tt.want)
		}
	}
}

// TestWorstCaseIsReached drives each algorithm as hard as it lets itself be
// driven and counts what passes in the worst interval: never more than was
// stated, and near enough that the statement is no idle one. Near an edge the
// best that whole calls can do is one below twice the limit or the burst.
func TestWorstCaseIsReached(t *testing.T) {
	tests := []struct {
		limit string
		least uint64 // how many some interval must really see
	}{
		{"30/m burst 10", 39},
		{"30/m fixed_window", 60},
		{"30/m sliding_log", 30},
		{"30/m sliding_window", 59},
		{"30/m leaky_bucket queue 10", 30},
	}
	for _, tt := range tests {
		l := parse(t, tt.limit)
		worst := l.WorstCase()
		// Silence until just before a minute is over, then ask without pause.
		got := busiest(drive(t, l, 119_900_000, 400_000_000), worst.Period.Microseconds())
		if got > worst.Calls || got < tt.least {
			t.Errorf("%s: %d calls in some minute, want from %d to %d", tt.limit, got, tt.least, worst.Calls)
		}
	}
}

// drive asks every 10 ms for calls until one is denied, and gives the instants
// at which calls passed.
func drive(t *testing.T, l caudal.Limit, from, to int64) (passed []int64) {
	t.Helper()
	c, err := l.Compile("", "test")
	if err != nil {
		t.Fatal(err)
	}
	var k key
	for now := from; now < to; now += 10_000 {
		for {
			d := k.take(c, now, 1)
			if !d.Allowed {
				break
			}
			passed = append(passed, now+d.Delay.Microseconds())
		}
	}
	return passed
}

// busiest gives the most instants within any half-open interval of a length.
func busiest(sorted []int64, length int64) (most uint64) {
	first := 0
	for i, at := range sorted {
		for sorted[first] <= at-length {
			first++
		}
		most = max(most, uint64(i-first+1))
	}
	return most
}

func parse(t *testing.T, s string) caudal.Limit {
	t.Helper()
	l, err := caudal.ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ExampleLimit_WorstCase() {
	l := caudal.PerMinute(100).With(caudal.FixedWindow)
	fmt.Println(l.Words())
	fmt.Println(l.WorstCase())
	// Output:
	// 100 per clock minute
	// at most 200 in any minute: all at once around the edge of two windows
}
