package storetest

import "time"

// windowRows are timelines of fixed windows.
var windowRows = []row{
	{
		name:  "FixedWindow/TwiceTheLimitAroundTheEdge",
		rule:  "100 at 10:05:59 and 100 at 10:06:00 all pass: the known edge of a fixed window",
		limit: "100/m fixed_window",
		start: time.Date(2026, 3, 10, 10, 5, 59, 0, time.UTC),
		steps: []step{
			{cost: 1, times: 100, remaining: 0, until: "1s"},
			{cost: 1, denied: true, retry: "1s", until: "1s"},
			{at: "1s", cost: 1, times: 100, remaining: 0, until: "1m"},
			{at: "1s", cost: 1, denied: true, retry: "1m", until: "1m"},
		},
	},
	{
		name:  "FixedWindow/C01BothSidesOfTheEdge",
		rule:  "10/min: 10 at 59.9 s and 10 at 60.1 s pass",
		limit: "10/m fixed_window",
		steps: []step{
			{at: "59.9s", cost: 1, times: 10, remaining: 0, until: "100ms"},
			{at: "60.1s", cost: 1, times: 10, remaining: 0, until: "59.9s"},
		},
	},
	{
		name:  "FixedWindow/C03TheCountOutlivesTheWindow",
		rule:  "a call that carries the last microseconds of a window is counted in it, even right after a call of the next",
		limit: "5/m fixed_window",
		steps: []step{
			{at: "1s", cost: 5, remaining: 0, until: "59s"},
			{at: "59.999s", cost: 1, denied: true, retry: "1ms", until: "1ms"},
			{at: "60.001s", cost: 5, remaining: 0, until: "59.999s"},
			{at: "59.999s", cost: 1, denied: true, retry: "60.001s", until: "60.001s"}, // the key's own time is the next window
		},
	},
	{
		name:  "FixedWindow/C16AnOversizedCostPoisonsNothing",
		rule:  "cost 50 against 10/min can never pass and counts nothing: 10 calls pass after it",
		limit: "10/m fixed_window",
		steps: []step{
			{cost: 50, denied: true, never: true, remaining: 10},
			{cost: 1, times: 10, remaining: 0, until: "1m"},
			{cost: 1, denied: true, retry: "1m", until: "1m"},
		},
	},
	{
		name:  "FixedWindow/C32HitsDoNotExtendTheWindow",
		rule:  "calls at 0, 20, 40 and 59 s are all in the window that ends at 60 s",
		limit: "4/m fixed_window",
		steps: []step{
			{cost: 1, remaining: 3, until: "60s"},
			{at: "20s", cost: 1, remaining: 2, until: "40s"},
			{at: "40s", cost: 1, remaining: 1, until: "20s"},
			{at: "59s", cost: 1, remaining: 0, until: "1s"},
			{at: "60s", cost: 1, remaining: 3, until: "60s"},
		},
	},
	{
		name:  "FixedWindow/MultipliedWindowsAreCountedFrom1970",
		rule:  "with a multiplier windows are fixed lengths from the epoch: 7-second windows do not begin at minutes",
		limit: "2/7s fixed_window",
		start: time.Unix(7*250_000_000+5, 0),
		steps: []step{
			{cost: 2, remaining: 0, until: "2s"},
			{at: "2s", cost: 2, remaining: 0, until: "7s"},
		},
	},
	{
		name:  "FixedWindow/LargestLimit",
		rule:  "a window holds up to 4294967295",
		limit: "4294967295/day fixed_window",
		steps: []step{
			{cost: 4294967295, remaining: 0, until: "24h"},
			{cost: 4294967295, denied: true, retry: "24h", until: "24h"},
			{at: "24h", cost: 4294967295, remaining: 0, until: "24h"},
		},
	},
}

// utc gives an instant of a calendar row.
func utc(year int, month time.Month, day, hour, minute int) time.Time {
	return time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
}

