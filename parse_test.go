package caudal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

func TestParseLimit(t *testing.T) {
	week := caudal.Limit{Algorithm: caudal.FixedWindow, Requests: 5, Unit: caudal.Week}
	epoch := week
	epoch.Epoch = true
	madrid := caudal.PerDay(10000).With(caudal.FixedWindow)
	madrid.Timezone = "Europe/Madrid"
	thirteen := caudal.PerSecond(10)
	thirteen.Multiplier = 13
	tests := []struct {
		text string
		want caudal.Limit
	}{
		{"100/m", caudal.PerMinute(100)},
		{"100/min", caudal.PerMinute(100)},
		{"100/minute", caudal.PerMinute(100)},
		{"100/minutes", caudal.PerMinute(100)},
		{"100/MINUTE", caudal.PerMinute(100)},
		{" 100 / m ", caudal.PerMinute(100)},
		{"100/1m", caudal.PerMinute(100)},
		{"7/s", caudal.PerSecond(7)},
		{"7/sec", caudal.PerSecond(7)},
		{"7/h", caudal.PerHour(7)},
		{"7/d", caudal.PerDay(7)},
		{"7/month", caudal.Per(7, caudal.Month)},
		{"7/year", caudal.Per(7, caudal.Year)},
		{"0/s", caudal.PerSecond(0)},
		{"4294967295/s", caudal.PerSecond(4294967295)},
		{"10/13s", thirteen},
		{"10/13 s", thirteen},
		{"10/13 seconds", thirteen},
		{"1000/hour burst 100", caudal.PerHour(1000).WithBurst(100)},
		{"5/m sliding_log", caudal.PerMinute(5).With(caudal.SlidingLog)},
		{"5/m sliding_window", caudal.PerMinute(5).With(caudal.SlidingWindow)},
		{"5/m token_bucket burst 2", caudal.PerMinute(5).WithBurst(2)},
		{"5/m burst 2 token_bucket", caudal.PerMinute(5).WithBurst(2)},
		{"5/w fixed_window", week},
		{"5/w epoch fixed_window", epoch},
		{"10000/day fixed_window timezone Europe/Madrid", madrid},
		{"10000/day timezone Europe/Madrid fixed_window", madrid},
		{"50/s queue 60", caudal.PerSecond(50).WithQueue(60, 0)},
		{"50/s queue 60 leaky_bucket", caudal.PerSecond(50).WithQueue(60, 0)},
		{"50/s leaky_bucket queue 60 max_wait 2s", caudal.PerSecond(50).WithQueue(60, 2*time.Second)},
		{"50/s max_wait 1.5ms queue 60", caudal.PerSecond(50).WithQueue(60, 1500*time.Microsecond)},
		{"50/s leaky_bucket", caudal.PerSecond(50).WithQueue(0, 0)},
	}
	for _, tt := range tests {
		got, err := caudal.ParseLimit(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseLimit(%q) = %+v, %v, want %+v", tt.text, got, err, tt.want)
			continue
		}
		if again, err := caudal.ParseLimit(got.String()); err != nil || again != got {
			t.Errorf("ParseLimit(%q) = %+v, %v, want it back: %+v", got, again, err, got)
		}
	}
}

func TestParseLimitErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "no period: write how many, a slash and a unit, such as 100/m"},
		{"100", "no period: write how many, a slash and a unit, such as 100/m"},
		{"/m", `requests "" must be a whole number from 0 to 4294967295`},
		{"-1/m", `requests "-1" must be a whole number from 0 to 4294967295`},
		{"1.5/m", `requests "1.5" must be a whole number from 0 to 4294967295`},
		{"4294967296/m", `requests "4294967296" must be a whole number from 0 to 4294967295`},
		{"9007199254740993/m", `requests "9007199254740993" must be a whole number from 0 to 4294967295`}, // C18: 2^53+1
		{"100/", "no unit after the slash: use s, m, h, d, w, month or year"},
		{"100/fortnight", `unit "fortnight" is not known: use s, m, h, d, w, month or year`},
		{"100/0s", `period "0s" must be a whole number from 1 and a unit, such as 13s`},
		{"100/4294967296s", `period "4294967296s" must be a whole number from 1 and a unit, such as 13s`},
		{"100/13", `unit "" is not known: use s, m, h, d, w, month or year`},
		{"100/-5s", `unit "-5s" is not known: use s, m, h, d, w, month or year`},
		{"1/201 years sliding_log", "a period of 201 years is over 200 years: choose a shorter one"},
		{"1/9999999999s", `period "9999999999s" must be a whole number from 1 and a unit, such as 13s`}, // C19
		{"100/m burst", `"burst" is not known here, or lacks its value: after the period come an algorithm, burst N, queue N, max_wait D, timezone Z`},
		{"100/m bust 5", `"bust" is not known here: after the period come an algorithm, burst N, queue N, max_wait D, timezone Z`},
		{"100/m burst 0", "burst must be at least 1; leave it out for a burst of the requests"},
		{"100/m burst -1", `burst "-1" must be a whole number from 0 to 4294967295`},
		{"100/m burst 5 burst 6", `"burst": the burst is given twice`},
		{"100/m fixed_window sliding_log", `"sliding_log": the algorithm is given twice`},
		{"100/w fixed_window epoch epoch", `"epoch": the epoch is given twice`},
		{"100/m queue 5 fixed_window", "queue does not go with fixed_window: only a leaky_bucket has a queue"},
		{"100/m fixed_window queue 0", "queue does not go with fixed_window: only a leaky_bucket has a queue"},
		{"100/m token_bucket queue 5", "queue does not go with token_bucket: only a leaky_bucket has a queue"},
		{"100/m max_wait 5s", "queue and max_wait do not go with token_bucket: only a leaky_bucket has a queue"},
		{"100/m queue 5 max_wait 0", "max_wait must be over 0; use queue 0 to let nobody wait"},
		{"100/m queue 5 max_wait -2s", "max_wait -2s must be a whole number of microseconds, not negative"},
		{"100/m queue 5 max_wait 1ns", "max_wait 1ns must be a whole number of microseconds, not negative"},
		{"100/m queue 5 max_wait 9999999999s", `max_wait time: invalid duration "9999999999s"`}, // C19: over 292 years
		{"100/m queue 5 max_wait soon", `max_wait time: invalid duration "soon"`},
		{"100/m timezone Europe/Madrid", `timezone "Europe/Madrid" does not go with token_bucket: it is for fixed_window only`},
		{"100/d fixed_window timezone Europe/Atlantis", `timezone "Europe/Atlantis" is not known: use an IANA name such as Europe/Madrid`},
	}
	for _, tt := range tests {
		got, err := caudal.ParseLimit(tt.text)
		want := "caudal: invalid limit: " + quoted(tt.text) + ": " + tt.want
		if err == nil || err.Error() != want || !errors.Is(err, caudal.ErrInvalidLimit) || got != (caudal.Limit{}) {
			t.Errorf("ParseLimit(%q)\n got %+v, %v\nwant %s", tt.text, got, err, want)
		}
	}
}

func quoted(s string) string { return `"` + s + `"` }

// FuzzParseLimit: nothing panics, what is accepted can be used, and prints as
// something that reads the same.
func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"100/m", "1000/hour burst 100", "5/m sliding_log", "10/13s", "50/s leaky_bucket queue 60 max_wait 2s",
		"10000/day fixed_window timezone Europe/Madrid", "0/s", "1/200 years sliding_log", "5/w fixed_window epoch",
		"4294967295/s burst 4294967295", "1/year queue 4294967295 max_wait 1us", "1/s/m", "//", "1/1 1s", "1/s burst", "٣/s",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := caudal.ParseLimit(text)
		if err != nil {
			if !errors.Is(err, caudal.ErrInvalidLimit) || strings.Contains(err.Error(), "\n") {
				t.Errorf("ParseLimit(%q) = error %q", text, err)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Errorf("ParseLimit(%q) gives a limit that is refused: %v", text, err)
		}
		if again, err := caudal.ParseLimit(l.String()); err != nil || again != l {
			t.Errorf("ParseLimit(%q) = %+v; printed as %q it reads %+v, %v", text, l, l, again, err)
		}
		c, err := l.Compile("", text)
		if err != nil {
			t.Fatalf("Compile(%q) = %v", text, err)
		}
		if start, end := c.Window(1_800_000_000_000_000); start > 1_800_000_000_000_000 || end <= 1_800_000_000_000_000 {
			t.Errorf("Window(%q) = %d, %d around 1800000000000000", text, start, end)
		}
	})
}
