package storetest

import (
	"fmt"
	"sync"

	"github.com/caudal-dev/caudal"
)

// racers is how many goroutines ask at once.
const racers = 200

// raceRows are C37: check and count are one step.
func raceRows() []row {
	var all []row
	for _, k := range five("25") {
		all = append(all, row{
			name: "Race/C37OneKey/" + k.kind,
			rule: "200 callers at one instant, a limit of 25: exactly 25 pass, and each sees another number remain",
			run: func(s *script) {
				for round := range s.opts.Rounds {
					raceOneKey(s, s.limit(k.limit), fmt.Sprint("key ", round))
				}
			},
		})
	}
	return append(all, row{
		name: "Race/TwoLimits",
		rule: "200 requests at one instant on limits of 25 and 40, in either order: no more than 25 pass, and both limits were charged for those alone",
		run: func(s *script) {
			for round := range s.opts.Rounds {
				raceTwoLimits(s, fmt.Sprint("key ", round))
			}
		},
	}, row{
		name: "Race/RefundOnce", refunds: true,
		rule: "of many who refund one receipt at once, one succeeds",
		run: func(s *script) {
			for round := range s.opts.Rounds {
				raceRefund(s, fmt.Sprint("key ", round))
			}
		},
	})
}

// atOnce runs f in many goroutines that start together.
func atOnce(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	barrier := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-barrier
			f(i)
		})
	}
	ready.Wait()
	close(barrier)
	done.Wait()
}

func raceOneKey(s *script, l *caudal.Compiled, key string) {
	out := make([]caudal.Decision, racers)
	atOnce(racers, func(i int) {
		if err := s.store.Take(s.ctx, s.start, []caudal.Call{call(l, key, 1)}, out[i:i+1]); err != nil {
			s.Errorf("Take = error %v", err)
		}
	})
	passed, seen := 0, map[uint64]bool{}
	ids := map[receipt]bool{}
	for _, d := range out {
		if d.Allowed {
			passed++
			seen[d.Remaining] = true
			ids[d.Receipt] = true
		}
	}
	if passed != 25 || len(seen) != 25 || len(ids) != 25 {
		s.wrong("%s: %d passed, who saw %d different numbers remain and got %d different receipts, want 25 of each", l.Limit(), passed, len(seen), len(ids))
	}
	s.remaining(s.start, l, key, 0)
}

func raceTwoLimits(s *script, key string) {
	narrow, wide := s.scoped("25/h", "narrow"), s.scoped("40/h fixed_window", "wide")
	var mu sync.Mutex
	passed := 0
	atOnce(racers, func(i int) {
		calls := []caudal.Call{call(narrow, key, 1), call(wide, key, 1)}
		if i%2 == 1 {
			calls[0], calls[1] = calls[1], calls[0]
		}
		out := make([]caudal.Decision, 2)
		if err := s.store.Take(s.ctx, s.start, calls, out); err != nil {
			s.Errorf("Take = error %v", err)
		}
		if caudal.Judge(calls, out).Allowed {
			mu.Lock()
			passed++
			mu.Unlock()
		}
	})
	if passed > 25 || passed < 25 && !s.opts.SplitBatches {
		s.wrong("%d requests passed, want 25", passed)
	}
	s.remaining(s.start, narrow, key, uint64(25-passed))
	s.remaining(s.start, wide, key, uint64(40-passed))
}

func raceRefund(s *script, key string) {
	l := s.limit("10/h")
	r := s.take(s.start, l, key, 3).Receipt
	s.take(s.start, l, key, 7)
	var mu sync.Mutex
	done := 0
	atOnce(20, func(int) {
		if s.refunder.Refund(s.ctx, s.start, []caudal.Refund{cancelOf(r)}) == nil {
			mu.Lock()
			done++
			mu.Unlock()
		}
	})
	if done != 1 {
		s.wrong("%d refunds of one receipt succeeded, want 1", done)
	}
	s.remaining(s.start, l, key, 3)
}
