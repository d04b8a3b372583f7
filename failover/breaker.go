package failover

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// The breaker's window is eight deadlines: 40 ms. A dead store has then failed
// every call in it.
const (
	windowDeadlines = 8
	// minFailures is how many failures in the window open the breaker, if they are
	// at least half. One call alone would be a hiccup.
	minFailures = 5
)

func (s *Store) newBreaker() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "store",
		MaxRequests:  1,
		Interval:     windowDeadlines * s.o.Deadline,
		BucketPeriod: s.o.Deadline,
		// The prober decides when to ask; the breaker only has to let it.
		Timeout: s.o.ProbeInterval / 4,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.TotalFailures >= minFailures && c.TotalFailures >= c.TotalSuccesses
		},
		IsSuccessful: func(err error) bool { return err == nil || answers(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errNotCounted) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed && to == gobreaker.StateOpen:
				s.degrade()
			case to == gobreaker.StateClosed:
				s.recover()
			}
		},
	})
}

// ask runs a job on the shared store if the breaker lets it, and tells the
// breaker and the observers what came of it. See wait for mine.
func (s *Store) ask(ctx context.Context, op string, j *job) (mine bool, err error) {
	report, refused := s.breaker.Allow()
	if refused != nil {
		return true, errOpen
	}
	begun := time.Now()
	mine, err = s.wait(ctx, j, s.slots, s.o.Deadline)
	s.saw(op, time.Since(begun), err, ctx)
	report(s.counts(ctx, err))
	return mine, err
}

// counts gives what the breaker is told of a call: nothing when its caller went
// away, when a single counter or request was at fault, or when the bound on calls in flight
// was the reason and they may still be answered.
func (s *Store) counts(ctx context.Context, err error) error {
	switch {
	case err == nil || answers(err):
		return nil
	case ctx.Err() != nil, err == error(errBusy), others(kindOf(err)):
		return errNotCounted
	}
	return err
}

// saw notes a call of the shared store. One that failed starts a closer look, and
// so does one whose caller could not wait any longer: where all callers are in
// more of a hurry than the deadline, a dead store would go unnoticed.
func (s *Store) saw(op string, took time.Duration, err error, caller context.Context) {
	kind := ""
	switch {
	case err == nil || answers(err):
	case caller.Err() != nil:
		if errors.Is(caller.Err(), context.DeadlineExceeded) {
			s.suspect()
		}
		return
	default:
		if kind = s.failed(err); !others(kind) {
			s.suspect()
		}
	}
	if s.o.OnCall != nil {
		s.o.OnCall(op, took, kind)
	}
}

// suspect wakes the watcher.
func (s *Store) suspect() {
	select {
	case s.suspected <- struct{}{}:
	default:
	}
}
