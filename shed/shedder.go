package shed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"

	"github.com/caudal-dev/caudal/rule"
)

// ErrShed says that a call was refused because there is no room for it now.
var ErrShed = errors.New("shed: no room for a call of this priority now")

// Call is what a Shedder knows of a call.
type Call struct {
	// Priority says how important it is; none counts as normal.
	Priority rule.Priority
	// Client names whose call it is, by something that clients cannot make up at
	// will. Calls without a client share as one.
	Client string
	// Weight is how much more than a client of weight 1 the client may have; 0
	// counts as 1.
	Weight uint32
}

// MaxWeight bounds Call.Weight.
const MaxWeight = 1000

// Shedder says which calls may go on. Make it with New. It is safe for
// concurrent use.
type Shedder struct {
	opts  Options
	limit adaptivelimiter.AdaptiveLimiter[any]
	bound atomic.Int64 // of the limit, as the probe found it

	full atomic.Bool // when a call last joined or left the queue

	mu       sync.Mutex
	probe    probe
	inflight int
	waiting  int
	levels   [rule.PriorityCritical + 1]level // by priority
	estimate float64                          // of the time that a call holds its slot, in seconds
	admitted [rule.PriorityCritical + 1]uint64
	shed     [rule.PriorityCritical + 1]uint64
}

// New makes a shedder. The error names the option and a mend.
func New(o Options) (*Shedder, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Shedder{opts: o, estimate: 0.01}
	s.limit = newLimit(&o, &s.bound)
	reserve := 0
	for p := rule.PriorityLow; p <= rule.PriorityCritical; p++ {
		reserve += o.Reserves[p]
		s.levels[p].init(reserve)
	}
	return s, nil
}

