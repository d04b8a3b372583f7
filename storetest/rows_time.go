package storetest

import (
	"time"

	"github.com/caudal-dev/caudal"
)

// timeRows move the clock in ways that no stopwatch does.
var timeRows = []row{
	{
		name:  "Time/C04StepsBackAndForth",
		rule:  "time held in a key never moves back: after a step of -11 s nothing is refilled twice, and the wait is measured from the caller's clock",
		limit: "1/s burst 3",
		start: Start.Add(100 * time.Second),
		steps: []step{
			{cost: 1, remaining: 2, until: "1s"},
			{at: "-11s", cost: 2, remaining: 0, until: "14s"},
			{at: "-11s", cost: 1, denied: true, retry: "12s", until: "14s"},
			{cost: 1, denied: true, retry: "1s", until: "3s"},
			{at: "1s", cost: 1, remaining: 0, until: "3s"},
			{at: "1s", cost: 1, denied: true, retry: "1s", until: "3s"},
		},
	},
	{
		name:  "Time/C06NodeThatLags",
		rule:  "10/s: one node takes one at its 1000.0 s, another 0.6 s behind takes one: admitted, 8 remain",
		limit: "10/s",
		start: Start.Add(1000 * time.Second),
		steps: []step{
			{cost: 1, remaining: 9, until: "100ms"},
			{at: "-600ms", cost: 1, remaining: 8, until: "800ms"},
			{remaining: 8, until: "200ms"},
		},
		shortLived: true,
	},
	{
		name:  "Time/SlidingLogOfALaggingNode",
		rule:  "an entry of a caller that lags counts from the key's own time, so entries stay in order",
		limit: "3/m sliding_log",
		start: Start.Add(1000 * time.Second),
		steps: []step{
			{cost: 1, remaining: 2, until: "1m"},
			{at: "-30s", cost: 1, remaining: 1, until: "1m30s"},
			{at: "-30s", cost: 2, denied: true, remaining: 1, retry: "1m30s", until: "1m30s"},
			{at: "59.999999s", remaining: 1, until: "1us"},
			{at: "1m", remaining: 3},
		},
	},
	{
		name: "Time/C05WallClockJumpsAhead", twoClocks: true,
		rule: "a wall clock that is set an hour ahead refills nothing where elapsed time counts, and opens the next window of a fixed window",
		run: func(s *script) {
			at := func(mono, wall int) caudal.Instant {
				return caudal.Instant{Mono: s.start.Mono + int64(mono)*1e6, Wall: s.start.Wall + int64(wall)*1e6}
			}
			for _, limit := range []string{"5/5m", "5/5m leaky_bucket queue 4", "5/5m sliding_log"} {
				l := s.limit(limit)
				s.take(at(0, 0), l, "k", 5)
				if d := s.take(at(1, 3600), l, "k", 1); d.Allowed || d.RetryAfter > 5*time.Minute {
					s.wrong("%s: an hour of wall time and a second later: %s, want denied", limit, show(d))
				}
				if d := s.take(at(2, -3600), l, "k", 1); d.Allowed || d.RetryAfter > 5*time.Minute {
					s.wrong("%s: after the wall clock was set back: %s, want denied", limit, show(d))
				}
			}
			for _, limit := range []string{"5/5m fixed_window", "5/5m sliding_window"} {
				l := s.limit(limit)
				s.take(at(0, 0), l, "k", 5)
				if d := s.take(at(1, 3600), l, "k", 1); !d.Allowed {
					s.wrong("%s: an hour of wall time later: %s, want allowed", limit, show(d))
				}
				if d := s.take(at(3600, 3601), l, "k", 5); d.Allowed {
					s.wrong("%s: an hour of elapsed time in the same window: %s, want denied", limit, show(d))
				}
			}
		},
	},
	{
		name: "Time/ZeroInstantIsNow", noInstant: true,
		rule: "the zero Instant means now by the store's clock",
		run: func(s *script) {
			for _, k := range five("3") {
				l := s.limit(k.limit)
				s.clock.Set(Start)
				s.take(caudal.Instant{}, l, "k", 3)
				s.clock.Advance(time.Minute)
				zero, explicit := s.take(caudal.Instant{}, l, "k", 0), s.take(caudal.At(Start.Add(time.Minute)), l, "k", 0)
				if zero != explicit {
					s.wrong("%s: by the clock %s\n      at that instant %s", k.kind, show(zero), show(explicit))
				}
				s.clock.Advance(10 * time.Hour)
				s.remaining(caudal.Instant{}, l, "k", 3)
			}
		},
	},
	{
		name: "Time/StateOutlivesOtherKeys",
		rule: "a key is kept until it is fresh by its own time, however many keys come and go around it (C21)",
		run: func(s *script) {
			for _, k := range five("3") {
				l := s.limit(k.limit)
				s.take(s.start, l, "k", 3)
				for i := range 3000 {
					at := s.start.Add(duration(i) * 300 * ms) // 15 minutes in all
					s.take(at, l, "other"+string(rune('0'+i%1000)), 1)
				}
				at := s.start.Add(15 * time.Minute)
				if d := s.take(at, l, "k", 3); d.Allowed {
					s.wrong("%s: the key was forgotten after 15 minutes of an hour: %s", k.kind, show(d))
				}
			}
		},
	},
	{
		name:  "Time/C31IdlePastItsEnd",
		rule:  "a key that was idle until it was fresh again is like one never seen, without an error",
		limit: "2/2s",
		steps: []step{
			{cost: 2, remaining: 0, until: "2s"},
			{at: "4s", cost: 2, remaining: 0, until: "2s"},
			{at: "100h", cost: 2, remaining: 0, until: "2s"},
		},
		shortLived: true,
	},
}
