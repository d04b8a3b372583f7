package redisstore

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// takeBackTimeout bounds how long a charge is tried to be taken back.
const takeBackTimeout = 2 * time.Second

// takeScattered decides a batch whose counters live in different slots of a
// Cluster: each counter is asked by itself, all in parallel, and charged when it
// has room; when the request is denied, what was charged is taken back.
func (s *Store) takeScattered(ctx context.Context, at caudal.Instant, r *request, calls []caudal.Call, out []caudal.Decision) error {
	ses, err := s.link.session("take")
	if err != nil {
		return err
	}
	t := s.instant(ses, at)
	for i := range calls {
		out[i] = caudal.Decision{} // so that what was charged shows after a failure
	}
	if err := s.askGroups(ctx, ses, s.groups(r, calls, t.wall), r, calls, t, out); err != nil {
		// No decision was made. What is known to have been charged goes back.
		s.takeBack(ctx, ses, t, calls, out, false)
		return err
	}
	if !caudal.Judge(calls, out).Allowed {
		s.takeBack(ctx, ses, t, calls, out, true)
	}
	return nil
}

// group is the calls of a request that share a counter, and how far they are.
type group struct {
	members []int
	ask     *ask
	full    bool // the node needs the script's text
	asks    int
}

func (s *Store) groups(r *request, calls []caudal.Call, wall int64) []*group {
	groups := make([]*group, 0, len(calls))
	for i, c := range r.counters {
		members := []int{i}
		first := true
		for j, other := range r.counters {
			switch {
			case other != c || j == i:
			case j < i:
				first = false
			default:
				members = append(members, j)
			}
		}
		if first {
			groups = append(groups, &group{members: members, ask: s.askOf(string(s.appendAsk(nil, r, calls, members, true, around(wall))))})
		}
	}
	return groups
}

// around gives one instant for all members of a group, which share a counter.
func around(wall int64) func(int) int64 { return func(int) int64 { return wall } }

// askGroups asks all groups, again those whose node did not know the script or
// lacked boundaries. It goes through all replies, so that out shows what was
// charged, and gives the first error.
func (s *Store) askGroups(ctx context.Context, ses *session, groups []*group, r *request, calls []caudal.Call, t instant, out []caudal.Decision) (first error) {
	for len(groups) > 0 {
		start := time.Now()
		commands := make([]rueidis.Completed, len(groups))
		for i, g := range groups {
			commands[i] = s.command(ses, g.ask, g.full, t.now)
		}
		var again []*group
		for i, result := range ses.client.DoMulti(ctx, commands...) {
			g := groups[i]
			more := s.readGroup(ctx, ses, g, result)
			if s.observed {
				s.observer.Call("take", time.Since(start), g.ask.err)
			}
			switch {
			case g.ask.err != nil:
				first = cmp.Or(first, g.ask.err)
			case !more:
				decide(answer{ask: g.ask}, r, calls, g.members, out)
			case g.asks == maxAsks:
				first = cmp.Or(first, errNoWindow("take"))
			default:
				g.asks++
				if !g.full {
					g.ask = s.askOf(string(s.appendAsk(nil, r, calls, g.members, true, around(g.ask.wall))))
				}
				again = append(again, g)
			}
		}
		if first != nil {
			return first
		}
		groups = again
	}
	return nil
}

// readGroup reads one group's reply; more says that it must be asked again.
func (s *Store) readGroup(ctx context.Context, ses *session, g *group, result rueidis.RedisResult) (more bool) {
	msg, err := result.ToMessage()
	if noScript(err) {
		g.full = true
		return true
	}
	if err != nil {
		g.ask.err = s.failed(ctx, ses, "take", err)
		return false
	}
	g.full = false
	s.readAlone(ctx, ses, g.ask, msg)
	return g.ask.verdicts == ""
}

// takeBack takes back what out says was charged. It goes on after the caller's
// context has ended. With report it waits for that, at most as long as the caller
// would, and lets the decisions of limits with room say what remains without the
// request; what could not be asked any more says what remained with it, which is
// not too much.
func (s *Store) takeBack(ctx context.Context, ses *session, t instant, calls []caudal.Call, out []caudal.Decision, report bool) {
	var undos []undo
	var members []int
	for i := range out[:len(calls)] {
		d := &out[i]
		if !d.Charged {
			continue
		}
		undos = append(undos, undo{
			limit: calls[i].Limit, counter: d.Receipt.Counter, receipt: d.Receipt, n: d.Receipt.Cost,
		})
		members = append(members, i)
		d.Charged, d.Delay, d.Receipt = false, 0, caudal.Receipt{}
	}
	if len(undos) == 0 {
		return
	}
	done := make(chan []string, 1)
	work := func() {
		bg, cancel := context.WithTimeout(s.link.ctx, takeBackTimeout)
		defer cancel()
		replies, _ := s.undo(bg, ses, t, undos) // a charge that cannot be reached stays
		done <- replies
	}
	if !s.inBackground(work) {
		work() // too many already: this caller waits for its own
	}
	if !report {
		return
	}
	select {
	case replies := <-done:
		for n, reply := range replies {
			if i := members[n]; reply != "" {
				parseVerdict(reply[nowSize:]).decide(calls[i].Limit, counter{}, 0, parseNow(reply), rand.Uint64(), &out[i])
				out[i].Allowed = true // as it was when it was asked
				out[i].RetryAfter, out[i].Never = 0, false
			}
		}
	case <-ctx.Done():
	}
}

// inBackground runs f in a goroutine that Close waits for, unless too many run.
func (s *Store) inBackground(f func()) bool {
	select {
	case s.background <- struct{}{}:
	default:
		return false
	}
	started := s.link.background(func() {
		defer func() { <-s.background }()
		f()
	})
	if !started {
		<-s.background
	}
	return started
}
