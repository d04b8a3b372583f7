package failover

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
)

// The operations, as metrics name them.
const (
	opTake     = "take"
	opRefund   = "refund"
	opReset    = "reset"
	opForecast = "forecast"
	opProbe    = "probe"
	opBeat     = "heartbeat"
)

// job is one call of the shared store. It owns all that the store reads and
// writes, because the caller may be gone before the store is done. Jobs are
// pooled; an abandoned one returns to the pool when the store is done with it.
type job struct {
	store *Store
	slots *slots
	ctx   context.Context
	stop  context.CancelFunc
	state atomic.Int32
	done  chan struct{} // one element: the call ended while its caller waited
	err   error

	// One of: a batch, a key, or something rare.
	at    caudal.Instant
	calls []caudal.Call
	out   []caudal.Decision
	keys  []byte
	limit *caudal.Compiled // of a key
	key   string
	cost  uint32
	rare  func(context.Context) error
}

const (
	running = iota
	ended
	abandoned
)

func (s *Store) newJob(at caudal.Instant) *job {
	j, _ := s.jobs.Get().(*job)
	if j == nil {
		j = &job{store: s, done: make(chan struct{}, 1)}
	}
	j.at = at
	j.state.Store(running)
	return j
}

// free returns the job to the pool, without what it points to.
func (j *job) free() {
	clear(j.calls)
	clear(j.out)
	j.calls, j.out, j.keys = j.calls[:0], j.out[:0], j.keys[:0]
	j.ctx, j.stop, j.err, j.rare, j.limit, j.key = nil, nil, nil, nil, nil, ""
	if cap(j.calls) > 64 || cap(j.keys) > 4096 {
		j.calls, j.out, j.keys = nil, nil, nil
	}
	j.store.jobs.Put(j)
}

// batch copies a request, with the keys.
func (j *job) batch(calls []caudal.Call) {
	size := 0
	for i := range calls {
		size += len(calls[i].Key) + len(calls[i].Fair)
	}
	if cap(j.keys) < size {
		j.keys = make([]byte, 0, size)
	}
	for i := range calls {
		c := calls[i]
		from := len(j.keys)
		j.keys = append(j.keys, c.Key...)
		c.Key = j.keys[from:len(j.keys):len(j.keys)]
		if len(c.Fair) > 0 {
			from = len(j.keys)
			j.keys = append(j.keys, c.Fair...)
			c.Fair = j.keys[from:len(j.keys):len(j.keys)]
		}
		j.calls = append(j.calls, c)
		j.out = append(j.out, caudal.Decision{})
	}
}

// call asks the shared store.
func (j *job) call() {
	defer func() {
		if v := recover(); v != nil {
			j.err = panicked(v)
		}
	}()
	switch {
	case j.rare != nil:
		j.err = j.rare(j.ctx)
	case j.limit != nil:
		var d caudal.Decision
		d, j.err = j.store.keyed.TakeKey(j.ctx, j.at, j.limit, j.key, j.cost)
		j.out = append(j.out, d)
	default:
		j.err = j.store.primary.Take(j.ctx, j.at, j.calls, j.out)
	}
}

// run is call on a goroutine of its own.
func (j *job) run() {
	j.call()
	sl := j.slots
	success := j.err == nil
	if j.state.CompareAndSwap(running, ended) {
		sl.release(success)
		j.done <- struct{}{}
		return
	}
	sl.stuck.Add(-1)
	sl.release(success)
	j.stop()
	j.free()
}

// wait runs the job within the timeout and gives the error that it ended with.
// When mine is false the store still has the job, which the caller must not touch
// again.
func (s *Store) wait(parent context.Context, j *job, sl *slots, timeout time.Duration) (mine bool, err error) {
	ctx, stop := context.WithTimeout(parent, timeout)
	waited, err := sl.acquire(ctx)
	if err != nil {
		stop()
		return true, s.fault(parent, err)
	}
	late := errTimeout
	if end, _ := ctx.Deadline(); waited && time.Until(end) < timeout/2 {
		late = errBusy // too little time was left: that is not the store's fault
	}
	j.ctx, j.stop, j.slots = ctx, stop, sl
	if s.o.Inline {
		j.call()
		sl.release(j.err == nil)
		stop()
		return true, s.fault(parent, inTime(ctx, j.err, late))
	}
	go j.run()
	select {
	case <-j.done:
	case <-ctx.Done():
		sl.stuck.Add(1) // first, so that the job's own -1 comes after
		if j.state.CompareAndSwap(running, abandoned) {
			return false, s.fault(parent, late)
		}
		sl.stuck.Add(-1)
		<-j.done
	}
	err = inTime(ctx, j.err, late)
	stop()
	return true, s.fault(parent, err)
}

// inTime names the failure of a store that obeyed its context.
func inTime(ctx context.Context, err error, late *failure) error {
	if err != nil && ctx.Err() == context.DeadlineExceeded && kindOf(err) == KindTimeout {
		return late
	}
	return err
}

// fault tells the caller's own end from a failure of the store.
func (s *Store) fault(parent context.Context, err error) error {
	if err == nil || answers(err) {
		return err
	}
	if parent.Err() != nil {
		return parent.Err()
	}
	return err
}
