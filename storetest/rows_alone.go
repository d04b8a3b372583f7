package storetest

import "github.com/caudal-dev/caudal"

// aloneRows are calls that are decided by themselves, and denied calls that count.
var aloneRows = []row{
	{
		name: "Alone/EachIsChargedByItself",
		rule: "calls that stand alone are charged when they have room, whatever the others of the request say, in order",
		run: func(s *script) {
			for _, k := range five("3") {
				narrow, broad := s.scoped(k.limit, "narrow"), s.scoped("10/h", "broad")
				calls := []caudal.Call{alone(call(narrow, k.kind, 3)), alone(call(narrow, k.kind, 1)), alone(call(broad, k.kind, 2))}
				out := s.batch(s.start, calls...)
				if !out[0].Charged || out[1].Allowed || !out[2].Charged {
					s.wrong("%s: %s; %s; %s", k.kind, show(out[0]), show(out[1]), show(out[2]))
				}
				s.remaining(s.start, broad, k.kind, 8)
			}
		},
	},
	{
		name: "Alone/CountDenied",
		rule: "a fixed window counts denied calls where that is asked for, also those that can never succeed; a peek above the limit is denied then",
		run: func(s *script) {
			for _, text := range []string{"10/h fixed_window", "10/day fixed_window timezone Europe/Madrid"} {
				l, more := s.limit(text), s.limit("20"+text[2:])
				for i, c := range []struct {
					cost           uint32
					allowed, never bool
					remaining      uint64
				}{{0, true, false, 10}, {8, true, false, 2}, {3, false, false, 0}, {0, false, false, 0}, {50, false, true, 0}, {1, false, false, 0}} {
					d := s.batch(s.start, counting(call(l, "k", c.cost)))[0]
					if d.Allowed != c.allowed || d.Never != c.never || d.Remaining != c.remaining || d.Charged != (c.allowed && c.cost > 0) {
						s.wrong("%s, call %d of cost %d: %s, want %+v", text, i+1, c.cost, show(d), c)
					}
				}
				if d := s.batch(s.start, counting(call(more, "k", 1)))[0]; d.Allowed {
					s.wrong("%s, after 62 tries: %s, want denied", more.Limit(), show(d))
				}
			}
		},
	},
	{
		name: "Alone/CountDeniedTogether",
		rule: "of a request whose calls are decided together, what denies is counted and the others are not charged",
		run: func(s *script) {
			narrow, broad := s.scoped("1/h fixed_window", "narrow"), s.scoped("10/h fixed_window", "broad")
			calls := []caudal.Call{counting(call(narrow, "k", 1)), counting(call(broad, "k", 1))}
			for range 3 {
				s.batch(s.start, calls...)
			}
			s.remaining(s.start, broad, "k", 9)
			s.remaining(s.start, s.scoped("5/h fixed_window", "narrow"), "k", 2)
		},
	},
	{
		name: "Alone/CountDeniedOnlyWindows",
		rule: "other algorithms never count a denied call",
		run: func(s *script) {
			for _, k := range five("3") {
				if k.kind == "FixedWindow" {
					continue
				}
				l := s.scoped(k.limit, "other")
				s.batch(s.start, counting(call(l, k.kind, 50)))
				s.remaining(s.start, l, k.kind, 3)
			}
		},
	},
}

func alone(c caudal.Call) caudal.Call {
	c.Alone = true
	return c
}

func counting(c caudal.Call) caudal.Call {
	c.CountDenied = true
	return c
}
