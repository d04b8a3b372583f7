package storetest

// slidingRows are timelines of sliding logs and sliding windows.
var slidingRows = []row{
	{
		name:  "SlidingLog/C01NotOverAnyEdge",
		rule:  "10/min: after 10 at 59.9 s the next passes at 119.9 s; an entry leaves one period after it came",
		limit: "10/m sliding_log",
		steps: []step{
			{at: "59.9s", cost: 1, times: 10, remaining: 0, until: "1m"},
			{at: "60.1s", cost: 1, times: 10, denied: true, retry: "59.8s", until: "59.8s"},
			{at: "119.899999s", cost: 1, denied: true, retry: "1us", until: "1us"},
			{at: "119.9s", cost: 1, remaining: 9, until: "1m"},
		},
	},
	{
		name:  "SlidingLog/C23MixedCosts",
		rule:  "costs add up however they are mixed, and the wait is until enough of the oldest have left",
		limit: "5/m sliding_log",
		steps: []step{
			{cost: 4, remaining: 1, until: "1m"},
			{at: "10s", cost: 1, remaining: 0, until: "1m"},
			{at: "10s", cost: 1, denied: true, retry: "50s", until: "1m"},
			{at: "10s", cost: 5, denied: true, retry: "1m", until: "1m"},
			{at: "60s", cost: 4, remaining: 0, until: "1m"},
			{at: "70s", cost: 1, remaining: 0, until: "1m"},
		},
	},
	{
		name:  "SlidingLog/C23CountsAfterPurging",
		rule:  "an entry that has left does not count: 1/min passes at 0 and at 60.001 s",
		limit: "1/m sliding_log",
		steps: []step{
			{cost: 1, remaining: 0, until: "1m"},
			{at: "60.001s", cost: 1, remaining: 0, until: "1m"},
		},
	},
	{
		name:  "SlidingLog/C23ManyAtOneInstant",
		rule:  "calls of one instant are all counted, not taken for one",
		limit: "5/m sliding_log",
		steps: []step{
			{cost: 1, times: 5, remaining: 0, until: "1m"},
			{cost: 1, times: 495, denied: true, retry: "1m", until: "1m"},
			{at: "1m", cost: 1, times: 5, remaining: 0, until: "1m"},
		},
	},
	{
		name:  "SlidingLog/ManyEntriesComeAndGo",
		rule:  "a log of hundreds of entries stays exact while it grows, moves on and shrinks",
		limit: "300/5m sliding_log",
		run: func(s *script) {
			l := s.limit("300/5m sliding_log")
			for second := range 900 {
				at := s.start.Add(seconds(second))
				if d := s.take(at, l, "k", 1); !d.Allowed || d.Remaining != uint64(max(299-second, 0)) {
					s.wrong("call at %d s: %s", second, show(d))
					return
				}
			}
			s.remaining(s.start.Add(seconds(1099)), l, "k", 200)
			s.remaining(s.start.Add(seconds(1198)), l, "k", 299)
			s.remaining(s.start.Add(seconds(1199)), l, "k", 300)
		},
	},
	{
		name:  "SlidingLog/LargestCosts",
		rule:  "costs up to 4294967295 add up without wrapping",
		limit: "4294967295/m sliding_log",
		steps: []step{
			{cost: 4294967294, remaining: 1, until: "1m"},
			{cost: 4294967295, denied: true, remaining: 1, retry: "1m", until: "1m"},
			{at: "1s", cost: 1, remaining: 0, until: "1m"},
			{at: "1m", cost: 4294967294, remaining: 0, until: "1m"},
		},
	},
	{
		name:  "SlidingWindow/80BeforeAnd30Now",
		rule:  "100/min, 80 in the window before, 30 now, 15 s in: 30 + 80 x 0.75 = 90, so a peek says 10 remain; a call leaves 9",
		limit: "100/m sliding_window",
		steps: []step{
			{cost: 80, remaining: 20, until: "1m59.250001s"},
			{at: "75s", cost: 30, remaining: 10, until: "1m43.000001s"},
			{at: "75s", remaining: 10, until: "1m43.000001s"},
			{at: "75s", cost: 1, remaining: 9, until: "1m43.064517s"},
		},
	},
	{
		name:  "SlidingWindow/C01RoundingAtTheEdge",
		rule:  "10/min with 10 at 59.9 s: 9.98 count at 60.1 s, so one passes; the next only just after 66 s, when under 9 count",
		limit: "10/m sliding_window",
		steps: []step{
			{at: "59.9s", cost: 10, remaining: 0, until: "54.100001s"},
			{at: "60.1s", cost: 1, remaining: 0, until: "59.900001s"},
			{at: "60.1s", cost: 1, denied: true, retry: "5.900001s", until: "59.900001s"},
			{at: "66s", cost: 1, denied: true, retry: "1us", until: "54.000001s"},
			{at: "66.000001s", cost: 1, remaining: 0, until: "1m24s"},
		},
	},
	{
		name:  "SlidingWindow/TwoWindowsLater",
		rule:  "what was counted two windows ago is gone",
		limit: "10/m sliding_window",
		steps: []step{
			{at: "30s", cost: 10, remaining: 0, until: "1m24.000001s"},
			{at: "60s", cost: 1, denied: true, retry: "1us", until: "54.000001s"},
			{at: "90s", cost: 5, remaining: 0, until: "1m18.000001s"},
			{at: "180s", cost: 10, remaining: 0, until: "1m54.000001s"},
		},
	},
	{
		name:  "SlidingWindow/WaitsIntoTheNextWindow",
		rule:  "when this window alone is too full, the wait goes on into the next, until its share has fallen",
		limit: "10/m sliding_window",
		steps: []step{
			{cost: 10, remaining: 0, until: "1m54.000001s"},
			{cost: 5, denied: true, retry: "1m24.000001s", until: "1m54.000001s"},
			{at: "1m24s", cost: 5, denied: true, remaining: 4, retry: "1us", until: "30.000001s"},
			{at: "1m24.000001s", cost: 5, remaining: 0, until: "1m24s"},
		},
	},
}
