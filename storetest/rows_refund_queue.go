package storetest

// queueRefundRows cancel calls that wait in a leaky bucket. The turns are 10 s
// apart: 0, 10, 20 and 30 s.
var queueRefundRows = []row{
	{
		name: "Cancel/Tail", refunds: true,
		rule:  "the call that holds the last turn moves the tail back: the next call gets that turn",
		limit: "1/10s leaky_bucket queue 3",
		steps: []step{
			{cost: 1, times: 3, as: "tail", remaining: 1, until: "30s", delay: "20s"},
			{at: "1s", refund: "tail", remaining: 2, until: "19s"},
			{at: "1s", cost: 1, remaining: 1, until: "29s", delay: "19s"},
		},
	},
	{
		name: "Cancel/Middle", refunds: true,
		rule:  "a cancelled turn ahead goes to the next new call of cost 1, and those behind keep theirs",
		limit: "1/10s leaky_bucket queue 3",
		steps: []step{
			{cost: 1, remaining: 3, until: "10s"},
			{cost: 1, as: "middle", remaining: 2, until: "20s", delay: "10s"},
			{cost: 1, times: 2, remaining: 0, until: "40s", delay: "30s"},
			{at: "1s", refund: "middle", remaining: 1, until: "39s"},
			{at: "1s", cost: 2, denied: true, remaining: 1, retry: "19s", until: "39s"},
			{at: "1s", cost: 1, remaining: 0, until: "39s", delay: "9s"},
			{at: "1s", cost: 1, denied: true, retry: "9s", until: "39s"},
		},
	},
	{
		name: "Cancel/HeadBeforeItsTurn", refunds: true,
		rule:  "the first in line cancels: its turn goes to the next new call, at the same instant",
		limit: "1/10s leaky_bucket queue 3",
		steps: []step{
			{cost: 1, as: "gone", remaining: 3, until: "10s"},
			{cost: 1, as: "head", remaining: 2, until: "20s", delay: "10s"},
			{cost: 1, remaining: 1, until: "30s", delay: "20s"},
			{at: "5s", refund: "head", remaining: 1, until: "25s"},
			{at: "10s", cost: 1, remaining: 2, until: "20s"},
		},
	},
	{
		name: "Cancel/ATurnThatHasPassedIsLost", refunds: true,
		rule:  "a cancelled turn that no call took in time is lost, and so is one cancelled after it has come while others wait behind",
		limit: "1/10s leaky_bucket queue 3",
		steps: []step{
			{cost: 1, remaining: 3, until: "10s"},
			{cost: 1, as: "second", remaining: 2, until: "20s", delay: "10s"},
			{cost: 1, as: "third", remaining: 1, until: "30s", delay: "20s"},
			{cost: 1, remaining: 0, until: "40s", delay: "30s"},
			{at: "1s", refund: "second", remaining: 1, until: "39s"},
			{at: "10.000001s", cost: 1, remaining: 0, until: "39.999999s", delay: "29.999999s"},
			{at: "20.000001s", refund: "third", cost: 1, remaining: 0, until: "39.999999s", delay: "29.999999s"},
		},
	},
	{
		name: "Cancel/TheLastTurnAfterItHasCome", refunds: true,
		rule:  "a call that never left and holds the last turn moves the tail back also when that turn has come",
		limit: "1/10s leaky_bucket queue 3",
		steps: []step{
			{cost: 1, remaining: 3, until: "10s"},
			{cost: 1, as: "late", remaining: 2, until: "20s", delay: "10s"},
			{at: "12s", remaining: 3, until: "8s"},
			{at: "12s", refund: "late", remaining: 4},
			{at: "12s", cost: 1, remaining: 3, until: "10s"},
		},
	},
	{
		name: "Cancel/ACallThatLeftGetsNothing", refunds: true,
		rule:  "a call that left its queue has used its turn: nothing comes back",
		limit: "1/10s leaky_bucket queue 3",
		steps: []step{
			{cost: 1, as: "left", remaining: 3, until: "10s"},
			{refund: "left", left: true, remaining: 3, until: "10s"},
			{at: "1s", cost: 1, as: "left too", remaining: 2, until: "19s", delay: "9s"},
			{at: "2s", refund: "left too", left: true, remaining: 2, until: "18s"},
			{at: "2s", cost: 1, remaining: 1, until: "28s", delay: "18s"},
		},
	},
	{
		name: "Cancel/MiddleThenTail", refunds: true,
		rule:  "when the tail moves back to a cancelled turn, it moves on over it",
		limit: "1/10s leaky_bucket queue 3",
		steps: []step{
			{cost: 1, remaining: 3, until: "10s"},
			{cost: 1, as: "middle", remaining: 2, until: "20s", delay: "10s"},
			{cost: 1, as: "tail", remaining: 1, until: "30s", delay: "20s"},
			{at: "1s", refund: "middle", remaining: 1, until: "29s"},
			{at: "1s", refund: "tail", remaining: 3, until: "9s"},
			{at: "1s", cost: 3, remaining: 0, until: "39s", delay: "9s"},
		},
	},
	{
		name: "Cancel/CostOfSeveralTurns", refunds: true,
		rule:  "cancelled turns of a call of cost n are freed one by one, and a part gives back its last turns",
		limit: "1/10s leaky_bucket queue 5",
		steps: []step{
			{cost: 3, as: "three", remaining: 3, until: "30s"},
			{cost: 1, as: "behind", remaining: 2, until: "40s", delay: "30s"},
			{at: "1s", refund: "three", n: 2, remaining: 2, until: "39s"},
			{at: "1s", cost: 1, remaining: 2, until: "39s", delay: "9s"},
			{at: "1s", cost: 1, remaining: 2, until: "39s", delay: "19s"},
			{at: "1s", cost: 1, remaining: 1, until: "49s", delay: "39s"},
		},
	},
	{
		name: "Cancel/ATakenTurnCanBeCancelledAgain", refunds: true,
		rule:  "whoever took a freed turn may cancel it too, with its own receipt",
		limit: "1/10s leaky_bucket queue 3",
		steps: []step{
			{cost: 1, remaining: 3, until: "10s"},
			{cost: 1, as: "first", remaining: 2, until: "20s", delay: "10s"},
			{cost: 1, remaining: 1, until: "30s", delay: "20s"},
			{at: "1s", refund: "first", cost: 1, as: "second", remaining: 1, until: "29s", delay: "9s"},
			{at: "2s", refund: "second", cost: 1, remaining: 1, until: "28s", delay: "8s"},
			{at: "2s", cost: 1, remaining: 0, until: "38s", delay: "28s"},
		},
	},
	{
		name: "Cancel/FreedTurnBeyondAShorterQueue", refunds: true,
		rule:  "a freed turn further ahead than the queue now allows is not given yet",
		limit: "1/10s leaky_bucket queue 5",
		steps: []step{
			{cost: 1, times: 4, remaining: 2, until: "40s", delay: "30s"},
			{cost: 1, as: "freed", remaining: 1, until: "50s", delay: "40s"},
			{cost: 1, remaining: 0, until: "60s", delay: "50s"},
			{at: "1s", refund: "freed", remaining: 1, until: "59s"},
			{at: "1s", limit: "1/10s leaky_bucket queue 1", cost: 1, denied: true, retry: "29s", until: "59s"},
			{at: "30s", cost: 1, remaining: 0, until: "30s", delay: "10s"},
		},
	},
	{
		name: "Cancel/TheTailUnderASlowerLimit", refunds: true,
		rule: "when the limit was made slower while calls wait, a cancelled tail goes back to its own first turn, and not behind those of others",
		run: func(s *script) {
			fast, slow := s.limit("10/10s leaky_bucket queue 20"), s.limit("1/10s leaky_bucket queue 20")
			for range 6 {
				s.take(s.start, fast, "k", 1) // at 0 to 5 s
			}
			tail := s.take(s.start, fast, "k", 3)                                   // at 6, 7 and 8 s
			s.refund(s.start, cancelOf(s.take(s.start, slow, "k", 1).Receipt), nil) // the queue counts by the slower limit now
			r := cancelOf(tail.Receipt)
			r.N = 2
			s.refund(s.start, r, nil)
			for i, want := range []int{7, 17} {
				if d := s.take(s.start, slow, "k", 1); d.Delay != seconds(want) {
					s.wrong("call %d: %s, want a delay of %d s", i+1, show(d), want)
				}
			}
		},
	},
	{
		name: "Cancel/C92ClientsThatHangUp", refunds: true, shortLived: false,
		rule: "20 calls at once, 15 of them cancel: their turns go to later callers, none of which waits behind the cancelled",
		run: func(s *script) {
			l := s.limit("10/100s leaky_bucket queue 20")
			var waiting []receipt
			for range 20 {
				waiting = append(waiting, s.take(s.start, l, "k", 1).Receipt)
			}
			at := s.start.Add(seconds(2))
			for _, r := range waiting[5:] { // the first five stay, at 0 to 40 s
				s.refund(at, cancelOf(r), nil)
			}
			for i := range 15 {
				if d := s.take(at, l, "k", 1); !d.Allowed || d.Delay != seconds(48+10*i) {
					s.wrong("later call %d: %s, want a delay of %d s", i+1, show(d), 48+10*i)
					return
				}
			}
		},
	},
}
