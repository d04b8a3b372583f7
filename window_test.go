package caudal_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/refmodel"
)

func TestCalendarWindows(t *testing.T) {
	const layout = "2006-01-02 15:04:05.999999 MST"
	utc := func(s string) int64 {
		at, err := time.Parse("2006-01-02 15:04:05.999999", s)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMicro()
	}
	tests := []struct{ limit, at, start, end string }{
		{"1/d fixed_window", "2026-03-10 12:00:00", "2026-03-10 00:00:00", "2026-03-11 00:00:00"},
		{"1/d fixed_window", "2026-03-10 00:00:00", "2026-03-10 00:00:00", "2026-03-11 00:00:00"},
		{"1/d fixed_window", "2026-03-09 23:59:59.999999", "2026-03-09 00:00:00", "2026-03-10 00:00:00"},
		{"1/w fixed_window", "2026-03-15 23:59:59", "2026-03-09 00:00:00", "2026-03-16 00:00:00"},
		{"1/month fixed_window", "2028-02-29 12:00:00", "2028-02-01 00:00:00", "2028-03-01 00:00:00"},
		{"1/month fixed_window", "2026-12-31 23:59:59", "2026-12-01 00:00:00", "2027-01-01 00:00:00"},
		{"1/year fixed_window", "2028-12-31 12:00:00", "2028-01-01 00:00:00", "2029-01-01 00:00:00"},
		{"1/2 months fixed_window", "1970-01-01 00:00:00", "1970-01-01 00:00:00", "1970-03-02 00:00:00"}, // 60 days
		// C07, from the epoch.
		{"1/w fixed_window epoch", "2026-03-10 12:00:00", "2026-03-05 00:00:00", "2026-03-12 00:00:00"},
		{"1/month fixed_window epoch", "2026-03-10 12:00:00", "2026-03-08 00:00:00", "2026-04-07 00:00:00"},
		{"1/year fixed_window epoch", "2026-03-10 12:00:00", "2025-12-18 00:00:00", "2026-12-18 00:00:00"},
		// C09, the clock goes forward and back.
		{"1/d fixed_window timezone Europe/Berlin", "2026-03-29 01:00:00", "2026-03-28 23:00:00", "2026-03-29 22:00:00"},
		{"1/d fixed_window timezone Europe/Madrid", "2026-10-25 01:00:00", "2026-10-24 22:00:00", "2026-10-25 23:00:00"},
		{"1/w fixed_window timezone Europe/Madrid", "2026-03-29 12:00:00", "2026-03-22 23:00:00", "2026-03-29 22:00:00"},
		{"1/month fixed_window timezone Europe/Madrid", "2026-03-29 12:00:00", "2026-02-28 23:00:00", "2026-03-31 22:00:00"},
		{"1/year fixed_window timezone Europe/Madrid", "2026-07-01 12:00:00", "2025-12-31 23:00:00", "2026-12-31 23:00:00"},
		// Midnight does not exist: the day starts at 01:00, which is 04:00 UTC.
		{"1/d fixed_window timezone America/Santiago", "2026-09-06 03:59:59.999999", "2026-09-05 04:00:00", "2026-09-06 04:00:00"},
		{"1/d fixed_window timezone America/Santiago", "2026-09-06 04:00:00", "2026-09-06 04:00:00", "2026-09-07 03:00:00"},
		// The hour before midnight comes twice: both belong to the old day.
		{"1/d fixed_window timezone America/Santiago", "2026-04-05 03:30:00", "2026-04-04 03:00:00", "2026-04-05 04:00:00"},
		// Midnight comes twice: the day starts at the first.
		{"1/d fixed_window timezone America/Havana", "2026-11-01 05:30:00", "2026-11-01 04:00:00", "2026-11-02 05:00:00"},
		// A whole day that does not exist.
		{"1/d fixed_window timezone Pacific/Apia", "2011-12-30 09:59:59", "2011-12-29 10:00:00", "2011-12-30 10:00:00"},
		{"1/d fixed_window timezone Pacific/Apia", "2011-12-30 10:00:00", "2011-12-30 10:00:00", "2011-12-31 10:00:00"},
	}
	for _, tt := range tests {
		c, err := parse(t, tt.limit).Compile("", "")
		if err != nil {
			t.Fatal(err)
		}
		start, end := c.Window(utc(tt.at))
		if start != utc(tt.start) || end != utc(tt.end) {
			t.Errorf("%s: Window(%s) = [%s, %s), want [%s, %s)", tt.limit, tt.at,
				time.UnixMicro(start).UTC().Format(layout), time.UnixMicro(end).UTC().Format(layout), tt.start, tt.end)
		}
	}
}

// TestWindowsMatchTheModel compares with windows that are found by the name of
// the local date, at instants around changes of the clock.
func TestWindowsMatchTheModel(t *testing.T) {
	zones := []string{"", "UTC", "Europe/Madrid", "Europe/Berlin", "America/Santiago", "America/Havana", "Asia/Kathmandu",
		"Australia/Lord_Howe", "Pacific/Apia", "Asia/Tehran", "Africa/Cairo", "Asia/Beirut", "America/New_York", "Pacific/Kiritimati"}
	compiled := map[caudal.Limit]*caudal.Compiled{} // to meet windows that were remembered
	rapid.Check(t, func(t *rapid.T) {
		l := caudal.Per(1, rapid.SampledFrom([]caudal.Unit{caudal.Day, caudal.Week, caudal.Month, caudal.Year}).Draw(t, "unit")).With(caudal.FixedWindow)
		l.Timezone = rapid.SampledFrom(zones).Draw(t, "zone")
		c := compiled[l]
		if c == nil {
			var err error
			if c, err = l.Compile("", ""); err != nil {
				t.Fatal(err)
			}
			compiled[l] = c
		}
		at := rapid.Int64Range(time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2037, 1, 1, 0, 0, 0, 0, time.UTC).Unix()).Draw(t, "at") * 1e6
		_, edge := refmodel.Window(l, at)
		for _, at := range []int64{at, edge - 1, edge, edge + 1} {
			start, end := c.Window(at)
			if wantStart, wantEnd := refmodel.Window(l, at); start != wantStart || end != wantEnd {
				t.Fatalf("%s: Window(%d) = [%d, %d), want [%d, %d)", l, at, start, end, wantStart, wantEnd)
			}
		}
	})
}

// TestWindowsJoinEvenWhereTheDateGoesBack: Newfoundland set its clocks back at one
// minute past midnight, so that the date went back. Windows still hold their
// instants, and join.
func TestWindowsJoinEvenWhereTheDateGoesBack(t *testing.T) {
	c, err := parse(t, "1/d fixed_window timezone America/St_Johns").Compile("", "")
	if err != nil {
		t.Fatal(err)
	}
	from, to := time.Date(1999, 10, 29, 0, 0, 0, 0, time.UTC), time.Date(1999, 11, 3, 0, 0, 0, 0, time.UTC)
	last := int64(0)
	for at := from; at.Before(to); at = at.Add(10 * time.Second) {
		start, end := c.Window(at.UnixMicro())
		if start > at.UnixMicro() || end <= at.UnixMicro() || start < last {
			t.Fatalf("Window(%s) = [%s, %s), after one that began %s", at, time.UnixMicro(start).UTC(), time.UnixMicro(end).UTC(), time.UnixMicro(last).UTC())
		}
		last = start
		if next, _ := c.Window(end); next != end {
			t.Fatalf("the window after [%s, %s) begins %s", time.UnixMicro(start).UTC(), time.UnixMicro(end).UTC(), time.UnixMicro(next).UTC())
		}
	}
}
