package storetest

import (
	"time"

	"github.com/caudal-dev/caudal"
)

// batchRows are requests that several limits decide.
var batchRows = []row{
	{
		name: "Batch/AllOrNone",
		rule: "all limits of a request are charged, or, when one denies, none is",
		run: func(s *script) {
			for _, k := range five("10") {
				wide, narrow := s.scoped(k.limit, "wide"), s.scoped("3/h", "narrow")
				for range 3 {
					out := s.batch(s.start, call(wide, k.kind, 2), call(narrow, k.kind, 1))
					if !out[0].Charged || !out[1].Charged {
						s.wrong("%s: a request with room everywhere: %s; %s", k.kind, show(out[0]), show(out[1]))
					}
				}
				for range 3 {
					out := s.batch(s.start, call(wide, k.kind, 2), call(narrow, k.kind, 1))
					if out[0].Charged || out[1].Charged || out[1].Allowed {
						s.wrong("%s: a request that one limit denies: %s; %s", k.kind, show(out[0]), show(out[1]))
					}
				}
				s.remaining(s.start, wide, k.kind, 4)
				s.remaining(s.start, narrow, k.kind, 0)
			}
		},
	},
	{
		name: "Batch/ADeniedRequestTellsWhatRemains",
		rule: "in a denied request a limit with room says allowed, not charged, no receipt, and what remains without the call; each denying limit says its own wait",
		run: func(s *script) {
			for _, k := range five("10") {
				room, full := s.scoped(k.limit, "room"), s.scoped("3/h fixed_window", "full")
				s.take(s.start, room, k.kind, 3)
				s.take(s.start, full, k.kind, 3)
				out := s.batch(s.start, call(room, k.kind, 2), call(full, k.kind, 1))
				d := out[0]
				if !d.Allowed || d.Charged || d.Remaining != 7 || d.RetryAfter != 0 || d.Receipt != (receipt{}) {
					s.wrong("%s: the limit with room: %s, want allowed, not charged, 7 remaining", k.kind, show(d))
				}
				if out[1].Allowed || out[1].RetryAfter != time.Hour {
					s.wrong("%s: the denying limit: %s, want a retry of 1h", k.kind, show(out[1]))
				}
			}
		},
	},
	{
		name: "Batch/LongestWaitOfTheDenying",
		rule: "every denying limit is reported, the request's wait is the longest, and after it the request passes",
		run: func(s *script) {
			calls := []caudal.Call{
				call(s.scoped("1/m fixed_window", "a"), "k", 1),
				call(s.scoped("1/h sliding_log", "b"), "k", 1),
				call(s.scoped("1/13s", "c"), "k", 1),
			}
			s.batch(s.start, calls...)
			out := s.batch(s.start, calls...)
			for i, want := range []duration{time.Minute, time.Hour, 13 * time.Second} {
				if out[i].Allowed || out[i].RetryAfter != want {
					s.wrong("limit %d: %s, want a retry of %s", i, show(out[i]), want)
				}
			}
			v := caudal.Judge(calls, out)
			if v.Allowed || v.RetryAfter != time.Hour || v.Nearest != 1 {
				s.wrong("the verdict is %+v, want a retry of 1h from limit 1", v)
			}
			if early := s.batch(s.start.Add(time.Hour-us), calls...); caudal.Judge(calls, early).Allowed {
				s.wrong("the request passed a microsecond early")
			}
			if out := s.batch(s.start.Add(time.Hour), calls...); !caudal.Judge(calls, out).Allowed {
				s.wrong("the request was denied after its wait")
			}
		},
	},
	{
		name: "Batch/NeverBeatsAWait",
		rule: "a request with a limit that it can never meet can never succeed, and charges nothing",
		run: func(s *script) {
			a, b := s.scoped("5/h", "a"), s.scoped("3/h", "b")
			calls := []caudal.Call{call(a, "k", 4), call(b, "k", 4)}
			out := s.batch(s.start, calls...)
			if v := caudal.Judge(calls, out); v.Allowed || !v.Never || v.RetryAfter != 0 {
				s.wrong("the verdict is %+v, want never", v)
			}
			s.remaining(s.start, a, "k", 5)
		},
	},
	{
		name: "Batch/LongestDelay",
		rule: "each queue gives its own turn, and the request's delay is the longest",
		run: func(s *script) {
			calls := []caudal.Call{
				call(s.scoped("1/10s leaky_bucket queue 5", "slow"), "k", 1),
				call(s.scoped("1/2s leaky_bucket queue 5", "fast"), "k", 1),
				call(s.scoped("100/h", "rate"), "k", 1),
			}
			for i := range 3 {
				out := s.batch(s.start, calls...)
				if v := caudal.Judge(calls, out); !v.Allowed || v.Delay != seconds(10*i) || out[1].Delay != seconds(2*i) {
					s.wrong("request %d: delays %s and %s, verdict %+v", i+1, out[0].Delay, out[1].Delay, v)
				}
			}
		},
	},
	{
		name: "Batch/CallsThatShareACounter",
		rule: "calls of one request on one counter are checked with their summed cost, and all report what remains after it",
		run: func(s *script) {
			for _, k := range five("10") {
				l := s.limit(k.limit)
				out := s.batch(s.start, call(l, k.kind, 2), call(l, k.kind, 3))
				for i, d := range out {
					if !d.Charged || d.Remaining != 5 || d.Receipt.Cost != uint32(2+i) {
						s.wrong("%s: call %d of a request of 2 and 3: %s, receipt for %d, want 5 remaining", k.kind, i+1, show(d), d.Receipt.Cost)
					}
				}
				out = s.batch(s.start, call(l, k.kind, 3), call(l, k.kind, 3))
				alone := s.take(s.start, l, k.kind, 6)
				for i, d := range out {
					if d.Allowed || d.Charged || d.Remaining != 5 || d.RetryAfter != alone.RetryAfter {
						s.wrong("%s: call %d of a request of 3 and 3 with 5 left: %s, want what cost 6 gets: %s", k.kind, i+1, show(d), show(alone))
					}
				}
				s.remaining(s.start, l, k.kind, 5)
			}
		},
	},
	{
		name: "Batch/SummedCostAboveTheLimit",
		rule: "costs that each fit but together exceed the limit can never succeed, also where their sum does not fit 32 bits",
		run: func(s *script) {
			small, large := s.scoped("5/h", "small"), s.scoped("4294967295/h", "large")
			for _, calls := range [][]caudal.Call{
				{call(small, "k", 3), call(small, "k", 3)},
				{call(large, "k", 1<<32-1), call(large, "k", 1)},
				{call(large, "k", 1<<31), call(large, "k", 1<<31)},
			} {
				for i, d := range s.batch(s.start, calls...) {
					if d.Allowed || !d.Never || d.RetryAfter != 0 || d.Charged {
						s.wrong("call %d of %d and %d: %s, want never", i+1, calls[0].Cost, calls[1].Cost, show(d))
					}
				}
			}
			s.remaining(s.start, small, "k", 5)
			s.remaining(s.start, large, "k", 4294967295)
		},
	},
	{
		name: "Batch/SharedCounterWithOtherNumbers",
		rule: "two limits that differ in numbers only share a counter within a request too",
		run: func(s *script) {
			ten, five := s.limit("10/h fixed_window"), s.limit("5/h fixed_window")
			s.batch(s.start, call(ten, "k", 2), call(five, "k", 2))
			s.remaining(s.start, ten, "k", 6)
			s.remaining(s.start, five, "k", 1)
		},
	},
	{
		name: "Batch/EachCallHasItsReceipt", refunds: true,
		rule: "each charged call of a request can be taken back by itself, once, also where they share a counter",
		run: func(s *script) {
			for _, k := range five("10") {
				l := s.limit(k.limit)
				out := s.batch(s.start, call(l, k.kind, 2), call(l, k.kind, 3))
				s.refund(s.start, cancelOf(out[1].Receipt), nil)
				s.remaining(s.start, l, k.kind, 8)
				s.refund(s.start, cancelOf(out[0].Receipt), nil)
				s.remaining(s.start, l, k.kind, 10)
				s.refund(s.start, cancelOf(out[0].Receipt), caudal.ErrReceiptUsed)
			}
		},
	},
	{
		name: "Batch/ManyLimits",
		rule: "a request of 50 limits is one request",
		run: func(s *script) {
			var calls []caudal.Call
			for i := range 50 {
				kinds := five("10")
				calls = append(calls, call(s.scoped(kinds[i%5].limit, string(rune('a'+i))), "k", 1))
			}
			for n := range 11 {
				out := s.batch(s.start, calls...)
				for i, d := range out {
					if d.Charged != (n < 10) || d.Allowed != (n < 10) {
						s.wrong("request %d, limit %d: %s", n+1, i, show(d))
						return
					}
				}
			}
		},
	},
	{
		name: "Batch/Empty",
		rule: "a request of no limits is no error",
		run:  func(s *script) { s.batch(s.start) },
	},
	{
		name: "Batch/PeeksOnly",
		rule: "a request of peeks counts nothing anywhere",
		run: func(s *script) {
			a, b := s.scoped("5/h", "a"), s.scoped("5/h sliding_log", "b")
			out := s.batch(s.start, call(a, "k", 0), call(b, "k", 0))
			if out[0].Charged || out[1].Charged || !out[0].Allowed || out[1].Remaining != 5 {
				s.wrong("peeks: %s; %s", show(out[0]), show(out[1]))
			}
			s.remaining(s.start, a, "k", 5)
		},
	},
}
