package caudal

import (
	"context"
	"sync"
	"time"
)

// Wait asks for one call of this key and blocks until it may leave; see WaitN.
func (l *Limiter) Wait(ctx context.Context, key string) (Decision, error) {
	return l.WaitN(ctx, key, 1)
}

// WaitN blocks until a call of this key and cost may leave, first come first
// served per key within this process. A call that cannot leave before the
// context's deadline, or ever, is denied at once: the decision says so, and
// nothing is charged. The error is the context's when it ends while waiting,
// and nothing stays charged then.
//
// The place in line is worked out by running the counter ahead of time. When
// others charge the same counter meanwhile (another process, or Allow), the
// wait can become longer than was foreseen, and is denied when it no longer
// fits the deadline. SetLimit wakes those in line: they go by the new limit.
func (l *Limiter) WaitN(ctx context.Context, key string, cost uint32) (Decision, error) {
	q := l.queues.enter(key)
	defer l.queues.leave(key, q)

	w := &waiter{cost: cost, turn: make(chan struct{})}
	d, settled, err := l.join(ctx, q, w, key)
	if settled || err != nil {
		if err != nil || !d.Allowed {
			return d, err
		}
		return l.depart(ctx, d)
	}
	served := false
	defer func() { q.remove(w, served) }()
	select {
	case <-w.turn: // first in line
	case <-ctx.Done():
		return Decision{}, ctx.Err()
	}
	for {
		changed := l.queues.limitChanged()
		d, err := l.AllowN(ctx, key, cost)
		switch {
		case err != nil || d.Never || d.Unavailable: // a store that is gone names no time
			return d, err
		case d.Allowed:
			served = true
			return l.depart(ctx, d)
		case !fits(ctx, d.RetryAfter):
			return d, nil
		}
		if err := sleep(ctx, d.RetryAfter, changed); err != nil {
			return Decision{}, err
		}
	}
}

// join asks at once when nobody is waiting; else, or when denied, it finds the
// place in line. settled means that d is the answer.
func (l *Limiter) join(ctx context.Context, q *queue, w *waiter, key string) (d Decision, settled bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiters) == 0 {
		d, err = l.AllowN(ctx, key, w.cost)
		if err != nil || d.Allowed || d.Never || d.Unavailable || !fits(ctx, d.RetryAfter) {
			return d, true, err
		}
	}
	wait, ok, err := q.foresee(ctx, l, key, w.cost)
	if err != nil {
		return Decision{}, true, err
	}
	if !ok || !fits(ctx, wait) {
		d, err = l.AllowN(ctx, key, 0) // a peek, for the other fields
		d.Allowed, d.Charged, d.Delay = false, false, 0
		d.RetryAfter, d.Never = wait, !ok
		if d.Never {
			d.RetryAfter = 0
		}
		return d, true, err
	}
	if q.forecast != nil {
		q.forecast.Take(w.cost)
	}
	q.waiters = append(q.waiters, w)
	if len(q.waiters) == 1 {
		close(w.turn)
	}
	return Decision{}, false, nil
}

// depart sleeps until the call's turn; if the context ends first, or cannot
// last so long, the turn is given back.
func (l *Limiter) depart(ctx context.Context, d Decision) (Decision, error) {
	if d.Delay == 0 {
		return d, nil
	}
	if !fits(ctx, d.Delay) {
		err := l.Cancel(context.WithoutCancel(ctx), d.Receipt)
		d.RetryAfter, d.Allowed, d.Charged, d.Delay = d.Delay, false, false, 0
		d.Receipt = Receipt{}
		return d, err
	}
	if err := sleep(ctx, d.Delay, nil); err != nil { // a turn once given stands
		_ = l.Cancel(context.WithoutCancel(ctx), d.Receipt) // the context's error is the one to report
		return Decision{}, err
	}
	return d, nil
}

// fits reports whether a wait ends before the context's deadline. One that ends
// with it would be a race between leaving and giving up.
func fits(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || wait < time.Until(deadline)
}

// sleep sleeps for a time, or until wake is closed.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// queues holds the lines of waiters, one per key that somebody waits for.
type queues struct {
	mu      sync.Mutex
	m       map[string]*queue
	changed chan struct{} // closed when the limit is changed; nil until somebody waits
}

// limitChanged gives a channel that is closed when the limit is changed.
func (qs *queues) limitChanged() <-chan struct{} {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.changed == nil {
		qs.changed = make(chan struct{})
	}
	return qs.changed
}

// wake lets the first of each line ask again.
func (qs *queues) wake() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.changed != nil {
		close(qs.changed)
		qs.changed = nil
	}
}

func (qs *queues) enter(key string) *queue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.m == nil {
		qs.m = make(map[string]*queue)
	}
	q := qs.m[key]
	if q == nil {
		q = &queue{}
		qs.m[key] = q
	}
	q.users++
	return q
}

func (qs *queues) leave(key string, q *queue) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(qs.m, key)
	}
	if len(qs.m) == 0 {
		qs.changed = nil // nobody listens
	}
}

// queue is the line of one key. Only the first in line asks the store.
type queue struct {
	users int // guarded by queues.mu

	mu      sync.Mutex
	waiters []*waiter
	// forecast runs the counter ahead past everyone in line; nil when it must be
	// made anew, because somebody left the line.
	forecast Forecast
	made     time.Time
	limit    *Compiled // that the forecast was made for
}

type waiter struct {
	cost uint32
	turn chan struct{} // closed when first in line
}

// foresee tells how long a newcomer of this cost would wait. A store that cannot
// forecast gives 0: the newcomer joins and finds out.
func (q *queue) foresee(ctx context.Context, l *Limiter, key string, cost uint32) (wait time.Duration, ok bool, err error) {
	if limit := l.limit.Load(); q.forecast == nil || q.limit != limit {
		q.forecast = nil
		store, can := l.store.(Forecaster)
		if !can {
			return 0, true, nil
		}
		q.forecast, err = store.Forecast(ctx, Instant{}, limit, key)
		if err != nil {
			q.forecast = nil
			return 0, false, err
		}
		q.made, q.limit = time.Now(), limit
		for _, w := range q.waiters {
			q.forecast.Take(w.cost)
		}
	}
	wait, ok = q.forecast.Peek(cost)
	return max(0, wait-time.Since(q.made)), ok, nil
}

// remove takes a waiter out of line and calls the next. The forecast stays good
// when the waiter was served as foreseen.
func (q *queue) remove(w *waiter, served bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.waiters {
		if other == w {
			first := i == 0
			q.waiters = append(q.waiters[:i], q.waiters[i+1:]...)
			if !served || len(q.waiters) == 0 {
				q.forecast = nil
			}
			if first && len(q.waiters) > 0 {
				close(q.waiters[0].turn)
			}
			return
		}
	}
}
