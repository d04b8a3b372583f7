package shed

import "github.com/caudal-dev/caudal/rule"

// waiter is a call that waits.
type waiter struct {
	client   *client
	priority rule.Priority
	answer   chan *Slot // holds one: a slot, or nil for a call that was pushed out
}

// minQueue is the least room to wait where nothing is configured: a limit of a
// few calls must still take a burst.
const minQueue = 32

func (s *Shedder) room() int {
	if s.opts.Queue > 0 {
		return s.opts.Queue
	}
	return max(minQueue, s.present())
}

// enqueue lets a call wait, in the place of a less important one when there is no
// room. It gives nil when there is none: all that wait are more important, or of
// clients that have less.
func (s *Shedder) enqueue(p rule.Priority, c *client) *waiter {
	if s.waiting >= s.room() {
		victim := s.victim(p, c)
		if victim == nil {
			s.probe.crowded = true
			return nil
		}
		s.shed[victim.priority]++
		s.leave(victim)
		victim.answer <- nil
	}
	s.probe.crowded = true
	w := &waiter{client: c, priority: p, answer: make(chan *Slot, 1)}
	s.levels[p].push(w)
	s.queued(1)
	return w
}

// queued counts a call more or less in the queue.
func (s *Shedder) queued(change int) {
	s.waiting += change
	s.full.Store(s.waiting >= s.room())
}

// victim finds the call that has to make room for one of the given priority and
// client: one of the lowest priority, of the client there that has the most, and
// the one of its calls that came last.
func (s *Shedder) victim(p rule.Priority, c *client) *waiter {
	for lowest := rule.PriorityLow; lowest <= p; lowest++ {
		l := &s.levels[lowest]
		if l.waiting == 0 {
			continue
		}
		most := l.largest()
		if lowest == p && most.share(0) <= c.share(1) {
			return nil
		}
		return most.waiting[len(most.waiting)-1]
	}
	return nil
}

// leave takes a call out of the queue.
func (s *Shedder) leave(w *waiter) {
	s.levels[w.priority].remove(w)
	s.queued(-1)
}
