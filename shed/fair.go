package shed

import (
	"container/heap"
	"hash/maphash"
	"slices"
)

// level is one priority. Its clients share by start-time fair queueing: each has
// a tag, the time of the upstream's that it has had by its weight, and the one with
// the lowest tag is next. A client that comes begins at the level's tag, so that
// being away saves nothing up.
type level struct {
	reserve int // percent of the limit that are beside it for this priority

	clients map[uint64]*client
	ready   tagHeap // clients that have calls waiting
	tag     float64 // of the client that was served last
	waiting int
	sweepAt int // clients at which idle ones are forgotten
}

// Idle clients are remembered until others have had as much as they; how many is
// bounded.
const (
	minSweep = 128
	maxIdle  = 4096
)

// client is who calls of one priority belong to.
type client struct {
	id       uint64
	weight   float64
	tag      float64 // seconds by weight
	inflight int
	waiting  []*waiter // the oldest first
	index    int       // in ready; -1 when it is not there
}

// share is what a client holds and awaits, by its weight, with so many calls more.
func (c *client) share(more int) float64 {
	return float64(c.inflight+len(c.waiting)+more) / c.weight
}

func (l *level) init(reserve int) {
	l.reserve, l.clients, l.sweepAt = reserve, map[uint64]*client{}, minSweep
}

// seed keeps clients from choosing names that collide with those of others.
var seed = maphash.MakeSeed()

// client gives the client of a call.
func (l *level) client(call Call) *client {
	id := maphash.String(seed, call.Client)
	weight := float64(min(max(call.Weight, 1), MaxWeight))
	c := l.clients[id]
	if c == nil {
		if len(l.clients) >= l.sweepAt {
			l.sweep()
		}
		c = &client{id: id, index: -1}
		l.clients[id] = c
	}
	c.weight = weight
	return c
}

// look gives the client of a call as it is, or would be; it remembers nothing.
func (l *level) look(call Call) *client {
	weight := float64(min(max(call.Weight, 1), MaxWeight))
	if c := l.clients[maphash.String(seed, call.Client)]; c != nil {
		c.weight = weight
		return c
	}
	return &client{weight: weight, index: -1}
}

// idle reports whether nothing holds the client but what it has had.
func (c *client) idle() bool { return c.inflight == 0 && len(c.waiting) == 0 }

// sweep forgets idle clients that others have caught up with; and all idle ones
// when there are too many.
func (l *level) sweep() {
	for _, all := range []bool{false, true} {
		for id, c := range l.clients {
			if c.idle() && (all || c.tag <= l.tag) {
				delete(l.clients, id)
			}
		}
		if len(l.clients) < maxIdle {
			break
		}
	}
	l.sweepAt = max(minSweep, 2*len(l.clients))
}

// forget drops a client that came for nothing.
func (l *level) forget(c *client) {
	if c.idle() && c.tag <= l.tag {
		delete(l.clients, c.id)
	}
}

// push lets a call wait behind its client's others.
func (l *level) push(w *waiter) {
	c := w.client
	c.waiting = append(c.waiting, w)
	l.waiting++
	if c.index < 0 {
		c.tag = max(c.tag, l.tag)
		heap.Push(&l.ready, c)
	}
}

// next takes the call that is next; there must be one.
func (l *level) next() *waiter {
	w := l.ready[0].waiting[0]
	l.remove(w)
	return w
}

// remove takes a call out, wherever it stands.
func (l *level) remove(w *waiter) {
	c := w.client
	i := slices.Index(c.waiting, w)
	if i < 0 {
		return
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	l.waiting--
	if len(c.waiting) == 0 {
		heap.Remove(&l.ready, c.index)
		l.forget(c)
	}
}

// charge books the time that a call will take upon its client, as it is expected.
func (l *level) charge(c *client, seconds float64) {
	start := max(c.tag, l.tag)
	l.tag = start
	c.tag = start + seconds/c.weight
	c.inflight++
	l.clients[c.id] = c // also where removing its last call has forgotten it
	l.fix(c)
}

// settle corrects that when the call is over.
func (l *level) settle(c *client, seconds float64) {
	c.inflight--
	c.tag += seconds / c.weight
	l.fix(c)
	l.forget(c)
}

func (l *level) fix(c *client) {
	if c.index >= 0 {
		heap.Fix(&l.ready, c.index)
	}
}

// largest gives the client with calls waiting that has the most.
func (l *level) largest() *client {
	return slices.MaxFunc(l.ready, func(a, b *client) int {
		switch x, y := a.share(0), b.share(0); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

// tagHeap is clients with the lowest tag first.
type tagHeap []*client

func (h tagHeap) Len() int           { return len(h) }
func (h tagHeap) Less(i, j int) bool { return h[i].tag < h[j].tag }
func (h tagHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop are for container/heap.
func (h *tagHeap) Push(x any) {
	c := x.(*client)
	c.index = len(*h)
	*h = append(*h, c)
}

func (h *tagHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.index = -1
	return c
}
