package memstore

import (
	"context"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
)

// forecast is a copy of one key's state that runs ahead of time.
type forecast struct {
	limit *caudal.Compiled
	start int64 // the instant of the copy
	now   int64 // how far the copy has run
	take  func(now int64, cost uint32, apply bool) caudal.Decision
}

// Forecast copies a key's state; see caudal.Forecaster.
func (s *Store) Forecast(ctx context.Context, at caudal.Instant, l *caudal.Compiled, key string) (caudal.Forecast, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	now := l.Micros(s.now(at))
	h := s.hashString(l, key)
	sh := s.shardOf(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i := sh.table.find(h)
	f := &forecast{limit: l, start: now, now: now}
	var slot slot
	if i >= 0 {
		slot = *sh.table.slot(i)
	}
	switch l.Algorithm() {
	case caudal.TokenBucket:
		f.take = ahead(l, slot.tokenBucket())
	case caudal.FixedWindow:
		f.take = ahead(l, slot.fixedWindow())
	case caudal.SlidingWindow:
		f.take = ahead(l, slot.slidingWindow())
	case caudal.LeakyBucket:
		b := sh.leakyBucketLocked(i, h)
		b.Freed = append([]algorithm.Turn(nil), b.Freed...)
		f.take = ahead(l, b)
	case caudal.SlidingLog:
		var v algorithm.SlidingLog
		if i >= 0 {
			v = sh.logs.view(slot.log())
			v.Entries = append([]algorithm.Entry(nil), v.Entries...)
		}
		f.take = aheadLog(l, v)
	}
	return f, nil
}

// state is a state that is a value.
type state[S any] interface {
	Take(l *caudal.Compiled, now int64, cost uint32) (S, caudal.Decision)
}

func ahead[S state[S]](l *caudal.Compiled, s S) func(int64, uint32, bool) caudal.Decision {
	return func(now int64, cost uint32, apply bool) caudal.Decision {
		next, d := s.Take(l, now, cost)
		if apply {
			s = next
		}
		return d
	}
}

func aheadLog(l *caudal.Compiled, v algorithm.SlidingLog) func(int64, uint32, bool) caudal.Decision {
	return func(now int64, cost uint32, apply bool) caudal.Decision {
		if apply {
			return v.Take(l, now, cost)
		}
		peeked := v // only the view is purged
		at := peeked.Purge(l, now)
		return peeked.Decide(l, at, now, cost)
	}
}

func (f *forecast) Peek(cost uint32) (time.Duration, bool) { return f.run(cost, false) }
func (f *forecast) Take(cost uint32) (time.Duration, bool) { return f.run(cost, true) }

// run finds when a call of this cost would pass: at once, or after the wait that
// the denial names.
func (f *forecast) run(cost uint32, apply bool) (time.Duration, bool) {
	now := f.now
	d := f.take(now, cost, apply)
	if !d.Allowed && !d.Never {
		now += d.RetryAfter.Microseconds()
		d = f.take(now, cost, apply)
	}
	if apply {
		f.now = now
	}
	return time.Duration(now-f.start)*time.Microsecond + d.Delay, d.Allowed
}
