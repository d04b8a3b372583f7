package storetest

import (
	"context"
	"errors"
	"strings"

	"github.com/caudal-dev/caudal"
)

// five holds one limit per algorithm that admits n calls at once and no more for
// a while: at least a second a call, so that nothing comes back unseen.
func five(n string) []struct{ kind, limit string } {
	return []struct{ kind, limit string }{
		{"TokenBucket", n + "/h"},
		{"LeakyBucket", n + "/h leaky_bucket queue " + lessOne(n)},
		{"FixedWindow", n + "/h fixed_window"},
		{"SlidingLog", n + "/h sliding_log"},
		{"SlidingWindow", n + "/h sliding_window"},
	}
}

func lessOne(n string) string {
	return map[string]string{"3": "2", "5": "4", "10": "9", "25": "24"}[n]
}

// everyAlgorithmRows are rules that hold for all five alike.
func everyAlgorithmRows() []row {
	var all []row
	for _, k := range five("3") {
		all = append(all, row{
			name: k.kind + "/PeekCountsNothing",
			rule: "cost 0 passes always, is never held, and counts nothing",
			run:  func(s *script) { peeks(s, k.limit) },
		}, row{
			name: k.kind + "/C15CostAboveTheLimit",
			rule: "a cost above the limit can never succeed: denied without a retry time, and nothing is counted",
			run:  func(s *script) { oversized(s, k.limit) },
		}, row{
			name: k.kind + "/C14LimitZero",
			rule: "a limit of 0 denies everything, a peek too, and says that it can never succeed",
			run:  func(s *script) { zero(s, "0"+k.limit[1:]) },
		}, row{
			name: k.kind + "/RetryAfterIsExact",
			rule: "a denied call passes after exactly the wait it was told, and not a microsecond earlier",
			run:  func(s *script) { exactRetry(s, k.limit) },
		}, row{
			name: k.kind + "/DenialChangesNothing",
			rule: "a denied call leaves the counter as it was, however often it is repeated",
			run:  func(s *script) { denials(s, k.limit) },
		}, row{
			name: k.kind + "/OddKeys",
			rule: "any bytes are a key, the empty key and huge ones too, and different bytes are different counters",
			run:  func(s *script) { oddKeys(s, k.limit) },
		}, row{
			name: k.kind + "/ContextThatIsOver",
			rule: "a call whose context is over gets its error and is not charged",
			run:  func(s *script) { cancelled(s, k.limit) },
		}, row{
			name: k.kind + "/C12LongIdle",
			rule: "a counter that rested for 12 hours or 300 years decides like a fresh one",
			run:  func(s *script) { idle(s, k.limit) },
		}, row{
			name: k.kind + "/C06ClockOfAnotherNode",
			rule: "a caller whose clock lags finds what was counted, gets no error, and does not move the counter's time back",
			run:  func(s *script) { lagging(s, k.limit) },
		}, row{
			name: k.kind + "/PeekAheadOfALaggingClock",
			rule: "a peek or a denied call far ahead changes nothing for a caller whose clock lags",
			run:  func(s *script) { peekAhead(s, k.limit) },
		})
	}
	return all
}

func peeks(s *script, limit string) {
	l := s.limit(limit)
	for range 5 {
		if d := s.take(s.start, l, "k", 0); !d.Allowed || d.Charged || d.Delay != 0 || d.Remaining != 3 || d.ResetAfter != 0 || d.Receipt != (caudal.Receipt{}) {
			s.wrong("a peek at a fresh counter: %s", show(d))
		}
	}
	s.take(s.start, l, "k", 3)
	if d := s.take(s.start, l, "k", 0); !d.Allowed || d.Charged || d.Delay != 0 || d.Remaining != 0 || d.RetryAfter != 0 {
		s.wrong("a peek at an exhausted counter: %s", show(d))
	}
}

func oversized(s *script, limit string) {
	l := s.limit(limit)
	for _, cost := range []uint32{4, 1 << 31, 1<<32 - 1} {
		if d := s.take(s.start, l, "k", cost); d.Allowed || !d.Never || d.RetryAfter != 0 || d.Remaining != 3 || d.Charged {
			s.wrong("cost %d: %s, want denied for ever with 3 remaining", cost, show(d))
		}
	}
	if d := s.take(s.start, l, "k", 1); !d.Allowed || d.Remaining != 2 {
		s.wrong("cost 1 after it: %s, want allowed with 2 remaining", show(d))
	}
}

func zero(s *script, limit string) {
	l := s.limit(limit)
	for _, cost := range []uint32{0, 1, 3} {
		want := caudal.Decision{Never: true}
		if d := s.take(s.start, l, "k", cost); d != want {
			s.wrong("cost %d: %s, want %s", cost, show(d), show(want))
		}
	}
}

