package storetest

// leakyBucketRows are timelines of queues.
var leakyBucketRows = []row{
	{
		name:       "LeakyBucket/50PerSecondQueue60",
		rule:       "of 100 calls at once one leaves at 0, one each 20 ms for 60 more, and 39 are denied at once",
		shortLived: true,
		run: func(s *script) {
			l := s.limit("50/s leaky_bucket queue 60")
			for i := range 100 {
				d := s.take(s.start, l, "k", 1)
				if d.Allowed != (i < 61) {
					s.wrong("call %d: allowed %v", i+1, d.Allowed)
				}
				if want := duration(i) * 20 * ms; d.Allowed && d.Delay != want {
					s.wrong("call %d leaves after %s, want %s", i+1, d.Delay, want)
				}
				if !d.Allowed && d.RetryAfter != 20*ms {
					s.wrong("call %d: retry after %s, want 20ms", i+1, d.RetryAfter)
				}
			}
		},
	},
	{
		name:  "LeakyBucket/QueueZeroSpacesWithoutWaiting",
		rule:  "with queue 0 nobody waits: a call leaves at once, or is denied until its turn (C21: the state outlives the turn)",
		limit: "1/10s leaky_bucket queue 0",
		steps: []step{
			{cost: 1, remaining: 0, until: "10s"},
			{at: "2s", cost: 1, denied: true, retry: "8s", until: "8s"},
			{at: "9.999999s", cost: 1, denied: true, retry: "1us", until: "1us"},
			{at: "10s", cost: 1, remaining: 0, until: "10s"},
		},
	},
	{
		name:  "LeakyBucket/TurnsSinceTheLast",
		rule:  "a call that comes between turns waits for the rest of the interval; after a rest nothing has been saved up",
		limit: "1/10s leaky_bucket queue 2",
		steps: []step{
			{cost: 1, remaining: 2, until: "10s"},
			{at: "4s", cost: 1, remaining: 1, until: "16s", delay: "6s"},
			{at: "4s", cost: 1, remaining: 0, until: "26s", delay: "16s"},
			{at: "4s", cost: 1, denied: true, retry: "6s", until: "26s"},
			{at: "10s", cost: 1, remaining: 0, until: "30s", delay: "20s"},
			{at: "1000s", cost: 1, remaining: 2, until: "10s"},
		},
	},
	{
		name:  "LeakyBucket/MaxWaitIsIncluded",
		rule:  "a wait of exactly max_wait is accepted, a longer one denied at once; limit is min(queue, floor(max_wait x rate)) + 1",
		limit: "1/s leaky_bucket queue 100 max_wait 2500ms",
		steps: []step{
			{cost: 1, remaining: 2, until: "500ms"},
			{cost: 1, remaining: 1, until: "1.5s", delay: "1s"},
			{cost: 1, remaining: 0, until: "2.5s", delay: "2s"},
			{cost: 1, denied: true, retry: "500ms", until: "2.5s"},
			{at: "499.999ms", cost: 1, denied: true, retry: "1us", until: "2.000001s"},
			{at: "500ms", cost: 1, remaining: 0, until: "3s", delay: "2.5s"},
		},
	},
	{
		name:  "LeakyBucket/CostTakesConsecutiveTurns",
		rule:  "a call of cost n takes n turns at the tail, leaves at the first, and the last must lie within the queue",
		limit: "1/10s leaky_bucket queue 9",
		steps: []step{
			{cost: 4, remaining: 6, until: "40s"},
			{cost: 3, remaining: 3, until: "70s", delay: "40s"},
			{cost: 4, denied: true, remaining: 3, retry: "10s", until: "70s"},
			{at: "10s", cost: 4, remaining: 0, until: "100s", delay: "60s"},
			{at: "10s", cost: 11, denied: true, never: true, remaining: 0, until: "100s"},
		},
	},
	{
		name:       "LeakyBucket/ThirdsOfASecond",
		rule:       "turns a third of a second apart do not drift: a call leaves at its exact turn, rounded up to a microsecond",
		limit:      "3/s leaky_bucket queue 6",
		shortLived: true,
		steps: []step{
			{cost: 1, remaining: 6, until: "333334us"},
			{cost: 1, remaining: 5, until: "666667us", delay: "333334us"},
			{cost: 1, remaining: 4, until: "1s", delay: "666667us"},
			{cost: 1, remaining: 3, until: "1333334us", delay: "1s"},
			{cost: 3, remaining: 0, until: "2333334us", delay: "1333334us"},
			{cost: 1, denied: true, remaining: 0, retry: "333334us", until: "2333334us"},
			{at: "333333us", cost: 1, denied: true, remaining: 0, retry: "1us", until: "2000001us"},
			{at: "333334us", cost: 1, remaining: 0, until: "2333333us", delay: "2s"}, // the turn at 7/3 s
		},
	},
	{
		name:       "LeakyBucket/C32NeverFullAgainEachPeriod",
		rule:       "3 per second with a queue of 3, one call per 100 ms for 10 s: at most 33 leave, whatever the polling",
		shortLived: true,
		run: func(s *script) {
			l, passed := s.limit("3/s leaky_bucket queue 3"), 0
			for i := range 100 {
				if s.take(s.start.Add(duration(i)*100*ms), l, "k", 1).Allowed {
					passed++
				}
			}
			if passed > 33 || passed < 32 {
				s.wrong("%d of 100 calls passed, want 32 or 33", passed)
			}
		},
	},
	{
		name:  "LeakyBucket/C39RefusalsLeaveNoDebt",
		rule:  "2000 calls at once of which 5 wait: the refused leave nothing behind, and once the queue has drained a call leaves at once",
		limit: "10/10s leaky_bucket queue 5",
		steps: []step{
			{cost: 1, times: 6, remaining: 0, until: "6s", delay: "5s"},
			{cost: 1, times: 1994, denied: true, retry: "1s", until: "6s"},
			{at: "6s", cost: 1, remaining: 5, until: "1s"},
		},
	},
	{
		name:  "LeakyBucket/LongestQueueCutByMaxWait",
		rule:  "a queue of 4294967295 years is no overflow where max_wait bounds it",
		limit: "1/year leaky_bucket queue 4294967295 max_wait 1s",
		steps: []step{
			{cost: 1, remaining: 0, until: "8759h59m59s"},
			{cost: 1, denied: true, retry: "8759h59m59s", until: "8759h59m59s"},
			{at: "8759h59m59s", cost: 1, remaining: 0, until: "8760h", delay: "1s"},
		},
	},
}
