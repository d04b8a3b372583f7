package redisstore

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// How much is asked together: this many script calls are under way at a time, each
// of at most so many different asks, counters and callers. A server works on one
// while the next is on its way; more would only make each smaller.
const (
	maxUnderWay = 2
	maxTogether = 64
	maxKeys     = 256
	maxCallers  = 1024
	maxAlike    = 512 // callers of one crowd
	maxYields   = 4   // how often those who are ready are let join
)

// shareTimeout bounds how long a script call that several callers wait for may
// take. They leave at their own deadlines; this only frees its place.
const shareTimeout = 5 * time.Second

// sharer lets callers who ask at the same time share script calls: who finds the
// places taken waits, and the next call carries all who wait. Nobody waits for
// company: a caller who is alone asks at once, but lets those go first who are ready
// to run. The zero value is ready.
type sharer struct {
	mu       sync.Mutex
	underWay int
	joined   atomic.Int64 // how often somebody asked
	starting bool         // somebody has a place and is about to ask
	waiting  []*crowd
	open     map[string]*crowd // those that may be joined, by what they ask
	users    int               // of one in sharers
}

// crowd is callers who wait to ask the same, which the script decides in one step.
// They are woken by one channel, and each knows its place.
type crowd struct {
	key  string // what they ask, as appendAsk says it
	ses  *session
	n    int   // how many came
	left []int // the places of those who left before it was sent
	sent bool

	own  ask
	ask  *ask          // when done is closed
	done chan struct{} // nil while nobody waits for it
}

// live is how many still wait, for a crowd that is not sent yet.
func (c *crowd) live() int { return c.n - len(c.left) }

// place gives the place among those who were sent of the one who came i-th.
func (c *crowd) place(i int) int {
	before := 0
	for _, l := range c.left {
		if l < i {
			before++
		}
	}
	return i - before
}

// answer is what a script said to one caller.
type answer struct {
	*ask
	place int // among those who asked the same
}

// submit asks, together with others where that is possible: not for callers who
// bring their own time. On a Cluster only those who ask the same share calls, since
// each key has its own node.
func (s *Store) submit(ctx context.Context, ses *session, key []byte, now string) (answer, error) {
	if now != "" {
		q := s.askOf(string(key))
		s.askAlone(ctx, ses, q, now)
		return answer{q, 0}, q.err
	}
	x := &s.sharer
	if s.cluster {
		x = s.sharers.get(key)
		defer s.sharers.put(x, key)
	}
	c, i, start := x.join(ses, key)
	if start {
		x.letJoin()
		batch := x.start(c)
		if isAlone(batch, c) {
			s.fill(&c.own, c.key)
			s.askAlone(ctx, ses, &c.own, "")
			s.next(x)
			return answer{&c.own, 0}, c.own.err
		}
		s.ask(x, batch)
	}
	if ctx.Done() == nil {
		<-c.done
		return answer{c.ask, c.place(i)}, c.ask.err
	}
	select {
	case <-c.done:
		return answer{c.ask, c.place(i)}, c.ask.err
	case <-ctx.Done():
		x.leave(c, i)
		return answer{}, fail(ctx, "take", ctx.Err())
	}
}

// join puts a caller among those who ask the same; start says that there is a place
// for a script call, which the caller has to call start for. Only who does not start
// has a channel.
func (x *sharer) join(ses *session, key []byte) (c *crowd, i int, start bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c = x.open[string(key)]
	if c == nil || c.ses != ses || c.n == maxAlike {
		c = &crowd{key: string(key), ses: ses}
		if x.open == nil {
			x.open = make(map[string]*crowd)
		}
		x.open[c.key] = c
		x.waiting = append(x.waiting, c)
	}
	c.n++
	x.joined.Add(1)
	if x.underWay < maxUnderWay && !x.starting {
		x.underWay++
		x.starting = true
		return c, c.n - 1, true
	}
	if c.done == nil {
		c.done = make(chan struct{})
	}
	return c, c.n - 1, false
}

// letJoin lets those join who are ready to run and about to ask: often all who were
// woken by the last answer. It does not wait: if nobody is, it comes back at once.
func (x *sharer) letJoin() {
	for joined, i := int64(-1), 0; joined != x.joined.Load() && i < maxYields; i++ {
		joined = x.joined.Load()
		runtime.Gosched()
	}
}

// start gives who go with the caller of this crowd who has a place for a script
// call: nobody if another one has taken them along already.
func (x *sharer) start(c *crowd) []*crowd {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.starting = false
	batch := x.takeLocked(c)
	if c.done == nil && !isAlone(batch, c) {
		c.done = make(chan struct{})
	}
	return batch
}

