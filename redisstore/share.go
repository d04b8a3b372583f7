package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// How much is asked together: this many script calls are under way at a time, each
// of at most so many requests and limits. A server works on one while the next is
// on its way; more would only make each smaller.
const (
	maxUnderWay = 2
	maxTogether = 64
	maxKeys     = 256
)

// shareTimeout bounds how long a script call that several callers wait for may
// take. They leave at their own deadlines; this only frees its place.
const shareTimeout = 5 * time.Second

// sharer lets callers who ask at the same time share script calls: who finds the
// places taken waits, and the next call carries all who wait. Nobody waits for
// company: a caller who is alone asks at once. The zero value is ready.
type sharer struct {
	mu       sync.Mutex
	underWay int
	waiting  []*waiter
}

// waiter is a caller who waits for a shared call.
type waiter struct {
	ask   *ask
	ses   *session
	state atomic.Int32
	done  chan struct{}
}

// States of a waiter. A caller who leaves before the ask was sent takes it along,
// so that nothing is charged that nobody waits for.
const (
	stateWaiting int32 = iota
	stateSent
	stateLeft
)

// submit asks, together with others where that is possible: not on a Cluster,
// where each key has its own node, and not for callers who bring their own time.
func (s *Store) submit(ctx context.Context, ses *session, q *ask, now string) (*ask, error) {
	if s.cluster || now != "" {
		s.askAlone(ctx, ses, q, now)
		return q, q.err
	}
	x := &s.sharer
	x.mu.Lock()
	if x.underWay < maxUnderWay && len(x.waiting) == 0 {
		x.underWay++
		x.mu.Unlock()
		s.askAlone(ctx, ses, q, now)
		s.next()
		return q, q.err
	}
	w := &waiter{ask: q, ses: ses, done: make(chan struct{})}
	x.waiting = append(x.waiting, w)
	x.mu.Unlock()
	select {
	case <-w.done:
		return q, q.err
	case <-ctx.Done():
		if w.state.CompareAndSwap(stateWaiting, stateLeft) {
			x.remove(w)
		}
		return nil, fail(ctx, "take", ctx.Err())
	}
}

// remove takes a waiter out of line.
func (x *sharer) remove(w *waiter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, other := range x.waiting {
		if other == w {
			x.waiting = append(x.waiting[:i], x.waiting[i+1:]...)
			return
		}
	}
}

// next gives a place that was freed to those who wait, or back.
func (s *Store) next() {
	batch := s.sharer.take()
	if batch == nil {
		return
	}
	work := func() {
		for ; batch != nil; batch = s.sharer.take() {
			s.askShared(batch)
		}
	}
	if !s.link.background(work) {
		work() // the store is closed, and says so to each
	}
}

// take gives the next who go together: those at the front of the line who came
// with one session. With nobody waiting it gives the place back and nil.
func (x *sharer) take() []*waiter {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, keys := 0, 0
	for n < len(x.waiting) && n < maxTogether && x.waiting[n].ses == x.waiting[0].ses {
		if keys += len(x.waiting[n].ask.keys); keys > maxKeys && n > 0 {
			break
		}
		n++
	}
	if n == 0 {
		x.underWay--
		return nil
	}
	batch := append([]*waiter(nil), x.waiting[:n]...)
	rest := copy(x.waiting, x.waiting[n:])
	clear(x.waiting[rest:])
	x.waiting = x.waiting[:rest]
	return batch
}

// askShared asks for a batch and hands out what is said.
func (s *Store) askShared(batch []*waiter) {
	sent := batch[:0]
	for _, w := range batch {
		if w.state.CompareAndSwap(stateWaiting, stateSent) {
			sent = append(sent, w)
		}
	}
	if len(sent) == 0 {
		return
	}
	ses := sent[0].ses
	ctx, cancel := context.WithTimeout(s.link.ctx, shareTimeout)
	defer cancel()
	if len(sent) == 1 {
		s.askAlone(ctx, ses, sent[0].ask, "")
		close(sent[0].done)
		return
	}
	groups := alike(sent)
	sc, keys, args := s.join(groups)
	msg, err := s.exec(ctx, ses, "take", func(full bool) rueidis.Completed { return call(ses, sc, full, keys, args) })
	var list []rueidis.RedisMessage
	if err == nil {
		if list, err = msg.ToArray(); err != nil || len(list) != len(groups)+1 {
			err = unreadable("take")
		}
	}
	for i, g := range groups {
		for n, w := range g {
			switch {
			case err != nil:
				w.ask.err = err
			case len(g) == 1:
				s.readPart(ctx, ses, w.ask, list[0], list[i+1])
			default:
				s.readShare(ctx, ses, w.ask, list[0], list[i+1], n)
			}
			close(w.done)
		}
	}
}

// readShare takes what the script said to the n-th of several who asked the same.
// It stops with the first who is denied; who comes after is told the same.
func (s *Store) readShare(ctx context.Context, ses *session, q *ask, head, part rueidis.RedisMessage, n int) {
	text, err := part.ToString()
	if err != nil || len(text) == 0 || len(text)%verdictSize != 0 {
		s.readPart(ctx, ses, q, head, part) // an error, or boundaries that are missing: for all of them
		return
	}
	now, err := head.ToString()
	if err != nil || len(now) != nowSize {
		q.err = unreadable("take")
		return
	}
	from := min(n*verdictSize, len(text)-verdictSize)
	q.err, q.now, q.verdicts = nil, parseNow(now), text[from:from+verdictSize]
}

// alike puts those together who ask the same of one counter, in the order in which
// they came: the script reads and writes it once for all of them. Logs are not read
// whole, and are asked one by one.
func alike(batch []*waiter) [][]*waiter {
	groups := make([][]*waiter, 0, len(batch))
	seen := make(map[string]int, len(batch))
	for i, w := range batch {
		if len(w.ask.keys) > 1 || w.ask.forms == 1<<form(caudal.SlidingLog) {
			groups = append(groups, batch[i:i+1:i+1])
			continue
		}
		name := w.ask.keys[0] + w.ask.args[0]
		if n, ok := seen[name]; ok {
			groups[n] = append(groups[n], w)
			continue
		}
		seen[name] = len(groups)
		groups = append(groups, batch[i:i+1:i+1])
	}
	return groups
}

// join makes one script call of several asks, each of which may be asked by several.
func (s *Store) join(groups [][]*waiter) (sc *script, keys, args []string) {
	forms, sizes := 0, make([]byte, 0, 2*len(groups))
	keys, args = make([]string, 0, len(groups)), make([]string, 2, 2+len(groups))
	for _, g := range groups {
		w := g[0]
		forms |= w.ask.forms
		sizes = append(sizes, byte(len(w.ask.keys)), byte(len(g)))
		keys = append(keys, w.ask.keys...)
		args = append(args, w.ask.args...)
	}
	args[1] = string(sizes)
	return s.scripts.batchFor(forms), keys, args
}
