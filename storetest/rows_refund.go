package storetest

import (
	"errors"

	"github.com/caudal-dev/caudal"
)

// refundRows take charges back, with a receipt and without.
var refundRows = []row{
	{
		name: "Refund/TokenBucket", refunds: true,
		rule:  "tokens are given back, at most to full",
		limit: "1/s burst 5",
		steps: []step{
			{cost: 2, as: "two", remaining: 3, until: "2s"},
			{cost: 3, as: "three", remaining: 0, until: "5s"},
			{refund: "three", n: 2, remaining: 2, until: "3s"},
			{at: "2s", refund: "two", remaining: 5}, // 4 were there, 2 come back
			{at: "2s", cost: 5, remaining: 0, until: "5s"},
		},
	},
	{
		name: "Refund/FixedWindow", refunds: true,
		rule:  "the window that was charged gets it back; once it is over, no window does",
		limit: "5/m fixed_window",
		steps: []step{
			{cost: 2, as: "early", remaining: 3, until: "1m"},
			{cost: 3, as: "late", remaining: 0, until: "1m"},
			{at: "59s", refund: "early", remaining: 2, until: "1s"},
			{at: "61s", cost: 4, remaining: 1, until: "59s"},
			{at: "62s", refund: "late", remaining: 1, until: "58s"},
		},
	},
	{
		name: "Refund/SlidingWindow", refunds: true,
		rule:  "the window that was charged gets it back as long as it counts, also as the previous one",
		limit: "100/m sliding_window",
		steps: []step{
			{cost: 50, remaining: 50, until: "1m58.800001s"},
			{cost: 30, as: "before", remaining: 20, until: "1m59.250001s"},
			{at: "75s", cost: 10, as: "now", remaining: 30, until: "1m39.000001s"},
			{at: "75s", refund: "before", n: 28, remaining: 51, until: "1m39.000001s"}, // 10 + 52 x 0.75
			{at: "75s", refund: "now", remaining: 61, until: "43.846154s"},
			{at: "75s", cost: 20, as: "old", remaining: 41, until: "1m42.000001s"},
			{at: "190s", cost: 5, remaining: 95, until: "1m38.000001s"},
			{at: "190s", refund: "old", remaining: 95, until: "1m38.000001s"},
		},
	},
	{
		name: "Refund/SlidingLog", refunds: true,
		rule:  "the entry that was charged shrinks or goes; the others stay as long as they would",
		limit: "5/m sliding_log",
		steps: []step{
			{cost: 2, as: "first", remaining: 3, until: "1m"},
			{at: "10s", cost: 2, as: "second", remaining: 1, until: "1m"},
			{at: "20s", cost: 1, as: "third", remaining: 0, until: "1m"},
			{at: "20s", refund: "second", n: 1, remaining: 1, until: "1m"},
			{at: "20s", refund: "third", remaining: 2, until: "50s"},
			{at: "60s", remaining: 4, until: "10s"},
			{at: "61s", refund: "first", remaining: 4, until: "9s"}, // it has left by itself
			{at: "70s", remaining: 5},
		},
	},
	{
		name: "Refund/WithNothingBetweenUndoesTheCharge", refunds: true,
		rule: "charged and taken back at once: the counter decides as if the call had never come",
		run: func(s *script) {
			for _, k := range five("10") {
				l := s.limit(k.limit)
				s.take(s.start, l, "k", 4)
				at := s.start.Add(seconds(5))
				before := s.take(at, l, "k", 0)
				d := s.take(at, l, "k", 3)
				s.refund(at, caudal.Refund{Receipt: d.Receipt, N: 3}, nil)
				if after := s.take(at, l, "k", 0); after != before {
					s.wrong("%s: before %s\n     after %s", k.kind, show(before), show(after))
				}
			}
		},
	},
	{
		name: "Refund/OnceOnly", refunds: true,
		rule: "a receipt works once: the second refund fails with ErrReceiptUsed and changes nothing, a part counts as the whole",
		run: func(s *script) {
			for _, k := range five("10") {
				l := s.limit(k.limit)
				d := s.take(s.start, l, "k", 4)
				s.take(s.start, l, "k", 4)
				s.refund(s.start, caudal.Refund{Receipt: d.Receipt, N: 1}, nil)
				before := s.take(s.start, l, "k", 0)
				for _, n := range []uint32{1, 3, 4} {
					s.refund(s.start, caudal.Refund{Receipt: d.Receipt, N: n}, caudal.ErrReceiptUsed)
				}
				if after := s.take(s.start, l, "k", 0); after != before {
					s.wrong("%s: a receipt used again changed %s\n  to %s", k.kind, show(before), show(after))
				}
			}
		},
	},
	{
		name: "Refund/TheOthersOfARequestAreDone", refunds: true,
		rule: "when one receipt of a request was used before, the others are refunded all the same",
		run: func(s *script) {
			a, b := s.scoped("10/h", "a"), s.scoped("10/h fixed_window", "b")
			out := s.batch(s.start, call(a, "k", 4), call(b, "k", 3))
			s.refund(s.start, caudal.Refund{Receipt: out[0].Receipt, N: 4}, nil)
			err := s.refunder.Refund(s.ctx, s.start, []caudal.Refund{{Receipt: out[0].Receipt, N: 4}, {Receipt: out[1].Receipt, N: 3}})
			if !errors.Is(err, caudal.ErrReceiptUsed) {
				s.wrong("Refund = %v, want ErrReceiptUsed", err)
			}
			s.remaining(s.start, a, "k", 10)
			s.remaining(s.start, b, "k", 10)
		},
	},
	{
		name: "Refund/Invalid", refunds: true,
		rule: "more than was charged, or neither a receipt nor a counter, is ErrInvalidRefund and changes nothing",
		run: func(s *script) {
			for _, k := range five("10") {
				l := s.limit(k.limit)
				d := s.take(s.start, l, "k", 4)
				s.refund(s.start, caudal.Refund{Receipt: d.Receipt, N: 5}, caudal.ErrInvalidRefund)
				s.refund(s.start, caudal.Refund{N: 1}, caudal.ErrInvalidRefund)
				s.remaining(s.start, l, "k", 6)
				s.refund(s.start, caudal.Refund{Receipt: d.Receipt, N: 4}, nil)
				s.remaining(s.start, l, "k", 10)
			}
		},
	},
	{
		name: "Refund/AfterTheLimitChanged", refunds: true,
		rule: "a receipt finds its counter although the limit has other numbers by now",
		run: func(s *script) {
			for i, k := range five("10") {
				key := k.kind
				old, now := s.limit(k.limit), s.limit("5"+five("5")[i].limit[1:])
				d := s.take(s.start, old, key, 3)
				if k.kind != "LeakyBucket" { // whose turns stand, at another pace
					s.remaining(s.start, now, key, 2)
				}
				s.refund(s.start, caudal.Refund{Receipt: d.Receipt, N: 3}, nil)
				s.remaining(s.start, old, key, 10)
			}
		},
	},
	{
		name: "Refund/C17WithoutAReceipt", refunds: true,
		rule: "an operator gives back tokens, the current window, the newest entries, the last turns; never below nothing used",
		run: func(s *script) {
			for _, k := range five("5") {
				l := s.limit(k.limit)
				s.take(s.start, l, "k", 4)
				s.refund(s.start, caudal.Refund{Limit: l, Key: "k", N: 2}, nil)
				s.remaining(s.start, l, "k", 3)
				s.refund(s.start, caudal.Refund{Limit: l, Key: "k", N: 1<<32 - 1}, nil)
				s.remaining(s.start, l, "k", 5)
				s.refund(s.start, caudal.Refund{Limit: l, Key: "never seen", N: 10}, nil)
				s.remaining(s.start, l, "never seen", 5)
				if d := s.take(s.start, l, "k", 5); !d.Allowed || d.Delay != 0 {
					s.wrong("%s: cost 5 afterwards: %s, want allowed at once", k.kind, show(d))
				}
			}
		},
	},
	{
		name: "Refund/CreditTakesTheNewestEntries", refunds: true,
		rule:  "without a receipt a sliding log gives back its newest entries first",
		limit: "5/m sliding_log",
		steps: []step{
			{cost: 2, remaining: 3, until: "1m"},
			{at: "10s", cost: 3, remaining: 0, until: "1m"},
			{at: "20s", credit: 4, remaining: 4, until: "40s"},
		},
	},
	{
		name: "Refund/CreditOfThePresentWindow", refunds: true,
		rule:  "without a receipt only the current window gives back, not the previous one",
		limit: "10/m sliding_window",
		steps: []step{
			{cost: 8, remaining: 2, until: "1m52.500001s"},
			{at: "90s", cost: 1, remaining: 5, until: "30.000001s"},
			{at: "90s", credit: 5, remaining: 6, until: "22.500001s"},
		},
	},
}

// refund takes one charge back and checks the error.
func (s *script) refund(at instant, r caudal.Refund, want error) {
	s.Helper()
	if err := s.refunder.Refund(s.ctx, at, []caudal.Refund{r}); !errors.Is(err, want) {
		s.wrong("Refund of %d = error %v, want %v", r.N, err, want)
	}
}