// isAlone reports whether a batch is one caller of this crowd.
func isAlone(batch []*crowd, c *crowd) bool {
	return len(batch) == 1 && batch[0] == c && c.live() == 1
}

// leave takes a caller out of line who will not wait any more. Before its crowd is
// sent nothing is charged for it. After that the charge stays, as that of any call
// whose answer does not come in time.
func (x *sharer) leave(c *crowd, i int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !c.sent {
		c.left = append(c.left, i)
	}
}

// next gives a place that was freed to those who wait, or back.
func (s *Store) next(x *sharer) {
	s.ask(x, x.take())
}

// ask asks for a batch in the background, and then for those who came meanwhile.
func (s *Store) ask(x *sharer, batch []*crowd) {
	if batch == nil {
		return
	}
	work := func() {
		for batch != nil {
			s.askShared(batch, "")
			x.letJoin()
			batch = x.take()
		}
	}
	if !s.link.background(work) {
		work() // the store is closed, and says so to each
	}
}

// take gives the next who go together: those at the front of the line who came
// with one session. With nobody waiting it gives the place back and nil.
func (x *sharer) take() []*crowd {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.takeLocked(nil)
}

// takeLocked is take with the lock held, for a caller of this crowd who needs no
// channel if it is alone.
func (x *sharer) takeLocked(mine *crowd) []*crowd {
	var batch []*crowd
	n, keys, callers := 0, 0, 0
	for ; n < len(x.waiting); n++ {
		c := x.waiting[n]
		if c.live() > 0 {
			keys, callers = keys+limitsOf(c.key), callers+c.live()
			if len(batch) > 0 && (c.ses != batch[0].ses || len(batch) == maxTogether || keys > maxKeys || callers > maxCallers) {
				break
			}
			batch = append(batch, c)
		}
		c.sent = true
		if x.open[c.key] == c {
			delete(x.open, c.key)
		}
	}
	x.waiting = slices.Delete(x.waiting, 0, n)
	for _, c := range batch {
		if c.done == nil && !isAlone(batch, mine) {
			c.done = make(chan struct{})
		}
	}
	if batch == nil {
		x.underWay--
	}
	return batch
}

// askShared asks for a batch and wakes those who wait.
func (s *Store) askShared(batch []*crowd, now string) {
	ses := batch[0].ses
	ctx, cancel := context.WithTimeout(s.link.ctx, shareTimeout)
	defer cancel()
	for _, c := range batch {
		c.ask = &c.own
		s.fill(c.ask, c.key)
		defer close(c.done)
	}
	if len(batch) == 1 && batch[0].live() == 1 {
		s.askAlone(ctx, ses, batch[0].ask, now)
		return
	}
	sc, keys, args := s.together(batch, now)
	msg, err := s.exec(ctx, ses, "take", func(full bool) rueidis.Completed { return call(ses, sc, full, keys, args) })
	var list []rueidis.RedisMessage
	if err == nil {
		if list, err = msg.ToArray(); err != nil || len(list) != len(batch)+1 {
			err = unreadable("take")
		}
	}
	for i, c := range batch {
		if err != nil {
			c.ask.err = err
			continue
		}
		s.readShare(ctx, ses, c.ask, list[0], list[i+1], c.live())
	}
}

// together makes one script call of several asks, each of which may be asked by
// several.
func (s *Store) together(batch []*crowd, now string) (sc *script, keys, args []string) {
	forms, sizes := 0, make([]byte, 0, 3*len(batch))
	keys, args = make([]string, 0, len(batch)), make([]string, 2, 2+len(batch))
	for _, c := range batch {
		forms |= c.ask.forms
		sizes = append(sizes, byte(len(c.ask.keys)))
		sizes = binary.BigEndian.AppendUint16(sizes, uint16(c.live()))
		keys = append(keys, c.ask.keys...)
		args = append(args, c.ask.args...)
	}
	args[0], args[1] = now, string(sizes)
	return s.scripts.batchFor(forms), keys, args
}

// sharers holds one sharer for each of a Cluster's asks that is under way, so that
// no node has others wait for it. The zero value is ready.
type sharers struct {
	mu sync.Mutex
	m  map[string]*sharer
}

func (y *sharers) get(key []byte) *sharer {
	y.mu.Lock()
	defer y.mu.Unlock()
	x := y.m[string(key)]
	if x == nil {
		x = new(sharer)
		if y.m == nil {
			y.m = make(map[string]*sharer)
		}
		y.m[string(key)] = x
	}
	x.users++
	return x
}

func (y *sharers) put(x *sharer, key []byte) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(y.m, string(key))
	}
}
