package redisstore

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// denials remembers counters that Redis said will deny for some time, so that
// hammering at a closed door costs Redis next to nothing. What is remembered is
// bounded and hardly ever wrong: it is a denial that a refund, a reset or a changed
// limit can end early, and those are told, or show in the limit itself. What nobody
// tells (FLUSHALL, a key deleted by hand, writes lost in a failover) shows when
// Redis is asked again, after maxRemembered.
type denials struct {
	base   time.Time
	on     atomic.Bool  // the channel that tells of refunds is open
	max    int          // per shard
	latest atomic.Int64 // when one was last learnt, since base
	shards [denialShards]denialShard
}

const denialShards = 64

// maxRemembered is how long a denial is believed. A door may be closed until
// midnight; asking once in so long is nothing to a server.
const maxRemembered = 5 * time.Second

type denialShard struct {
	mu sync.Mutex
	m  map[counter]denial
	// drops counts what was dropped. A denial that was asked for before a drop and
	// arrives after it may be older than the refund, and is not remembered.
	drops uint64
}

// denial is that calls of at least this cost are denied until an instant.
type denial struct {
	limit     *caudal.Compiled
	cost      uint64
	remaining uint64
	until     time.Duration // since base
	reset     time.Duration
	learnt    time.Duration
}

// over reports whether a denial is not to be believed any more.
func (d *denial) over(now time.Duration) bool {
	return now >= d.until || now-d.learnt >= maxRemembered
}

func newDenials(max int) *denials {
	return &denials{base: time.Now(), max: (max + denialShards - 1) / denialShards}
}

func (x *denials) shard(c counter) *denialShard { return &x.shards[c[0]%denialShards] }

// any reports whether some denial may still be believed.
func (x *denials) any() bool {
	latest := x.latest.Load()
	return latest > 0 && time.Since(x.base)-time.Duration(latest) < maxRemembered
}

// stamp is to be taken before a call is sent, for learn.
func (x *denials) stamp(c counter) (sent time.Duration, drops uint64) {
	sh := x.shard(c)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return time.Since(x.base), sh.drops
}

// deny answers a call whose denial is known.
func (x *denials) deny(l *caudal.Compiled, c counter, cost uint64, d *caudal.Decision) bool {
	if !x.on.Load() {
		return false
	}
	now, sh := time.Since(x.base), x.shard(c)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	known, ok := sh.m[c]
	if !ok || cost < known.cost || cost > l.Capacity() {
		return false
	}
	if known.over(now) || known.limit != l && known.limit.Limit() != l.Limit() {
		delete(sh.m, c) // over, or the limit was changed
		return false
	}
	*d = caudal.Decision{
		Limit:      l.Capacity(),
		Remaining:  known.remaining,
		RetryAfter: upMicros(known.until - now),
		ResetAfter: upMicros(max(known.reset, known.until) - now),
	}
	return true
}

// upMicros rounds up to whole microseconds.
func upMicros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// learn remembers a denial. The wait counts from when the call was sent, which is
// before the server worked it out.
func (x *denials) learn(l *caudal.Compiled, c counter, cost uint64, d *caudal.Decision, sent time.Duration, drops uint64) {
	if !x.on.Load() || d.Allowed || d.Never || l.Algorithm() == caudal.LeakyBucket {
		return
	}
	sh := x.shard(c)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.drops != drops {
		return
	}
	if known, ok := sh.m[c]; ok && known.cost < cost && !known.over(sent) && known.limit == l {
		return // what is known says more
	}
	if sh.m == nil {
		sh.m = make(map[counter]denial)
	}
	if len(sh.m) >= x.max {
		sh.evict(time.Since(x.base))
	}
	x.latest.Store(int64(sent))
	sh.m[c] = denial{l, cost, d.Remaining, sent + d.RetryAfter, sent + d.ResetAfter, sent}
}

// evict drops one of a few denials: one that is over, else the one that ends
// first.
func (sh *denialShard) evict(now time.Duration) {
	var victim counter
	var ends time.Duration
	looked := 0
	for c, known := range sh.m {
		if looked == 0 || known.until < ends {
			victim, ends = c, known.until
		}
		if looked++; looked == 8 || ends <= now {
			break
		}
	}
	delete(sh.m, victim)
}

// drop forgets a counter's denial.
func (x *denials) drop(c counter) {
	sh := x.shard(c)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.drops++
	delete(sh.m, c)
}

// clear forgets everything.
func (x *denials) clear() {
	x.forget(func(*caudal.Compiled) bool { return true })
}

