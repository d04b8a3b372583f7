package storetest

import (
	"time"

	"github.com/caudal-dev/caudal"
)

// abilityRows are about what a store may do beside Take.
var abilityRows = []row{
	{
		name: "Reset/MakesFresh", resets: true,
		rule: "a counter that was reset is fresh, and its neighbours are not touched",
		run: func(s *script) {
			for _, k := range five("3") {
				l := s.limit(k.limit)
				s.take(s.start, l, "k", 3)
				s.take(s.start, l, "neighbour", 3)
				for range 2 { // again, when there is nothing to reset
					if err := s.resetter.Reset(s.ctx, l, "k"); err != nil {
						s.wrong("%s: Reset = %v, want no error", k.kind, err)
					}
				}
				s.remaining(s.start, l, "k", 3)
				s.remaining(s.start, l, "neighbour", 0)
				if d := s.take(s.start, l, "k", 3); !d.Allowed || d.Delay != 0 {
					s.wrong("%s: after a reset: %s", k.kind, show(d))
				}
			}
		},
	},
	{
		name: "Forecast/RunsAhead", forecasts: true,
		rule: "a forecast tells when each of the next calls could leave, one behind the other, and charges nothing",
		run: func(s *script) {
			half := s.start.Add(30 * time.Second)
			for _, f := range []struct {
				limit string
				waits []string
			}{
				{"1/m burst 2", []string{"0s", "0s", "1m", "2m", "3m"}},
				{"1/m leaky_bucket queue 2", []string{"0s", "1m", "2m", "3m", "4m"}},
				{"2/m fixed_window", []string{"0s", "0s", "30s", "30s", "1m30s"}},
				{"2/m sliding_log", []string{"0s", "0s", "1m", "1m", "2m"}},
				{"2/m sliding_window", []string{"0s", "0s", "30.000001s", "1m0.000001s", "1m30.000001s"}},
			} {
				l := s.limit(f.limit)
				forecast := s.forecast(half, l, "k")
				for i, text := range f.waits {
					want := s.duration(text)
					for _, run := range []func(uint32) (duration, bool){forecast.Peek, forecast.Peek, forecast.Take} {
						if wait, ok := run(1); wait != want || !ok {
							s.wrong("%s: call %d leaves after %s, %v, want %s", f.limit, i+1, wait, ok, want)
						}
					}
				}
				if wait, ok := forecast.Peek(100); ok {
					s.wrong("%s: a cost above the limit is foreseen after %s", f.limit, wait)
				}
				if d := s.take(half, l, "k", 0); d.Remaining != d.Limit {
					s.wrong("%s: the forecast was charged: %s", f.limit, show(d))
				}
			}
		},
	},
	{
		name: "Forecast/StartsFromWhatWasConsumed", forecasts: true,
		rule: "a forecast begins with the counter as it stands, and the counter then behaves as foreseen",
		run: func(s *script) {
			for _, k := range five("3") {
				l := s.limit(k.limit)
				s.take(s.start, l, "k", 2)
				forecast := s.forecast(s.start, l, "k")
				for i := range 3 {
					wait, ok := forecast.Take(2)
					if !ok {
						s.wrong("%s: call %d is not foreseen", k.kind, i+1)
						return
					}
					d := s.take(s.start, l, "k", 2)
					at := s.start
					if !d.Allowed {
						at = at.Add(d.RetryAfter)
						d = s.take(at, l, "k", 2)
					}
					if left := duration(at.Mono-s.start.Mono)*us + d.Delay; !d.Allowed || left != wait {
						s.wrong("%s: call %d left after %s, foreseen %s", k.kind, i+1, left, wait)
					}
					s.start = at
					forecast = s.forecast(s.start, l, "k")
				}
			}
		},
	},
	{
		name: "Forecast/LimitZero", forecasts: true,
		rule: "nothing is ever foreseen to pass a limit of 0",
		run: func(s *script) {
			if wait, ok := s.forecast(s.start, s.limit("0/m"), "k").Peek(1); ok {
				s.wrong("foreseen after %s", wait)
			}
		},
	},
}

func (s *script) forecast(at instant, l *caudal.Compiled, key string) caudal.Forecast {
	s.Helper()
	f, err := s.forecaster.Forecast(s.ctx, at, l, key)
	if err != nil {
		s.Fatalf("Forecast(%s) = error %v", l.Limit(), err)
	}
	return f
}
