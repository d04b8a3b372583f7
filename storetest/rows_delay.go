package storetest

import (
	"time"

	"github.com/caudal-dev/caudal"
)

// delayRows are about Call.MinDelay: turns that a caller knows were given elsewhere.
var delayRows = []row{
	{
		name: "MinDelay/HoldsTheTurnAndThoseBehind",
		rule: "a leaky bucket gives no turn sooner than the call asks, alone or beside others; later calls are behind it; a denial leaves no trace; other algorithms ignore it",
		run: func(s *script) {
			queue, other := s.scoped("10/s leaky_bucket queue 20", "queue"), s.scoped("10/s", "other")
			delayed := func(l *caudal.Compiled, least time.Duration) caudal.Call {
				c := call(l, "k", 1)
				c.MinDelay = least
				return c
			}
			const ms = time.Millisecond
			for i, p := range []struct {
				calls []caudal.Call
				delay time.Duration
				ok    bool
			}{
				{[]caudal.Call{delayed(queue, 250*ms)}, 250 * ms, true},
				{[]caudal.Call{delayed(queue, 0)}, 350 * ms, true},
				{[]caudal.Call{delayed(queue, 600*ms), delayed(other, time.Hour)}, 600 * ms, true},
				{[]caudal.Call{delayed(queue, 2001*ms), delayed(other, 0)}, 0, false},
				{[]caudal.Call{delayed(queue, 0)}, 700 * ms, true},
				{[]caudal.Call{delayed(queue, 10*ms)}, 800 * ms, true},
			} {
				d := s.batch(s.start, p.calls...)[0]
				if d.Allowed != p.ok || d.Delay != p.delay || !p.ok && d.RetryAfter != ms {
					s.wrong("step %d: %s, want allowed %t after %s", i+1, show(d), p.ok, p.delay)
				}
			}
			s.remaining(s.start, other, "k", 9)
		},
	},
	{
		name: "MinDelay/LosesFreedTurnsBeforeIt", refunds: true,
		rule: "a cancelled turn that lies before the least delay is not given, and is not kept for later; one behind it is given",
		run: func(s *script) {
			queue := s.scoped("10/s leaky_bucket queue 20", "queue")
			var turns []caudal.Decision
			for range 6 {
				turns = append(turns, s.take(s.start, queue, "k", 1))
			}
			for _, n := range []int{1, 4} { // the turns at 100 and 400 ms
				r := caudal.Refund{Receipt: turns[n].Receipt, N: 1}
				if err := s.refunder.Refund(s.ctx, s.start, []caudal.Refund{r}); err != nil {
					s.wrong("Refund = %v", err)
				}
			}
			c := call(queue, "k", 1)
			c.MinDelay = 200 * time.Millisecond
			for _, want := range []time.Duration{400 * time.Millisecond, 600 * time.Millisecond} {
				if d := s.batch(s.start, c)[0]; !d.Charged || d.Delay != want {
					s.wrong("a call with a least delay of 200 ms: %s, want the turn after %s", show(d), want)
				}
			}
			if d := s.take(s.start, queue, "k", 1); d.Delay != 700*time.Millisecond {
				s.wrong("a call without: %s, want the turn after 700 ms", show(d))
			}
		},
	},
}
