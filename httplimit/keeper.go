package httplimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caudal-dev/caudal"
)

const (
	// releaseTimeout bounds how long the end of a call waits for its permits to be
	// released; those of a store with a deadline of its own wait less.
	releaseTimeout = time.Second
	// renewTimeout bounds one renewal of a batch.
	renewTimeout = 5 * time.Second
	// retryRelease is how soon a release that failed is tried again.
	retryRelease = time.Second
	// maxUnreleased bounds the permits that wait for that; others end with their
	// lease.
	maxUnreleased = 10_000
	// renewAtOnce is how many permits one call of the store renews.
	renewAtOnce = 1000
)

// keeper renews the permits of all calls under way by one timer, which runs only
// while there are some. Calls with leases of one length stand in a line, the next
// to renew first; so adding and dropping one costs the same however many there are.
type keeper struct {
	store  caudal.PermitStore
	report func(error)

	mu         sync.Mutex
	lines      []*keeperLine
	timer      *time.Timer
	wakes      time.Time // when the timer runs; zero when it does not
	busy       bool      // renewing: it sets the timer when done
	unreleased []unreleased
}

// keeperLine is the calls whose permits are renewed in one interval.
type keeperLine struct {
	every       time.Duration
	first, last *holding
}

// unreleased is permits whose release failed.
type unreleased struct {
	permit caudal.Permit
	until  time.Time // its lease has ended then anyway
}

// keep begins to renew the permits of a call.
func (k *keeper) keep(h *holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var line *keeperLine
	for _, l := range k.lines {
		if l.every == h.every {
			line = l
		}
	}
	if line == nil {
		line = &keeperLine{every: h.every}
		k.lines = append(k.lines, line)
	}
	line.appendLocked(h, time.Now().Add(h.every))
	k.wakeLocked(h.due)
}

// drop ends that.
func (k *keeper) drop(h *holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if line := h.line; line != nil {
		line.removeLocked(h)
		if line.first == nil {
			for i, l := range k.lines {
				if l == line {
					k.lines = append(k.lines[:i], k.lines[i+1:]...)
					break
				}
			}
		}
	}
}

func (l *keeperLine) appendLocked(h *holding, due time.Time) {
	h.line, h.due, h.prev, h.next = l, due, l.last, nil
	if l.last != nil {
		l.last.next = h
	} else {
		l.first = h
	}
	l.last = h
}

func (l *keeperLine) removeLocked(h *holding) {
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		l.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		l.last = h.prev
	}
	h.line, h.prev, h.next = nil, nil, nil
}

// wakeLocked lets the timer run at an instant, unless it does before.
func (k *keeper) wakeLocked(at time.Time) {
	if k.busy || !k.wakes.IsZero() && !at.Before(k.wakes) {
		return
	}
	k.wakes = at
	if wait := time.Until(at); k.timer == nil {
		k.timer = time.AfterFunc(wait, k.tick)
	} else {
		k.timer.Reset(wait)
	}
}

// tick renews what is due, tries failed releases again, and sets the timer for the
// next.
func (k *keeper) tick() {
	k.mu.Lock()
	if k.busy { // the timer was set anew while it ran
		k.mu.Unlock()
		return
	}
	k.busy, k.wakes = true, time.Time{}
	now := time.Now()
	due := k.dueLocked(now)
	again := k.unreleased
	k.unreleased = nil
	k.mu.Unlock()

	defer func() {
		if v := recover(); v != nil {
			k.report(&PanicError{Value: v})
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.busy = false
		for _, l := range k.lines {
			k.wakeLocked(l.first.due)
		}
		if len(k.unreleased) > 0 {
			k.wakeLocked(time.Now().Add(retryRelease))
		}
	}()
	k.renew(due)
	k.releaseAgain(again, now)
}

// dueLocked gives the calls whose permits are to be renewed now, and puts them at the end of
// their lines. What is due a moment later is done in the same call of the store.
func (k *keeper) dueLocked(now time.Time) (due []*holding) {
	for _, l := range k.lines {
		edge := now.Add(l.every / 8)
		for h := l.first; h != nil && !h.due.After(edge); h = l.first {
			l.removeLocked(h)
			l.appendLocked(h, now.Add(l.every))
			due = append(due, h)
		}
	}
	return due
}

// renew renews the permits of calls. Those that are gone are reported and no longer
// renewed; those of a store that failed are tried again at their next turn: there
// are two before a lease ends.
func (k *keeper) renew(due []*holding) {
	var batch []caudal.Permit
	var of []*holding
	flush := func() {
		if len(batch) == 0 {
			return
		}
		held := make([]bool, len(batch))
		ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
		defer cancel()
		if err := k.store.Renew(ctx, caudal.Instant{}, batch, held); err != nil {
			k.report(err)
			held = nil
		}
		for i := range held {
			if !held[i] && !of[i].ended.Load() {
				k.drop(of[i])
				k.report(ErrPermitLost)
			}
		}
		batch, of = batch[:0], of[:0]
	}
	for _, h := range due {
		for _, p := range h.permits {
			batch, of = append(batch, p), append(of, h)
		}
		if len(batch) >= renewAtOnce {
			flush()
		}
	}
	flush()
}

// release gives the permits of a call back, before its handler returns: a client
// that waits for the response and calls again finds them free.
func (k *keeper) release(permits []caudal.Permit) {
	defer func() {
		if v := recover(); v != nil {
			k.report(&PanicError{Value: v})
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	err := k.store.Release(ctx, caudal.Instant{}, permits, nil)
	if err == nil {
		return
	}
	k.report(err)
	if errors.Is(err, caudal.ErrClosed) {
		return
	}
	again := make([]unreleased, len(permits))
	for i, p := range permits {
		again[i] = unreleased{p, time.Now().Add(p.Limit.Lease())}
	}
	k.later(again)
}

// later keeps permits to be released when the store is back.
func (k *keeper) later(again []unreleased) {
	k.mu.Lock()
	defer k.mu.Unlock()
	room := maxUnreleased - len(k.unreleased)
	k.unreleased = append(k.unreleased, again[:min(len(again), room)]...)
	k.wakeLocked(time.Now().Add(retryRelease))
}

func (k *keeper) releaseAgain(again []unreleased, now time.Time) {
	var permits []caudal.Permit
	var left []unreleased
	for _, u := range again {
		if now.Before(u.until) {
			permits, left = append(permits, u.permit), append(left, u)
		}
	}
	if len(permits) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	if err := k.store.Release(ctx, caudal.Instant{}, permits, nil); err != nil && !errors.Is(err, caudal.ErrClosed) {
		k.later(left)
	}
}