func exactRetry(s *script, limit string) {
	l := s.limit(limit)
	at := s.start.Add(17 * us)
	for _, cost := range []uint32{2, 1} {
		s.take(at, l, "k", cost)
		at = at.Add(seconds(7))
	}
	for _, cost := range []uint32{1, 2, 3} {
		d := s.take(at, l, "k", cost)
		if d.Allowed || d.RetryAfter <= 0 {
			s.wrong("cost %d: %s, want denied with a wait", cost, show(d))
			return
		}
		if early := s.take(at.Add(d.RetryAfter-us), l, "k", cost); early.Allowed {
			s.wrong("cost %d: told to wait %s, and passed a microsecond earlier", cost, d.RetryAfter)
		}
		at = at.Add(d.RetryAfter)
		if late := s.take(at, l, "k", cost); !late.Allowed {
			s.wrong("cost %d: told to wait %s, and then %s", cost, d.RetryAfter, show(late))
		}
		for s.take(at, l, "k", 1).Allowed { // exhausted again
		}
	}
}

func denials(s *script, limit string) {
	l := s.limit(limit)
	s.take(s.start, l, "k", 2)
	at := s.start.Add(seconds(1))
	before := s.take(at, l, "k", 0)
	for range 10 {
		if d := s.take(at, l, "k", 3); d.Allowed || d.Charged {
			s.wrong("cost 3 with 1 remaining: %s", show(d))
		}
	}
	if after := s.take(at, l, "k", 0); after != before {
		s.wrong("before the denials %s\n          after them %s", show(before), show(after))
	}
}

// oddities are keys that stores have tripped over.
var oddities = []string{
	"", " ", "k", "K", "{", "}", "{}", "{a}", "a", "a}b{c", "{user}:1", "user:1", "*", "?", "[a]", "\\",
	"\x00", "\x00\x00", "\xff\xfe", "a\x00b", "a\nb", "a\r\nb", "ключ", "1", "01", "1.0", "nil", "key with spaces",
	strings.Repeat("x", 10_000), strings.Repeat("x", 10_001), strings.Repeat("x", 1_000_000),
}

func oddKeys(s *script, limit string) {
	l := s.limit(limit)
	for _, key := range oddities {
		if d := s.take(s.start, l, key, 2); !d.Allowed || d.Remaining != 1 {
			s.wrong("key %.20q of %d bytes is not fresh: %s", key, len(key), show(d))
		}
	}
	for _, key := range oddities {
		s.remaining(s.start, l, key, 1)
	}
	key := []byte("reused") // the store must not keep the caller's bytes
	c := caudal.Call{Limit: l, Key: key, Cost: 2}
	s.batch(s.start, c)
	copy(key, "XXXXXX")
	s.remaining(s.start, l, "reused", 1)
	s.remaining(s.start, l, "XXXXXX", 3)
}

func cancelled(s *script, limit string) {
	l := s.limit(limit)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	out := make([]caudal.Decision, 1)
	err := s.store.Take(ctx, s.start, []caudal.Call{call(l, "k", 1)}, out)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, caudal.ErrStore) {
		s.wrong("Take with a cancelled context = error %v, want the context's or ErrStore", err)
	}
	if keyed, ok := s.store.(caudal.KeyStore); ok {
		_, err := keyed.TakeKey(ctx, s.start, l, "k", 1)
		if !errors.Is(err, context.Canceled) && !errors.Is(err, caudal.ErrStore) {
			s.wrong("TakeKey with a cancelled context = error %v, want the context's or ErrStore", err)
		}
	}
	s.remaining(s.start, l, "k", 3)
}

func idle(s *script, limit string) {
	l := s.limit(limit)
	s.take(s.start, l, "k", 3)
	for _, rest := range []int{12 * 3600, 300 * 365 * 86400} {
		at := s.start.Add(seconds(1) * duration(min(rest, 9_000_000_000)))
		if d := s.take(at, l, "k", 3); !d.Allowed || d.Delay != 0 {
			s.wrong("after %d s of rest: %s, want allowed at once", rest, show(d))
		}
	}
}

func lagging(s *script, limit string) {
	l := s.limit(limit)
	at := s.start.Add(seconds(10))
	s.take(at, l, "k", 1)
	behind := at.Add(-600 * ms)
	if d := s.take(behind, l, "k", 0); d.Remaining > 2 {
		s.wrong("0.6 s behind a call of cost 1, %d of 3 remain", d.Remaining)
	}
	s.take(behind, l, "k", 1)
	d := s.take(at, l, "k", 0)
	if d.Remaining > 2 {
		s.wrong("after both, %d of 3 remain", d.Remaining)
	}
	again := s.take(behind, l, "k", 0)
	if again.ResetAfter < d.ResetAfter {
		s.wrong("0.6 s behind, everything is back after %s, sooner than the %s told at the later instant", again.ResetAfter, d.ResetAfter)
	}
}

func peekAhead(s *script, limit string) {
	l := s.limit(limit)
	s.take(s.start, l, "k", 2)
	before := s.take(s.start.Add(seconds(30)), l, "k", 0)
	s.take(s.start.Add(3*3600*seconds(1)), l, "k", 0)
	s.take(s.start.Add(3*3600*seconds(1)), l, "k", 100)
	if after := s.take(s.start.Add(seconds(30)), l, "k", 0); after != before {
		s.wrong("before a peek three hours ahead %s\n                       and after it %s", show(before), show(after))
	}
}
