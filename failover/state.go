package failover

import (
	"sync"
	"time"
)

// State says whether the shared store is asked, since when, and why not.
type State struct {
	// Degraded says that decisions are made without the shared store.
	Degraded bool
	// Since is when that became so; at first, when the Store was made.
	Since time.Time
	// Kind is the kind of the last failure, such as "timeout"; "" before any.
	Kind string
	// Err is that failure. It may name hosts: for logs, not for clients.
	Err error
	// Instances is how many instances are thought to share the store.
	Instances int
}

// Stats are figures about a Store, all since it was made.
type Stats struct {
	// Errors counts failed calls of the shared store by kind.
	Errors map[string]uint64
	// Local, Passed and Refused count limits of calls that were answered without
	// the shared store: by a local count, by letting pass, by denying.
	Local, Passed, Refused uint64
	// InFlight is how many calls the shared store has now, and Stuck how many of
	// them are past their deadline.
	InFlight, Stuck int
	// LocalKeys is how many keys are counted in this process now.
	LocalKeys int64
}

// maxKinds bounds the kinds of failures that are told apart.
const maxKinds = 32

// failures counts failures by kind and remembers the last.
type failures struct {
	mu     sync.Mutex
	byKind map[string]uint64
	kind   string
	err    error
}

// failed notes a failure and gives its kind.
func (s *Store) failed(err error) string {
	kind := kindOf(err)
	f := &s.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKind == nil {
		f.byKind = make(map[string]uint64)
	}
	if _, known := f.byKind[kind]; !known && len(f.byKind) >= maxKinds-1 {
		kind = KindOther
	}
	f.byKind[kind]++
	f.kind, f.err = kind, err
	return kind
}

func (f *failures) last() (kind string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kind, f.err
}

// Degraded reports whether decisions are made without the shared store now.
func (s *Store) Degraded() bool { return s.open.Load() }

// State gives the present state.
func (s *Store) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stateLocked()
}

func (s *Store) stateLocked() State {
	st := State{Degraded: s.open.Load(), Since: s.since, Instances: s.Instances()}
	st.Kind, st.Err = s.failures.last()
	return st
}

// Stats gives the figures.
func (s *Store) Stats() Stats {
	st := Stats{
		Errors: map[string]uint64{}, LocalKeys: s.local.Stats().Keys,
		Local: s.answered[0].Load(), Passed: s.answered[1].Load(), Refused: s.answered[2].Load(),
		InFlight: cap(s.slots.free) - len(s.slots.free) - int(s.slots.withheld.Load()),
		Stuck:    int(s.slots.stuck.Load()),
	}
	s.failures.mu.Lock()
	defer s.failures.mu.Unlock()
	for kind, n := range s.failures.byKind {
		st.Errors[kind] = n
	}
	return st
}

// degrade is called by the breaker, under its lock, when it opens.
func (s *Store) degrade() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostAt.Store(s.o.Clock.Now().Mono)
	s.open.Store(true)
	s.since = time.Now()
	s.changes.add(s.stateLocked())
	s.suspect()
}

// recover is called by the breaker, under its lock, when it closes.
func (s *Store) recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open.Store(false)
	s.since = time.Now()
	s.changes.add(s.stateLocked())
}

// maxChanges bounds the changes that wait to be told.
const maxChanges = 16

// changes waits for one goroutine to tell of them.
type changes struct {
	wake chan struct{} // one element

	mu    sync.Mutex
	queue []State
}

func (c *changes) add(st State) {
	c.mu.Lock()
	if len(c.queue) == maxChanges {
		c.queue = append(c.queue[:0], c.queue[1:]...)
	}
	c.queue = append(c.queue, st)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *changes) take() (State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return State{}, false
	}
	st := c.queue[0]
	c.queue = append(c.queue[:0], c.queue[1:]...)
	return st, true
}

// tell passes changes on until the Store is closed.
func (s *Store) tell() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.changes.wake:
		}
		for {
			st, ok := s.changes.take()
			if !ok {
				break
			}
			s.o.OnChange(st)
		}
	}
}
