package failover

import (
	"bytes"
	"context"
	"sync"

	"github.com/caudal-dev/caudal"
)

// Indices of Store.answered.
const (
	countedHere = iota
	passed
	refused
)

// share is the part of a request that is counted here.
type share struct {
	calls []caudal.Call
	out   []caudal.Decision
	index []int // of the call in the request
}

var shares = sync.Pool{New: func() any { return new(share) }}

func (b *share) free() {
	clear(b.calls)
	clear(b.out)
	b.calls, b.out, b.index = b.calls[:0], b.out[:0], b.index[:0]
	shares.Put(b)
}

// takeLocal decides a request without the shared store.
func (s *Store) takeLocal(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	b := shares.Get().(*share)
	defer b.free()
	instances := s.Instances()
	for i := range calls {
		c := &calls[i]
		switch c.Limit.OnStoreError() {
		case caudal.FailOpen:
			out[i] = pass(c)
			s.answered[passed].Add(1)
		case caudal.FailClosed:
			out[i] = refuse(c)
			s.answered[refused].Add(1)
		default:
			b.add(s.localCall(at, c, instances), i)
			s.answered[countedHere].Add(1)
		}
	}
	if len(b.calls) == 0 {
		return nil
	}
	denied, quotaPasses := othersSay(calls, out)
	b.follow(denied, quotaPasses)
	if !denied {
		b.clamp(calls)
	}
	if err := s.local.Take(ctx, at, b.calls, b.out); err != nil {
		return err
	}
	for k, i := range b.index {
		out[i] = b.out[k]
		out[i].Degraded = true
	}
	s.noteLocal(at, calls, out, instances)
	return nil
}

// pass is the decision of a limit that lets calls pass when its store is gone. A
// call that can never succeed needs no store to be denied.
func pass(c *caudal.Call) caudal.Decision {
	capacity := c.Limit.Capacity()
	if capacity == 0 || uint64(c.Cost) > capacity {
		return caudal.Decision{Never: true, Degraded: true, Limit: capacity, Remaining: capacity}
	}
	return caudal.Decision{Allowed: true, Degraded: true, Limit: capacity, Remaining: capacity}
}

// refuse is the decision of a limit that denies when its store is gone.
func refuse(c *caudal.Call) caudal.Decision {
	return caudal.Decision{Degraded: true, Unavailable: true, Limit: c.Limit.Capacity()}
}

// localCall gives the call on the local limit that stands in for the call's.
func (s *Store) localCall(at caudal.Instant, c *caudal.Call, instances int) caudal.Call {
	local := *c
	local.Limit = c.Limit.Local(instances)
	if c.Limit.Algorithm() == caudal.LeakyBucket {
		local.MinDelay = s.holdBack(at.Mono, c, instances)
	}
	return local
}

func (b *share) add(c caudal.Call, i int) {
	b.calls = append(b.calls, c)
	b.out = append(b.out, caudal.Decision{})
	b.index = append(b.index, i)
}

// othersSay sums up what the limits say that are not counted here: whether they
// alone deny the request, and whether one of the quota limits passes it, so that
// no other quota limit denies it.
//
// Calls that are decided alone have nothing to do with each other.
func othersSay(calls []caudal.Call, out []caudal.Decision) (denied, quotaPasses bool) {
	if calls[0].Alone {
		return false, false
	}
	quotaDenies, quotaHere := false, false
	for i := range calls {
		c, here := &calls[i], calls[i].Limit.OnStoreError() == caudal.FailLocal
		switch {
		case c.Mode == caudal.Enforce:
			denied = denied || !here && !out[i].Allowed
		case c.Mode != caudal.Quota:
		case here:
			quotaHere = true
		case out[i].Allowed:
			quotaPasses = true
		default:
			quotaDenies = true
		}
	}
	return denied || quotaDenies && !quotaPasses && !quotaHere, quotaPasses
}

// follow makes the local part fit into the request: it charges nothing when the
// request is denied anyway, and its quota limits deny only where all of the
// request's do.
func (b *share) follow(denied, quotaPasses bool) {
	for k := range b.calls {
		c := &b.calls[k]
		if denied {
			c.Cost, c.Mode = 0, caudal.Shadow
		}
		if quotaPasses && c.Mode == caudal.Quota {
			c.Mode = caudal.Shadow
		}
	}
}

// clamp charges what is above a local limit, but not above the real one, as the
// local limit: all that the request asks of one counter together. Enforced limits
// come first, since the others do not weigh on them.
func (b *share) clamp(calls []caudal.Call) {
	for _, shadow := range [2]bool{false, true} {
		for k := range b.calls {
			c := &b.calls[k]
			if (c.Mode == caudal.Shadow) != shadow {
				continue
			}
			asked, before := b.weigh(calls, k)
			if local := c.Limit.Capacity(); asked <= calls[b.index[k]].Limit.Capacity() {
				c.Cost = uint32(min(uint64(c.Cost), local-min(before, local)))
			}
		}
	}
}

// weigh gives what the request asks of the counter of local call k by the real
// limit, and how much of that comes before the call, as clamped.
func (b *share) weigh(calls []caudal.Call, k int) (asked, before uint64) {
	c := &b.calls[k]
	for m := range b.calls {
		o := &b.calls[m]
		enforcedFirst := o.Mode != caudal.Shadow && c.Mode == caudal.Shadow
		switch {
		case m != k && (c.Alone || o.Limit != c.Limit || !bytes.Equal(o.Key, c.Key)):
			continue
		case o.Mode == caudal.Shadow && c.Mode != caudal.Shadow:
			continue
		case enforcedFirst || m < k:
			before += uint64(o.Cost)
		}
		asked += uint64(calls[b.index[m]].Cost)
	}
	return asked, before
}
