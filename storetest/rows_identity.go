package storetest

import "github.com/caudal-dev/caudal"

// counter names one counter of an identity row.
type counter struct{ limit, scope, key string }

// identityRows say which counters are one and which are not.
var identityRows = []row{
	distinct("Scope", "the scope that the rules give",
		counter{"5/h", "a", "k"}, counter{"5/h", "b", "k"}, counter{"5/h", "", "k"}),
	distinct("Key", "the key",
		counter{"5/h", "a", "k"}, counter{"5/h", "a", "l"}, counter{"5/h", "a", ""}),
	distinct("Algorithm", "the algorithm",
		counter{"5/h", "a", "k"}, counter{"5/h leaky_bucket queue 4", "a", "k"}, counter{"5/h fixed_window", "a", "k"},
		counter{"5/h sliding_log", "a", "k"}, counter{"5/h sliding_window", "a", "k"}),
	distinct("Period", "the period as written, unit and multiplier",
		counter{"5/m", "a", "k"}, counter{"5/h", "a", "k"}, counter{"5/2h", "a", "k"}, counter{"5/60s", "a", "k"}, counter{"5/60m", "a", "k"}),
	distinct("Timezone", "the timezone",
		counter{"5/day fixed_window", "a", "k"}, counter{"5/day fixed_window timezone Europe/Madrid", "a", "k"}, counter{"5/day fixed_window timezone Europe/Berlin", "a", "k"}),
	distinct("Epoch", "whether windows follow the calendar",
		counter{"5/week fixed_window", "a", "k"}, counter{"5/week fixed_window epoch", "a", "k"}),
	distinct("ConcatenationOfScopeAndKey", "where the scope ends and the key begins",
		counter{"5/h", "ab", "c"}, counter{"5/h", "a", "bc"}, counter{"5/h", "abc", ""}, counter{"5/h", "", "abc"}),
	distinct("Braces", "every byte, also where a store gives braces a meaning (C27)",
		counter{"5/h", "a", "{a}"}, counter{"5/h", "a", "a"}, counter{"5/h", "{a}", "a"}, counter{"5/h", "a", "{a"}, counter{"5/h", "a", "a}b{c"}, counter{"5/h", "a", ""}),
	{
		name: "Identity/KeyThatSpellsAScope",
		rule: "a key is never mistaken for a scope: those of two limits, exchanged or equal, are different counters",
		run: func(s *script) {
			a, b := s.scoped("5/h", "a"), s.scoped("5/h fixed_window", "b")
			counters := []struct {
				l   *caudal.Compiled
				key string
			}{{a, b.Scope()}, {b, a.Scope()}, {a, a.Scope()}, {b, b.Scope()}}
			for i, c := range counters {
				if d := s.take(s.start, c.l, c.key, uint32(i+1)); d.Remaining != uint64(4-i) {
					s.wrong("counter %d is not fresh: %s", i, show(d))
				}
			}
			for i, c := range counters {
				s.remaining(s.start, c.l, c.key, uint64(4-i))
			}
		},
	},
	{
		name: "Identity/NumbersAreNotPartOfIt",
		rule: "limits that differ only in numbers, or in the name that people see, share their counters",
		run: func(s *script) {
			named, err := caudal.PerHour(9).Compile("another name", "a")
			if err != nil {
				s.Fatal(err)
			}
			for i, l := range []*caudal.Compiled{s.scoped("5/h burst 10", "a"), s.scoped("7/h burst 10", "a"), s.scoped("5/h burst 20", "a"), named} {
				d := s.take(s.start, l, "k", 1)
				if used := d.Limit - d.Remaining; used != uint64(i+1) {
					s.wrong("%s finds %d used, want %d", l.Limit(), used, i+1)
				}
			}
		},
	},
	{
		name: "Identity/C35EachRuleItsOwnCounter",
		rule: "two rules on one request and key count apart: the narrow one denies the 11th call, not the 6th",
		run: func(s *script) {
			any, method := s.scoped("1000/m", "any method"), s.scoped("10/m", "method=call")
			for n := range 11 {
				out := s.batch(s.start, call(any, "k", 1), call(method, "k", 1))
				if out[1].Allowed != (n < 10) || !out[0].Allowed {
					s.wrong("call %d: %s; %s", n+1, show(out[0]), show(out[1]))
				}
			}
		},
	},
}

// distinct makes a row in which every counter is another one.
func distinct(name, what string, counters ...counter) row {
	return row{
		name: "Identity/" + name,
		rule: "counters that differ in " + what + " are different counters",
		run: func(s *script) {
			for i, c := range counters {
				if d := s.take(s.start, s.scoped(c.limit, c.scope), c.key, uint32(1+i%5)); d.Remaining != uint64(4-i%5) {
					s.wrong("%+v is not fresh: %s", c, show(d))
				}
			}
			for i, c := range counters {
				s.remaining(s.start, s.scoped(c.limit, c.scope), c.key, uint64(4-i%5))
			}
		},
	}
}
