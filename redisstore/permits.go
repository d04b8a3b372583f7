package redisstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

var _ caudal.PermitStore = (*Store)(nil)

// permitScripts are the scripts of permits.
type permitScripts struct{ acquire, renew, release *script }

var thePermitScripts = sync.OnceValue(func() permitScripts {
	s := theScripts()
	head := s.part("permit_prelude")
	return permitScripts{newScript(head + s.part("permit_acquire")), newScript(head + s.part("permit_renew")), newScript(head + s.part("permit_release"))}
})

// Sizes of what the scripts of permits take and give.
const (
	permitParams = 20
	permitReply  = 9
	permitID     = 8
	// maxPermits bounds the ids of one script call, which nobody else's runs beside.
	maxPermits = 1000
)

func permitCounter(l *caudal.CompiledConcurrency, key []byte) counter {
	var buf [256]byte
	b := caudal.AppendPart(buf[:0], l.Scope())
	b = caudal.AppendPart(b, key)
	sum := sha256.Sum256(b)
	return counter{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// Acquire takes permits in one round trip; see caudal.PermitStore. On a Cluster
// each counter is asked by itself, all in parallel, and what was taken is given
// back when one denies: a call may then be denied that would have passed alone, and
// none passes too many.
func (s *Store) Acquire(ctx context.Context, at caudal.Instant, calls []caudal.PermitCall, out []caudal.Grant) error {
	if len(calls) == 0 {
		return nil
	}
	if len(calls) > maxLimits {
		return &Error{"acquire", KindRequest, false, fmt.Errorf("%d limits on one request: at most %d", len(calls), maxLimits)}
	}
	ses, err := s.link.session("acquire")
	if err != nil {
		return err
	}
	for i := range calls {
		c := permitCounter(calls[i].Limit, calls[i].Key)
		out[i] = caudal.Grant{Max: calls[i].Limit.Max(), Permit: caudal.Permit{Limit: calls[i].Limit, Counter: c, ID: rand.Uint64() | 1}}
	}
	groups := s.permitGroups(out[:len(calls)])
	t := s.instant(ses, at)
	if err := s.acquireGroups(ctx, ses, t, groups, calls, out); err != nil {
		// It is not known what was taken; the ids are.
		s.giveBack(ctx, ses, t, out[:len(calls)], false)
		return err
	}
	if len(groups) > 1 && !caudal.Granted(calls, out) {
		s.giveBack(ctx, ses, t, out[:len(calls)], true)
	}
	for i := range calls {
		if !out[i].Acquired {
			out[i].Permit = caudal.Permit{}
		}
	}
	return nil
}

// permitGroups gives what one script call can decide: all, but on a Cluster those
// that share a counter.
func (s *Store) permitGroups(grants []caudal.Grant) [][]int {
	var groups [][]int
next:
	for i := range grants {
		for n, g := range groups {
			if !s.cluster || grants[g[0]].Permit.Counter == grants[i].Permit.Counter {
				groups[n] = append(g, i)
				continue next
			}
		}
		groups = append(groups, []int{i})
	}
	return groups
}

func (s *Store) acquireGroups(ctx context.Context, ses *session, t instant, groups [][]int, calls []caudal.PermitCall, out []caudal.Grant) error {
	return s.permitCommands(ctx, ses, "acquire", len(groups), func(n int, full bool) rueidis.Completed {
		keys, params := make([]string, len(groups[n])), make([]byte, 0, permitParams*len(groups[n]))
		for k, i := range groups[n] {
			keys[k] = s.name(out[i].Permit.Counter)
			params = appendPermit(params, &calls[i], out[i].Permit.ID)
		}
		return call(ses, thePermitScripts().acquire, full, keys, []string{t.now, string(params)})
	}, func(n int, reply string) bool {
		if len(reply) != permitReply*len(groups[n]) {
			return false
		}
		for k, i := range groups[n] {
			flags := reply[permitReply*k]
			out[i].Allowed, out[i].Acquired = flags&1 != 0, flags&2 != 0
			out[i].InUse = binary.BigEndian.Uint64([]byte(reply[permitReply*k+1:][:8]))
		}
		return true
	})
}

func appendPermit(b []byte, c *caudal.PermitCall, id uint64) []byte {
	mode := byte(0)
	switch {
	case c.Peek:
		mode = 2
	case c.Shadow:
		mode = 1
	}
	b = append(b, mode)
	b = binary.BigEndian.AppendUint32(b, uint32(c.Limit.Max()))
	var lease [8]byte
	binary.BigEndian.PutUint64(lease[:], uint64(c.Limit.Lease().Microseconds()))
	b = append(b, lease[1:]...)
	return binary.BigEndian.AppendUint64(b, id)
}

// giveBack releases what a request that does not pass was given, also after the
// caller's context has ended. With report it waits for that, at most as long as the
// caller would, so that the grants say what is held without the request.
func (s *Store) giveBack(ctx context.Context, ses *session, t instant, grants []caudal.Grant, report bool) {
	var permits []caudal.Permit
	for i := range grants {
		if g := &grants[i]; g.Acquired || !report {
			permits = append(permits, g.Permit)
			if g.Acquired {
				g.Acquired, g.InUse = false, g.InUse-1
			}
		}
	}
	if len(permits) == 0 {
		return
	}
	done := make(chan struct{})
	work := func() {
		defer close(done)
		bg, cancel := context.WithTimeout(s.link.ctx, takeBackTimeout)
		defer cancel()
		_ = s.endPermits(bg, ses, t, permits, nil) // one that cannot be reached ends with its lease
	}
	if !s.inBackground(work) {
		if !report {
			return // too many already, and it is not even known whether there is anything
		}
		work()
	}
	if report {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// Renew lets permits last another lease, in one round trip for up to a thousand of
// each counter; see caudal.PermitStore.
func (s *Store) Renew(ctx context.Context, at caudal.Instant, permits []caudal.Permit, held []bool) error {
	ses, err := s.link.session("renew")
	if err != nil {
		return err
	}
	t := s.instant(ses, at)
	return s.onPermits(ctx, ses, "renew", t, permits, held, func(p caudal.Permit) string {
		return strconv.FormatInt(p.Limit.Lease().Microseconds(), 10)
	})
}

// Release gives permits back, in one round trip for up to a thousand of each
// counter; see caudal.PermitStore.
func (s *Store) Release(ctx context.Context, at caudal.Instant, permits []caudal.Permit, held []bool) error {
	ses, err := s.link.session("release")
	if err != nil {
		return err
	}
	return s.endPermits(ctx, ses, s.instant(ses, at), permits, held)
}

func (s *Store) endPermits(ctx context.Context, ses *session, t instant, permits []caudal.Permit, held []bool) error {
	return s.onPermits(ctx, ses, "release", t, permits, held, func(caudal.Permit) string { return "" })
}

// permitBatch is permits of one counter that one script call renews or releases.
type permitBatch struct {
	counter counter
	extra   string
	ids     []byte
	index   []int // of each permit in the caller's list
}

// batchPermits puts permits of one counter together; copies of one stay in order.
func batchPermits(permits []caudal.Permit, extra func(caudal.Permit) string) []*permitBatch {
	type place struct {
		counter counter
		extra   string
	}
	open := map[place]*permitBatch{}
	var all []*permitBatch
	for i, p := range permits {
		if p.Limit == nil {
			continue
		}
		at := place{p.Counter, extra(p)}
		b := open[at]
		if b == nil || len(b.index) == maxPermits {
			b = &permitBatch{counter: at.counter, extra: at.extra}
			open[at] = b
			all = append(all, b)
		}
		b.ids = binary.BigEndian.AppendUint64(b.ids, p.ID)
		b.index = append(b.index, i)
	}
	return all
}

// onPermits runs the script of an operation for all permits, pipelined.
func (s *Store) onPermits(ctx context.Context, ses *session, op string, t instant, permits []caudal.Permit, held []bool, extra func(caudal.Permit) string) error {
	clear(held)
	batches := batchPermits(permits, extra)
	if len(batches) == 0 {
		return nil
	}
	sc := thePermitScripts().release
	if op == "renew" {
		sc = thePermitScripts().renew
	}
	return s.permitCommands(ctx, ses, op, len(batches), func(n int, full bool) rueidis.Completed {
		b := batches[n]
		return call(ses, sc, full, []string{s.name(b.counter)}, []string{t.now, string(b.ids), b.extra})
	}, func(n int, reply string) bool {
		if len(reply) != len(batches[n].index) {
			return false
		}
		if held != nil {
			for k, i := range batches[n].index {
				held[i] = reply[k] == 1
			}
		}
		return true
	})
}

// permitCommands runs script calls, pipelined, again those whose node did not know
// the script. It goes through all replies and gives the first error.
func (s *Store) permitCommands(ctx context.Context, ses *session, op string, n int, build func(n int, full bool) rueidis.Completed, read func(n int, reply string) bool) (first error) {
	start := time.Now()
	todo := make([]int, n)
	for i := range todo {
		todo[i] = i
	}
	for full := false; len(todo) > 0; full = true {
		commands := make([]rueidis.Completed, len(todo))
		for k, i := range todo {
			commands[k] = build(i, full)
		}
		var again []int
		for k, result := range ses.client.DoMulti(ctx, commands...) {
			reply, err := result.ToString()
			switch {
			case noScript(err) && !full:
				again = append(again, todo[k])
			case err != nil:
				first = cmp.Or(first, s.failed(ctx, ses, op, err))
			case !read(todo[k], reply):
				first = cmp.Or(first, unreadable(op))
			}
		}
		todo = again
	}
	if s.observed {
		s.observer.Call(op, time.Since(start), first)
	}
	return first
}