// calendarRows are windows that follow a calendar. Each row stands in one window
// and says when it ends.
var calendarRows = []row{
	calendar("UTC/DayEndsAtMidnight", "day", utc(2026, 3, 10, 12, 0), "12h"),
	calendar("UTC/WeekStartsOnMonday", "week", utc(2026, 3, 10, 12, 0), "132h"),
	calendar("UTC/SundayIsTheLastDayOfTheWeek", "week", utc(2026, 3, 15, 23, 0), "1h"),
	calendar("UTC/MonthOf31Days", "month", utc(2026, 3, 1, 0, 0), "744h"),
	calendar("UTC/FebruaryOf28Days", "month", utc(2026, 2, 1, 0, 0), "672h"),
	calendar("UTC/FebruaryOfALeapYear", "month", utc(2028, 2, 1, 0, 0), "696h"),
	calendar("UTC/LeapDayIsInFebruary", "month", utc(2028, 2, 29, 23, 0), "1h"),
	calendar("UTC/CenturyThatIsALeapYear", "month", utc(2400, 2, 1, 0, 0), "696h"),
	calendar("UTC/LastInstantOfDecember", "month", utc(2026, 12, 31, 23, 59), "1m"),
	calendar("UTC/YearOf365Days", "year", utc(2026, 1, 1, 0, 0), "8760h"),
	calendar("UTC/LeapYear", "year", utc(2028, 1, 1, 0, 0), "8784h"),

	calendar("Madrid/DayOf23Hours", "day timezone Europe/Madrid", utc(2026, 3, 28, 23, 0), "23h"),
	calendar("Madrid/DayOf25Hours", "day timezone Europe/Madrid", utc(2026, 10, 24, 22, 0), "25h"),
	calendar("Madrid/MonthWithTheChange", "month timezone Europe/Madrid", utc(2026, 2, 28, 23, 0), "743h"),
	calendar("Madrid/MidnightIsNotUTC", "day timezone Europe/Madrid", utc(2026, 7, 1, 21, 30), "30m"),
	calendar("Berlin/C09DayOf23Hours", "day timezone Europe/Berlin", utc(2026, 3, 29, 1, 0), "21h"),
	calendar("Berlin/WeekWithTheChange", "week timezone Europe/Berlin", utc(2026, 3, 22, 23, 0), "167h"),
	calendar("Berlin/YearEndsAt23UTC", "year timezone Europe/Berlin", utc(2026, 12, 31, 22, 0), "1h"),
	calendar("Santiago/TheDayBeforeMidnightIsSkipped", "day timezone America/Santiago", utc(2026, 9, 6, 3, 59), "1m"),
	calendar("Santiago/ADayThatStartsAtOneInTheMorning", "day timezone America/Santiago", utc(2026, 9, 6, 4, 0), "23h"),
	calendar("Santiago/MidnightThatComesTwice", "day timezone America/Santiago", utc(2026, 4, 4, 3, 0), "25h"),
	calendar("Kathmandu/OffsetOf5Hours45", "day timezone Asia/Kathmandu", utc(2026, 6, 1, 18, 0), "15m"),
	calendar("Lord_Howe/DayOf24Hours30", "day timezone Australia/Lord_Howe", utc(2026, 4, 4, 13, 0), "24h30m"),

	calendar("Epoch/C07WeekFromThursday", "week epoch", utc(2026, 3, 10, 12, 0), "36h"),
	calendar("Epoch/C07MonthOf30Days", "month epoch", utc(2026, 3, 10, 12, 0), "660h"),
	calendar("Epoch/C07YearOf365Days", "year epoch", utc(2026, 3, 10, 12, 0), "6780h"),
}

// calendar makes a row that fills a window, checks when it ends, and that the
// next begins right then.
func calendar(name, window string, at time.Time, ends string) row {
	d, err := time.ParseDuration(ends)
	if err != nil {
		panic(err) // a mistake in the table above
	}
	last := d - time.Microsecond
	return row{
		name:  "Calendar/" + name,
		rule:  "a calendar window ends where the local calendar says, and the next begins at that instant",
		start: at,
		run: func(s *script) {
			l := s.limit("2/" + window + " fixed_window")
			first := s.take(s.start, l, "k", 2)
			full := s.take(s.start, l, "k", 1)
			before := s.take(s.start.Add(last), l, "k", 1)
			next := s.take(s.start.Add(d), l, "k", 1)
			switch {
			case !first.Allowed || first.ResetAfter != d:
				s.wrong("filling the window at %s: %s, want allowed with a reset of %s", at, show(first), d)
			case full.Allowed || full.RetryAfter != d:
				s.wrong("one more at %s: %s, want denied with a retry of %s", at, show(full), d)
			case before.Allowed || before.RetryAfter != time.Microsecond:
				s.wrong("a microsecond before the end: %s, want denied with a retry of 1us", show(before))
			case !next.Allowed || next.Remaining != 1:
				s.wrong("at the end: %s, want allowed with 1 remaining", show(next))
			}
		},
	}
}
