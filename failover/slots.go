package failover

import (
	"context"
	"sync/atomic"
)

// slots bound the calls in flight. Some can be withheld, so that a store that has
// just come back gets few calls at first: each success gives one back, which
// doubles the calls in flight with every round of answers.
type slots struct {
	free     chan struct{}
	withheld atomic.Int64
	stuck    atomic.Int64 // held by calls that nobody waits for any more
}

func newSlots(n int) *slots {
	s := &slots{free: make(chan struct{}, n)}
	for range n {
		s.free <- struct{}{}
	}
	return s
}

// acquire waits for a slot until the context ends, and reports whether it had to.
// It does not wait where every slot is held by a call that is past its deadline.
func (s *slots) acquire(ctx context.Context) (waited bool, err error) {
	select {
	case <-s.free:
		return false, nil
	default:
	}
	if s.allStuck() {
		return false, errStuck
	}
	select {
	case <-s.free:
		return true, nil
	case <-ctx.Done():
		if s.allStuck() {
			return true, errStuck
		}
		return true, errBusy
	}
}

// allStuck reports whether no holder of a slot can be expected to give it back.
func (s *slots) allStuck() bool {
	stuck, held := s.stuck.Load(), int64(cap(s.free)-len(s.free))-s.withheld.Load()
	return stuck > 0 && stuck >= held
}

// release gives a slot back, and after a success one that was withheld.
func (s *slots) release(success bool) {
	s.free <- struct{}{}
	if !success {
		return
	}
	for n := s.withheld.Load(); n > 0; n = s.withheld.Load() {
		if s.withheld.CompareAndSwap(n, n-1) {
			s.free <- struct{}{}
			return
		}
	}
}

// withhold leaves at most keep slots free.
func (s *slots) withhold(keep int) {
	for len(s.free) > keep {
		select {
		case <-s.free:
			s.withheld.Add(1)
		default:
			return
		}
	}
}

// drain takes every slot, so that no call has one, and gives how many calls still
// had theirs when the context ended.
func (s *slots) drain(ctx context.Context) (left int) {
	for n := int64(0); n < int64(cap(s.free))-s.withheld.Load(); n++ {
		select {
		case <-s.free:
			continue
		default:
		}
		select {
		case <-s.free:
		case <-ctx.Done():
			return cap(s.free) - int(s.withheld.Load()+n)
		}
	}
	return 0
}
