package storetest

// tokenBucketRows are timelines of token buckets.
var tokenBucketRows = []row{
	{
		name:  "TokenBucket/Capacity10TwoPerSecond",
		rule:  "a bucket starts full, refills steadily while nobody asks, and a denied call takes nothing",
		limit: "2/s burst 10",
		steps: []step{
			{cost: 1, times: 10, remaining: 0, until: "5s"},
			{cost: 1, times: 5, denied: true, retry: "500ms", until: "5s"},
			{at: "3s", cost: 1, times: 5, remaining: 1, until: "4.5s"},
		},
	},
	{
		name:  "TokenBucket/Capacity5OnePerSecond",
		rule:  "what has flowed back passes, and no more than that",
		limit: "1/s burst 5",
		steps: []step{
			{cost: 1, times: 5, remaining: 0, until: "5s"},
			{cost: 1, denied: true, retry: "1s", until: "5s"},
			{at: "1s", cost: 1, remaining: 0, until: "5s"},
			{at: "1s", cost: 1, denied: true, retry: "1s", until: "5s"},
		},
	},
	{
		name:  "TokenBucket/C11PollingDoesNotStarveRefill",
		rule:  "a fraction of a token that has flowed back is kept however often somebody asks: 10 per 30 s polled each second admits 10 + floor(31/3) in 31 s",
		limit: "10/30s",
		run: func(s *script) {
			l, passed := s.limit("10/30s"), 0
			for second := range 32 {
				at := s.start.Add(seconds(second))
				for s.take(at, l, "k", 1).Allowed {
					passed++
				}
			}
			if passed != 20 {
				s.wrong("%d calls passed in 31 s, want 20", passed)
			}
		},
	},
	{
		name:  "TokenBucket/C11FractionAddsUp",
		rule:  "burst 10 at 2/s: one taken, 0.6 s later 1.2 tokens have come back, so 10 pass at once",
		limit: "2/s burst 10",
		steps: []step{
			{cost: 1, remaining: 9, until: "500ms"},
			{at: "600ms", cost: 10, remaining: 0, until: "5s"},
		},
	},
	{
		name: "TokenBucket/C91BurstPlusRefillInOnePeriod",
		rule: "10/min with burst 10 may pass 20 in a minute: the burst, and what flows back meanwhile",
		run: func(s *script) {
			l, passed := s.limit("10/m"), 0
			for second := range 60 {
				for s.take(s.start.Add(seconds(second)), l, "k", 1).Allowed {
					passed++
				}
			}
			if passed != 19 { // the 20th comes back at 60 s
				s.wrong("%d calls passed in [0 s, 60 s), want 19", passed)
			}
		},
	},
	{
		name:  "TokenBucket/RateOfOnePerHour",
		rule:  "1/3600 per second is exact: the token is back after an hour, and not a microsecond before",
		limit: "1/h",
		steps: []step{
			{cost: 1, remaining: 0, until: "1h"},
			{at: "59m59.999999s", cost: 1, denied: true, retry: "1us", until: "1us"},
			{at: "1h", cost: 1, remaining: 0, until: "1h"},
		},
	},
	{
		name:  "TokenBucket/RateOf10Per13Seconds",
		rule:  "10 per 13 s is exact: a token each 1.3 s, without drift over a hundred tokens",
		limit: "10/13s burst 1",
		run: func(s *script) {
			l := s.limit("10/13s burst 1")
			for i := range int64(100) {
				at := caudal1300(s, i)
				if d := s.take(at, l, "k", 1); !d.Allowed {
					s.wrong("token %d is not there at %d x 1.3 s: %s", i, i, show(d))
					return
				}
				early := at.Add(1300*ms - us)
				if d := s.take(early, l, "k", 1); d.Allowed || d.RetryAfter != us {
					s.wrong("a microsecond before token %d: %s, want denied with a retry of 1us", i+1, show(d))
					return
				}
			}
		},
	},
	{
		name:       "TokenBucket/RateOf65535PerSecond",
		rule:       "65535 per second is exact: after k/65535 s, rounded up to a microsecond, k tokens are back",
		shortLived: true,
		run:        func(s *script) { everyToken(s, "65535/s", 65535) },
	},
	{
		name:       "TokenBucket/RateOfAMillionPerSecond",
		rule:       "a token a microsecond",
		shortLived: true,
		run:        func(s *script) { everyToken(s, "1000000/s", 1_000_000) },
	},
	{
		name:       "TokenBucket/RateOf4294967295PerSecond",
		rule:       "the largest rate is exact too",
		shortLived: true,
		run:        func(s *script) { everyToken(s, "4294967295/s", 4294967295) },
	},
	{
		name:  "TokenBucket/RateOfOnePerYear",
		rule:  "a year is 365 days, and exact to a millisecond",
		limit: "1/year",
		steps: []step{
			{cost: 1, remaining: 0, until: "8760h"},
			{at: "8759h59m59.999s", cost: 1, denied: true, retry: "1ms", until: "1ms"},
			{at: "8760h", cost: 1, remaining: 0, until: "8760h"},
		},
	},
	{
		name:  "TokenBucket/LargestBurst",
		rule:  "burst and cost go up to 4294967295, and a limit may take 136 years to fill",
		limit: "1/s burst 4294967295",
		steps: []step{
			{cost: 4294967294, remaining: 1, until: "1193046h28m14s"},
			{cost: 2, denied: true, remaining: 1, retry: "1s", until: "1193046h28m14s"},
			{at: "1s", cost: 2, remaining: 0, until: "1193046h28m15s"},
			{at: "1193046h28m15s", cost: 4294967295, denied: true, remaining: 4294967294, retry: "1s", until: "1s"},
			{at: "1193046h28m16s", cost: 4294967295, remaining: 0, until: "1193046h28m15s"},
		},
	},
	{
		name:  "TokenBucket/C12IdleForCenturies",
		rule:  "a bucket that slept for 12 hours or 300 years is full, not negative",
		limit: "1000000/h",
		steps: []step{
			{cost: 1000000, remaining: 0, until: "1h"},
			{at: "12h", cost: 1000000, remaining: 0, until: "1h"},
			{at: "2500000h", cost: 1000000, remaining: 0, until: "1h"},
		},
	},
}

// caudal1300 gives the instant i x 1.3 s after the start.
func caudal1300(s *script, i int64) instant { return s.start.Add(duration(i) * 1300 * ms) }

// everyToken empties a bucket that holds a second's worth and looks when tokens
// come back.
func everyToken(s *script, limit string, rate int64) {
	l := s.limit(limit)
	s.take(s.start, l, "k", uint32(rate))
	for _, k := range []int64{1, 2, 3, 1000, rate / 2, rate - 1, rate} {
		wait := (k*1_000_000 + rate - 1) / rate // microseconds, rounded up
		at := s.start.Add(duration(wait) * us)
		if d := s.take(at, l, "k", 0); d.Remaining != uint64(wait*rate/1_000_000) && d.Remaining != uint64(rate) {
			s.wrong("%s: %d us after it was emptied %d remain, want %d", limit, wait, d.Remaining, wait*rate/1_000_000)
		}
		d := s.take(s.start, l, "k", uint32(k))
		if d.Allowed || d.RetryAfter != duration(wait)*us {
			s.wrong("%s: emptied, then cost %d: %s, want a retry of %d us", limit, k, show(d), wait)
		}
	}
}
