package failover

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/caudal-dev/caudal"
)

const (
	// reconnect is how long a probe of a store that is gone may take, because it
	// may have to connect first.
	reconnect = 250 * time.Millisecond
	// A store that has been gone for longGone is asked less often.
	longGone       = 30 * time.Second
	longGoneFactor = 4
	// reopenWith is how many calls at once a store gets that has just come back.
	reopenWith = 8
	// sweepEvery is how often local counts that have become fresh are dropped.
	sweepEvery = time.Minute
	// proofs is how many probes in a row must succeed to end a closer look.
	proofs = 2
	// looks bounds the probes of a closer look: two windows of the breaker. Where
	// it has not opened by then, calls do succeed.
	looks = 2 * windowDeadlines
)

// watch looks closer when a call failed, and asks a store that is gone whether it
// is back. It is one goroutine, so there is never more than one probe.
func (s *Store) watch() {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-sweep.C:
			if s.local.Len() > 0 {
				s.local.Sweep()
			}
			continue
		case <-s.suspected:
		}
		s.lookCloser()
		s.awaitReturn()
	}
}

// lookCloser probes the store, one probe after the other, until it is clear
// whether it is there: so a dead store is found however few calls there are. Only
// failures are reported to the breaker. Successes of probes would outweigh the
// failures of calls where part of a store is broken.
func (s *Store) lookCloser() {
	for good, n := 0, 0; good < proofs && n < looks && !s.open.Load() && s.ctx.Err() == nil; n++ {
		begun := time.Now()
		switch err := s.probe(s.o.Deadline); err {
		case nil:
			good++
		case error(errStuck): // it was not asked
		default:
			good = 0
			if report, refused := s.breaker.Allow(); refused == nil {
				report(s.counts(s.ctx, err))
			}
		}
		s.pause(s.o.Deadline - time.Since(begun))
	}
}

// awaitReturn probes a store that is gone until it is back.
func (s *Store) awaitReturn() {
	for begun := time.Now(); s.open.Load(); {
		if !s.pause(s.probeWait(time.Since(begun))) {
			return
		}
		report, refused := s.breaker.Allow()
		if refused != nil {
			continue
		}
		err := s.probeReturn()
		if err == nil {
			s.slots.withhold(reopenWith)
		}
		report(err)
	}
}

// probeWait is how long to wait for the next probe of a store that has been gone
// for so long.
func (s *Store) probeWait(gone time.Duration) time.Duration {
	p := s.o.ProbeInterval
	if gone > longGone {
		p *= longGoneFactor
	}
	return p - p/5 + rand.N(2*p/5+1)
}

// probeReturn asks a store that may have to connect first, and then whether it is
// fast: one that is back but slow would be given up again at once.
func (s *Store) probeReturn() error {
	begun := time.Now()
	err := s.probe(max(reconnect, s.o.Deadline))
	if err == nil && time.Since(begun) > s.o.Deadline {
		err = s.probe(s.o.Deadline)
	}
	return err
}

// The probe is a charge on counters of its own: a peek would not notice a store
// that can be read but not written. The keys take turns so that the nodes of a
// cluster do too.
var probeLimit = mustCompile(caudal.PerSecond(1_000_000), "failover probe")

const probeKeys = 16

func mustCompile(l caudal.Limit, scope string) *caudal.Compiled {
	c, err := l.Compile(scope, scope)
	if err != nil {
		panic(err)
	}
	return c
}

func (s *Store) probe(timeout time.Duration) error {
	j := s.newJob(caudal.Instant{})
	j.batch([]caudal.Call{{Limit: probeLimit, Key: strconv.AppendInt(nil, rand.Int64N(probeKeys), 10), Cost: 1}})
	begun := time.Now()
	mine, err := s.wait(s.ctx, j, s.probes, timeout)
	if mine {
		j.free()
	}
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if err == error(errStuck) {
		return err // it was not asked
	}
	kind := ""
	if err != nil {
		kind = s.failed(err)
	}
	if s.o.OnCall != nil {
		s.o.OnCall(opProbe, time.Since(begun), kind)
	}
	return err
}

// pause waits; it reports false when the Store was closed meanwhile.
func (s *Store) pause(d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.ctx.Done():
		}
	}
	return s.ctx.Err() == nil
}

// beat tells the other instances of this one, and counts them, until the Store is
// closed. While the store is gone the last number known stands.
func (s *Store) beat() {
	for {
		if !s.open.Load() {
			s.beatOnce()
		}
		if !s.pause(s.o.HeartInterval) {
			return
		}
	}
}

func (s *Store) beatOnce() {
	j := s.newJob(caudal.Instant{})
	counted := make(chan int, 1) // no variable: an abandoned beat may still count
	j.rare = func(ctx context.Context) error {
		n, err := s.heart.Beat(ctx)
		counted <- n
		return err
	}
	begun := time.Now()
	mine, err := s.wait(s.ctx, j, s.beats, max(s.o.Deadline, s.o.HeartInterval/2))
	if mine {
		j.free()
	}
	if s.ctx.Err() != nil {
		return
	}
	s.saw(opBeat, time.Since(begun), err, s.ctx)
	if err == nil {
		if n := <-counted; n > 0 {
			s.instances.Store(int64(n))
		}
	}
}
