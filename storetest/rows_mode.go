package storetest

import "github.com/caudal-dev/caudal"

// modeRows are limits that do not enforce.
var modeRows = []row{
	{
		name: "Mode/ShadowNeverDenies",
		rule: "a shadow limit is charged while it has room, then reports its denial and is not charged, and the request passes",
		run: func(s *script) {
			for _, k := range five("3") {
				wide, shadow := s.scoped("10/h", "wide"), s.scoped(k.limit, "shadow")
				calls := []caudal.Call{call(wide, k.kind, 1), inMode(caudal.Shadow, shadow, k.kind)}
				for n := range 5 {
					out := s.batch(s.start, calls...)
					room := n < 3
					if !out[0].Charged || out[1].Charged != room || out[1].Allowed != room {
						s.wrong("%s, request %d: %s; shadow %s", k.kind, n+1, show(out[0]), show(out[1]))
					}
					if v := caudal.Judge(calls, out); !v.Allowed || v.Delay != 0 {
						s.wrong("%s, request %d: verdict %+v, want allowed without delay", k.kind, n+1, v)
					}
				}
				s.remaining(s.start, shadow, k.kind, 0)
			}
		},
	},
	{
		name: "Mode/C72ShadowDoesNotStopTheEnforced",
		rule: "a shadow limit that is exhausted hides nothing: the enforced limit beside it still denies, and then nothing is charged",
		run: func(s *script) {
			shadow, enforced := s.scoped("3/h", "shadow"), s.scoped("1/h", "enforced")
			calls := []caudal.Call{inMode(caudal.Shadow, shadow, "k"), call(enforced, "k", 1)}
			if out := s.batch(s.start, calls...); !out[0].Charged || !out[1].Charged {
				s.wrong("the first request: %s; %s", show(out[0]), show(out[1]))
			}
			out := s.batch(s.start, calls...)
			if out[0].Charged || out[1].Allowed || caudal.Judge(calls, out).Allowed {
				s.wrong("the second request: shadow %s; enforced %s", show(out[0]), show(out[1]))
			}
			s.remaining(s.start, shadow, "k", 2)
		},
	},
	{
		name: "Mode/ShadowAlone",
		rule: "a request with shadow limits only always passes",
		run: func(s *script) {
			shadow := s.scoped("1/h fixed_window", "shadow")
			calls := []caudal.Call{inMode(caudal.Shadow, shadow, "k")}
			for n, charged := range []bool{true, false, false} {
				out := s.batch(s.start, calls...)
				if v := caudal.Judge(calls, out); !v.Allowed || v.Nearest != -1 || out[0].Charged != charged {
					s.wrong("request %d: %s, verdict %+v", n+1, show(out[0]), v)
				}
			}
		},
	},
	{
		name: "Mode/QuotaUntilAllAreOver",
		rule: "quota limits deny only when all of them are over: until then those with room are charged and the others report; once all are, nothing is charged",
		run: func(s *script) {
			small, large, enforced := s.scoped("1/h", "small"), s.scoped("2/h", "large"), s.scoped("10/h", "enforced")
			calls := []caudal.Call{inMode(caudal.Quota, small, "k"), inMode(caudal.Quota, large, "k"), call(enforced, "k", 1)}
			for n, want := range []struct{ small, large, passes bool }{{true, true, true}, {false, true, true}, {false, false, false}} {
				out := s.batch(s.start, calls...)
				v := caudal.Judge(calls, out)
				if out[0].Charged != want.small || out[1].Charged != want.large || out[2].Charged != want.passes || v.Allowed != want.passes {
					s.wrong("request %d: small %s; large %s; enforced %s; verdict %+v", n+1, show(out[0]), show(out[1]), show(out[2]), v)
				}
			}
			s.remaining(s.start, enforced, "k", 8)
		},
	},
	{
		name: "Mode/C71DeniedByTheNarrow",
		rule: "broad 10, narrow 3: of 5 calls on both 3 pass, and then 7 on the broad alone",
		run: func(s *script) {
			broad, narrow := s.scoped("10/m fixed_window", "broad"), s.scoped("3/m fixed_window", "narrow")
			for range 5 {
				s.batch(s.start, call(broad, "k", 1), call(narrow, "k", 1))
			}
			passed := 0
			for range 10 {
				if s.take(s.start, broad, "k", 1).Allowed {
					passed++
				}
			}
			if passed != 7 {
				s.wrong("%d calls passed on the broad limit alone, want 7", passed)
			}
		},
	},
}

func inMode(m caudal.Mode, l *caudal.Compiled, key string) caudal.Call {
	c := call(l, key, 1)
	c.Mode = m
	return c
}