// Acquire takes a slot for a call, and waits for one for a moment when there is
// none. The slot must be released. The error is ErrShed when there is no room, or
// the context's when that ends first; nothing is held then.
func (s *Shedder) Acquire(ctx context.Context, call Call) (*Slot, error) {
	p := call.Priority.OrNormal()
	if p > rule.PriorityCritical {
		return nil, fmt.Errorf("shed: %s is no priority", p)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.pass(time.Now())
	c := s.levels[p].client(call)
	s.dispatch()   // the limit may have risen since
	if s.fits(p) { // so nobody of this priority or above waits
		slot := s.admit(p, c)
		s.mu.Unlock()
		return slot, nil
	}
	w := s.enqueue(p, c)
	if w == nil {
		s.shed[p]++
		s.levels[p].forget(c)
		s.mu.Unlock()
		return nil, ErrShed
	}
	s.mu.Unlock()
	return s.wait(ctx, w)
}

// Refuses reports whether Acquire would shed a call at once, and counts it as shed
// then: the caller is not to ask again for it. It takes nothing, and costs next to
// nothing while there is room; so it is worth asking before any work is done for the
// call, such as a look into a shared store.
func (s *Shedder) Refuses(call Call) bool {
	p := call.Priority.OrNormal()
	if p > rule.PriorityCritical || !s.full.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(time.Now())
	s.dispatch()
	if s.fits(p) || s.waiting < s.room() || s.victim(p, s.levels[p].look(call)) != nil {
		return false
	}
	s.probe.crowded = true
	s.shed[p]++
	return true
}

// wait waits for what becomes of a call in the queue.
func (s *Shedder) wait(ctx context.Context, w *waiter) (*Slot, error) {
	timer := time.NewTimer(s.opts.MaxWait)
	defer timer.Stop()
	var err error
	select {
	case slot := <-w.answer:
		return shedIfNil(slot)
	case <-timer.C:
		err = ErrShed
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case slot := <-w.answer: // it was decided just now
		if slot == nil || err == ErrShed {
			return shedIfNil(slot)
		}
		s.mu.Unlock()
		slot.Release()
		s.mu.Lock() // as defer expects
		return nil, err
	default:
	}
	s.leave(w)
	if err == ErrShed {
		s.shed[w.priority]++
	}
	return nil, err
}

func shedIfNil(slot *Slot) (*Slot, error) {
	if slot == nil {
		return nil, ErrShed
	}
	return slot, nil
}

// fits reports whether there is a slot for a priority. s.mu must be held, as for
// all below.
func (s *Shedder) fits(p rule.Priority) bool {
	limit := s.present()
	if s.probe.probing {
		// The most important ones hardly notice.
		part := 4
		if p == rule.PriorityCritical {
			part = 2
		}
		return s.inflight < max(1, limit/part)
	}
	return s.inflight < limit+limit*s.levels[p].reserve/100
}

// present gives the limit of this moment.
func (s *Shedder) present() int {
	limit := s.limit.Limit()
	if b := int(s.bound.Load()); b > 0 {
		limit = min(max(limit, s.probe.least()), b)
	}
	return min(max(limit, s.opts.MinLimit), s.opts.MaxLimit)
}

// pass lets the probe know the time.
func (s *Shedder) pass(now time.Time) {
	if s.opts.MinLimit == s.opts.MaxLimit {
		return // nothing to find
	}
	s.probe.pass(now, s.inflight, max(1, s.present()/2))
	s.bound.Store(int64(s.probe.bound()))
}

// admit gives a call its slot. Of calls in a reserve the limiter knows nothing.
func (s *Shedder) admit(p rule.Priority, c *client) *Slot {
	slot := &Slot{shedder: s, client: c, priority: p, start: time.Now(), charged: s.estimate, probing: s.probe.probing, measured: s.probe.take()}
	slot.permit, _ = s.limit.TryAcquirePermit()
	s.inflight++
	s.admitted[p]++
	s.levels[p].charge(c, s.estimate)
	return slot
}

// dispatch gives free slots to those that wait, the most important first.
func (s *Shedder) dispatch() {
	for p := rule.PriorityCritical; p > 0 && s.waiting > 0; p-- {
		l := &s.levels[p]
		for l.waiting > 0 && s.fits(p) {
			w := l.next()
			s.queued(-1)
			w.answer <- s.admit(p, w.client)
		}
	}
}

// Slot is the room that a call has. It belongs to the call; its methods may be
// called by any goroutine. A nil Slot is none, and its methods do nothing.
type Slot struct {
	shedder  *Shedder
	client   *client
	priority rule.Priority
	start    time.Time
	charged  float64 // seconds
	measured bool    // by a probe
	probing  bool    // let in by a probe, which the limiter must not take for good times

	mu       sync.Mutex
	permit   adaptivelimiter.Permit // nil in a reserve and when over
	answered bool
	released bool
}

// Answered says that the service has begun to answer. The time until now is what
// the limit follows; whatever comes after, such as a client that reads slowly, says
// nothing about the service. A call that is never answered (the client hung up, the
// connection broke) does not count at all. It works once.
func (s *Slot) Answered() {
	if s == nil {
		return
	}
	s.mu.Lock() // before the shedder's
	defer s.mu.Unlock()
	if s.answered || s.released {
		return
	}
	s.answered = true
	s.shedder.answered(s)
	if s.permit == nil || s.probing {
		return
	}
	s.permit.Record()
	// The slot is held on, and the limiter must see that it is.
	s.permit, _ = s.shedder.limit.TryAcquirePermit()
}

// answered tells the probe of an answer.
func (s *Shedder) answered(slot *Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probe.answer(time.Since(slot.start), slot.measured)
}

// Release gives the slot back. It works once; later calls do nothing.
func (s *Slot) Release() {
	if s == nil {
		return
	}
	s.mu.Lock()
	released := s.released
	if s.released = true; !released && s.permit != nil {
		s.permit.Drop()
		s.permit = nil
	}
	s.mu.Unlock()
	if released {
		return
	}
	s.shedder.mu.Lock()
	defer s.shedder.mu.Unlock()
	s.shedder.release(s)
}

// release books a slot that was given back.
func (s *Shedder) release(slot *Slot) {
	now := time.Now()
	held := now.Sub(slot.start).Seconds()
	s.inflight--
	if slot.measured && !slot.answered {
		s.probe.lost()
	}
	s.pass(now)
	s.estimate += (held - s.estimate) / 64
	s.levels[slot.priority].settle(slot.client, held-slot.charged)
	s.dispatch()
}

// RetryAfter says when a call that was shed may come again: in a second if it is
// critical, later the less important it is, and not all at the same moment.
func RetryAfter(p rule.Priority) time.Duration {
	most := time.Duration(rule.PriorityCritical-min(p.OrNormal(), rule.PriorityCritical)) * 2 * time.Second
	return time.Second + rand.N(most+1).Round(time.Second)
}

// Stats are figures of a moment.
type Stats struct {
	// Limit is how many calls may be under way, Inflight how many are, and Waiting
	// how many wait.
	Limit, Inflight, Waiting int
	// Admitted and Shed count calls since the start, by priority.
	Admitted, Shed map[rule.Priority]uint64
}

// Stats gives the figures of this moment.
func (s *Shedder) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Limit: s.present(), Inflight: s.inflight, Waiting: s.waiting,
		Admitted: map[rule.Priority]uint64{}, Shed: map[rule.Priority]uint64{}}
	for p := rule.PriorityLow; p <= rule.PriorityCritical; p++ {
		st.Admitted[p], st.Shed[p] = s.admitted[p], s.shed[p]
	}
	return st
}