func (x *denials) forget(which func(*caudal.Compiled) bool) {
	for i := range x.shards {
		sh := &x.shards[i]
		sh.mu.Lock()
		sh.drops++
		for c, known := range sh.m {
			if which(known.limit) {
				delete(sh.m, c)
			}
		}
		sh.mu.Unlock()
	}
}

// set turns the memory on or off, empty either way.
func (x *denials) set(on bool) {
	x.on.Store(on)
	x.clear()
}

// ForgetDenials drops the remembered denials of the limits that changed says, for
// when rules are reloaded. A limit whose numbers changed is noticed without it;
// this frees what is left of limits that are gone.
func (s *Store) ForgetDenials(changed func(*caudal.Compiled) bool) {
	if s.denials != nil {
		s.denials.forget(changed)
	}
}

// Remembered answers a request that is known to be denied, as Take would without
// asking Redis, and reports whether it did; else nothing was done. It costs next to
// nothing while nobody is denied. Package failover asks it first, and so need not
// make ready to wait.
func (s *Store) Remembered(at caudal.Instant, calls []caudal.Call, out []caudal.Decision) bool {
	if s.denials == nil || len(calls) == 0 || len(calls) > maxLimits || calls[0].Alone || !s.denials.any() {
		return false
	}
	if len(calls) > 1 {
		r := requests.Get().(*request)
		defer requests.Put(r)
		r.fill(calls)
		return s.denyRequest(r, at, calls, out)
	}
	c := &calls[0]
	if c.Mode != caudal.Enforce || !s.serverTime(at) ||
		!s.denials.deny(c.Limit, counterOf(c.Limit, c.Key), uint64(c.Cost), &out[0]) {
		return false
	}
	s.observer.DeniedLocally()
	return true
}

// denyRequest answers a request of several limits when one is known to deny it.
func (s *Store) denyRequest(r *request, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) bool {
	if !s.serverTime(at) || !enforced(calls) {
		return false
	}
	denied := false
	for i := range calls {
		if s.denials.deny(calls[i].Limit, r.counters[i], r.cost(calls, i), &out[i]) {
			denied = true
		} else {
			out[i] = caudal.Decision{Allowed: true, Unasked: true}
		}
	}
	if denied {
		s.observer.DeniedLocally()
	}
	return denied
}

// stamps takes the stamps for learnRequest.
func (s *Store) stamps(r *request) (sent time.Duration, drops []uint64) {
	drops = make([]uint64, len(r.counters))
	for i, c := range r.counters {
		sent, drops[i] = s.denials.stamp(c)
	}
	return sent, drops
}

// learnRequest remembers what a denied request says of its limits.
func (s *Store) learnRequest(r *request, calls []caudal.Call, out []caudal.Decision, sent time.Duration, drops []uint64) {
	if !enforced(calls) {
		return
	}
	for i := range calls {
		if !out[i].Allowed {
			s.denials.learn(calls[i].Limit, r.counters[i], r.cost(calls, i), &out[i], sent, drops[i])
		}
	}
}

// enforced reports whether all limits of a request are.
func enforced(calls []caudal.Call) bool {
	for i := range calls {
		if calls[i].Mode != caudal.Enforce {
			return false
		}
	}
	return true
}

// listen keeps the subscription to the channel that tells of refunds and resets,
// and the memory of denials off while there is none.
func (s *Store) listen() {
	defer s.link.wg.Done()
	var last *session
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		ses := s.link.current.Load()
		if ses == nil {
			if ses = s.link.await(last); ses == nil {
				return // closed
			}
		}
		last = ses
		ctx := rueidis.WithOnSubscriptionHook(s.link.ctx, func(sub rueidis.PubSubSubscription) {
			if sub.Kind == "subscribe" {
				s.denials.set(true)
				wait = firstRetry
			}
		})
		err := ses.client.Receive(ctx, ses.client.B().Subscribe().Channel(s.channel).Build(), func(m rueidis.PubSubMessage) {
			if name, reset := strings.CutPrefix(m.Message, "!"); reset {
				if c, ok := s.parseName(name); ok {
					s.leases.void(func(le *lease) bool { return le.counter == c })
				}
			} else if c, ok := s.parseName(name); ok {
				s.denials.drop(c)
			}
		})
		s.denials.set(false)
		if s.link.ctx.Err() != nil {
			return
		}
		if wait == firstRetry { // one line for each loss, not for each try
			s.log.Warn("not told of refunds: denials are not remembered meanwhile", "error", err)
		}
		select {
		case <-time.After(wait):
		case <-s.link.ctx.Done():
			return
		}
	}
}

// RemembersDenials reports whether denials are remembered now: the option is set
// and the channel that tells of refunds is open.
func (s *Store) RemembersDenials() bool { return s.denials != nil && s.denials.on.Load() }
