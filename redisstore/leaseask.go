package redisstore

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// leaseEvery is how often leases are looked through, and returnWait how long Close
// gives back what is held.
const (
	leaseEvery = 50 * time.Millisecond
	returnWait = time.Second
)

// leaseReply is the size of a reply of scripts/lease.lua.
const leaseReply = nowSize + verdictSize + 26

// leasable reports whether a call may be decided from a lease.
func (s *Store) leasable(at caudal.Instant, c *caudal.Call) bool {
	return c.Limit.Accuracy() == caudal.Leased && c.Mode == caudal.Enforce && !c.CountDenied && s.serverTime(at)
}

func hashOf[T ~string | ~[]byte](l *caudal.Compiled, key T) keyhash.Hash {
	if b, ok := any(key).([]byte); ok {
		return keyhash.Bytes(b).Under(l.ScopeHash())
	}
	return keyhash.String(string(key)).Under(l.ScopeHash())
}

// spend decides a call from a lease, and sees to it that more is asked for in time.
func (s *Store) spend(h keyhash.Hash, l *caudal.Compiled, cost uint32, d *caudal.Decision) bool {
	spent, low := s.leases.spend(h, l, uint64(cost), s.clock.Now(), d)
	if low {
		s.moreOf(h)
	}
	return spent
}

// moreOf asks for more of a lease in the background.
func (s *Store) moreOf(h keyhash.Hash) {
	w := s.leases.renew(h, s.clock.Now())
	if w == nil {
		return
	}
	s.askBehind(w)
}

// askBehind asks for a lease in the background.
func (s *Store) askBehind(w *wanted) {
	ask := func() {
		ctx, cancel := context.WithTimeout(s.link.ctx, shareTimeout)
		defer cancel()
		ses, err := s.link.session("lease")
		if err != nil {
			s.failLease(w)
			return
		}
		var d caudal.Decision
		_ = s.askLease(ctx, ses, w, caudal.Instant{}, 0, &d) // what fails shows in the lease
	}
	if !s.inBackground(ask) {
		s.failLease(w)
	}
}

func (s *Store) failLease(w *wanted) {
	now := s.clock.Now()
	s.leases.finish(w, nil, now, now)
}

// askLease settles a lease, decides a call of this cost (0: none), and leases some
// of what is left, in one script call.
func (s *Store) askLease(ctx context.Context, ses *session, w *wanted, at caudal.Instant, cost uint32, d *caudal.Decision) error {
	t := s.instant(ses, at)
	keys := []string{s.name(w.counter)}
	for range maxAsks {
		sent := s.clock.Now()
		args := []string{
			string(s.appendParams(nil, w.limit, uint64(cost), t.wall)), t.now, s.leases.holder, string(w.pack()), s.channel,
		}
		msg, err := s.exec(ctx, ses, "lease", func(full bool) rueidis.Completed {
			return call(ses, s.scripts.lease[formOf(w.limit)], full, keys, args)
		})
		if err == nil && msg.IsArray() {
			if _, t.wall, err = readOne("lease", msg); err == nil {
				continue
			}
		}
		reply := ""
		if err == nil {
			reply, err = msg.ToString()
		}
		if err == nil && len(reply) != leaseReply {
			err = unreadable("lease")
		}
		if err != nil {
			s.failLease(w)
			return err
		}
		g := parseGrant(reply)
		parseVerdict(reply[nowSize:]).decide(w.limit, w.counter, cost, g.now, rand.Uint64(), d)
		g.remaining = d.Remaining
		s.leases.finish(w, &g, sent, s.clock.Now())
		if g.leased > 0 && s.denials != nil {
			s.denials.drop(w.counter)
		}
		return nil
	}
	s.failLease(w)
	return errNoWindow("lease")
}

// pack packs what is asked as scripts/lease.lua says.
func (w *wanted) pack() []byte {
	b := appendUint(make([]byte, 0, 33), 5, w.spent)
	b = appendUint(b, 5, w.back)
	b = binary.BigEndian.AppendUint64(b, uint64(w.at))
	b = appendUint(b, 5, w.want)
	b = appendUint(b, 5, leaseLeast)
	return appendUint(b, 5, uint64(leaseLife.Microseconds()))
}

func parseGrant(reply string) granted {
	b := []byte(reply[nowSize+verdictSize:])
	five := func(b []byte) uint64 { return uint64(b[0])<<32 | uint64(binary.BigEndian.Uint32(b[1:])) }
	return granted{
		now: parseNow(reply), reset: parseVerdict(reply[nowSize:]).reset,
		leased: five(b), out: five(b[5:]),
		ends: int64(binary.BigEndian.Uint64(b[10:])), at: int64(binary.BigEndian.Uint64(b[18:])),
	}
}

// keepLeases gives back what nobody wants, and renews what would end.
func (s *Store) keepLeases() {
	defer s.link.wg.Done()
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.link.ctx.Done():
			return
		}
		if s.leases.count.Load() == 0 {
			continue
		}
		back, again := s.leases.sweep(s.clock.Now(), false)
		for _, w := range again {
			s.askBehind(w)
		}
		s.returnLeases(s.link.ctx, back)
	}
}

// returnLeases gives leases back, a few at a time.
func (s *Store) returnLeases(ctx context.Context, back []*wanted) {
	defer s.leases.going.Add(-int64(len(back)))
	ses, err := s.link.session("lease")
	if err != nil || len(back) == 0 {
		return // they count until they end
	}
	ctx, cancel := context.WithTimeout(ctx, returnWait)
	defer cancel()
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxTogether)
	for _, w := range back {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var d caudal.Decision
			_ = s.askLease(ctx, ses, w, caudal.Instant{}, 0, &d) // what fails counts until it ends
		})
	}
	wg.Wait()
}
