package storetest

import (
	"github.com/caudal-dev/caudal"
)

// fairCall is an enforced call of cost n that waits for somebody.
func fairCall(l *caudal.Compiled, key, who string, n uint32) caudal.Call {
	c := call(l, key, n)
	if who != "" {
		c.Fair = []byte(who)
	}
	return c
}

// fairStep is calls of one client, one after the other, and what the last says.
type fairStep struct {
	who       string
	cost      uint32
	times     int
	allowed   bool
	remaining uint64
	delay     int // in seconds
	retry     int
}

func (s *script) fair(l *caudal.Compiled, at caudal.Instant, steps ...fairStep) (last caudal.Decision) {
	s.Helper()
	for i, p := range steps {
		for range max(p.times, 1) {
			last = s.batch(at, fairCall(l, "k", p.who, p.cost))[0]
		}
		if last.Allowed != p.allowed || last.Remaining != p.remaining || last.Delay != seconds(p.delay) || last.RetryAfter != seconds(p.retry) {
			s.wrong("step %d, %q: %s\nwant allowed %t, remaining %d, delay %d s, retry %d s", i+1, p.who, show(last), p.allowed, p.remaining, p.delay, p.retry)
		}
	}
	return last
}

// fairRows are about Call.Fair: a share of the queue for each client.
var fairRows = []row{
	{
		name: "Fair/OneClientCannotFillTheQueue",
		rule: "of a queue of 9 (10 places) one client alone may wait for 5, two for 3 each; turns given stand; who leaves at once needs no share; the wait that is told ends when the share allows it",
		run: func(s *script) {
			l := s.limit("1/10s leaky_bucket queue 9")
			s.fair(l, s.start,
				fairStep{who: "a", cost: 1, allowed: true, remaining: 5},
				fairStep{who: "a", cost: 1, times: 5, allowed: true, remaining: 0, delay: 50},
				fairStep{who: "a", cost: 1, times: 50, retry: 10},
				fairStep{who: "b", cost: 0, allowed: true, remaining: 3},
				fairStep{who: "b", cost: 1, times: 3, allowed: true, remaining: 0, delay: 80},
				// a has 5, and may wait for 3 only while b waits: at 30 s it has 2.
				fairStep{who: "a", cost: 1, retry: 30},
				fairStep{who: "b", cost: 1, retry: 50}, // alone again once a has left
				fairStep{who: "c", cost: 1, allowed: true, remaining: 0, delay: 90},
				fairStep{cost: 1, retry: 10}, // nobody in particular: the queue itself is full
			)
			s.fair(l, s.start.Add(seconds(30)-us), fairStep{who: "a", cost: 0, allowed: true})
			// While c waits too, the share is 2: a has that at 30 s, and room for one at 40 s.
			s.fair(l, s.start.Add(seconds(40)), fairStep{who: "a", cost: 1, allowed: true, delay: 60})
		},
	},
	{
		name: "Fair/CostIsSoManyTurns",
		rule: "a call of cost n holds n turns; one that could not wait even in an empty queue never passes; denied calls change nothing",
		run: func(s *script) {
			l := s.limit("1/10s leaky_bucket queue 9")
			if d := s.batch(s.start, fairCall(l, "k", "a", 7))[0]; !d.Never || d.Allowed || d.RetryAfter != 0 {
				s.wrong("a cost of 7, of which 6 wait: %s, want never", show(d))
			}
			s.fair(l, s.start,
				fairStep{who: "a", cost: 6, allowed: true, remaining: 0},
				fairStep{who: "a", cost: 1, times: 20, retry: 10},
				fairStep{who: "b", cost: 4, remaining: 3, retry: 50},
				fairStep{who: "b", cost: 3, allowed: true, remaining: 0, delay: 60},
			)
		},
	},
	{
		name: "Fair/OtherCallersAndKeys",
		rule: "calls without a value take no share and are kept to none; each key has its own queue; a queue that is full denies whoever asks",
		run: func(s *script) {
			l := s.limit("1/10s leaky_bucket queue 9")
			s.fair(l, s.start,
				fairStep{cost: 1, times: 8, allowed: true, remaining: 2, delay: 70},
				fairStep{who: "a", cost: 1, times: 2, allowed: true, remaining: 0, delay: 90},
				fairStep{who: "b", cost: 1, retry: 10},
			)
			if d := s.batch(s.start, fairCall(l, "other", "a", 6))[0]; !d.Allowed {
				s.wrong("another key: %s, want its own queue", show(d))
			}
			s.remaining(s.start, l, "k", 0)
		},
	},
	{
		name: "Fair/ACancelledTurnFreesItsPlace", refunds: true,
		rule: "a call that never left gives its place in the share back with its turn, at the tail or ahead of others; one that left does not need it any more",
		run: func(s *script) {
			l := s.limit("1/10s leaky_bucket queue 9")
			s.fair(l, s.start, fairStep{who: "a", cost: 1, allowed: true, remaining: 5})
			middle := s.fair(l, s.start, fairStep{who: "a", cost: 1, allowed: true, remaining: 4, delay: 10})
			tail := s.fair(l, s.start, fairStep{who: "a", cost: 4, allowed: true, remaining: 0, delay: 20})
			s.refund(s.start, cancelOf(middle.Receipt), nil)
			s.fair(l, s.start,
				fairStep{who: "a", cost: 1, allowed: true, remaining: 0, delay: 10},
				fairStep{who: "a", cost: 1, retry: 10})
			part := cancelOf(tail.Receipt)
			part.N = 2
			s.refund(s.start, part, nil)
			s.fair(l, s.start,
				fairStep{who: "b", cost: 1, allowed: true, remaining: 2, delay: 40},
				fairStep{who: "a", cost: 1, retry: 10}) // three are its share now, and it has three
			s.fair(l, s.start.Add(seconds(10)), fairStep{who: "a", cost: 1, allowed: true, remaining: 0, delay: 40})
		},
	},
	{
		name: "Fair/BesideOtherLimits",
		rule: "when another limit of the request denies, the share is not taken; when both pass, the queue says what remains of the share",
		run: func(s *script) {
			queue, other := s.scoped("1/10s leaky_bucket queue 9", "queue"), s.scoped("3/h", "other")
			for i := range 5 {
				d := s.batch(s.start, fairCall(queue, "k", "a", 1), call(other, "k", 1))
				if want := i < 3; d[0].Charged != want || d[1].Charged != want {
					s.wrong("request %d: %s and %s, want charged %t", i+1, show(d[0]), show(d[1]), want)
				}
			}
			if d := s.batch(s.start, fairCall(queue, "k", "a", 0))[0]; d.Remaining != 3 {
				s.wrong("after three requests that passed: %s, want 3 of the share of 5", show(d))
			}
		},
	},
	{
		name: "Fair/Trace",
		rule: "every decision on a random trace of calls of several clients, refunds and changed limits is that of the naive model",
		run: func(s *script) {
			s.traces([][]string{
				{"1/h leaky_bucket queue 9", "7/h leaky_bucket queue 12", "3/h leaky_bucket queue 5"},
				{"10/13s leaky_bucket queue 20 max_wait 9s", "7/13s leaky_bucket queue 20"},
				{"100/m leaky_bucket queue 30"},
			}, []string{"", "a", "b", "c", "d"})
		},
	},
}
