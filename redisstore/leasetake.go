package redisstore

import (
	"context"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// Leased decides a request from leases alone, without asking Redis, and reports
// whether it did; else nothing was done. What is leased may be spent also while
// Redis is away. It never waits, so that package failover asks it first.
func (s *Store) Leased(at caudal.Instant, calls []caudal.Call, out []caudal.Decision) bool {
	if len(calls) == 0 || s.leases.count.Load() == 0 {
		return false
	}
	if len(calls) == 1 {
		c := &calls[0]
		return s.leasable(at, c) && s.spend(hashOf(c.Limit, c.Key), c.Limit, c.Cost, &out[0])
	}
	for i := range calls {
		if calls[i].Alone || !s.leasable(at, &calls[i]) {
			return false
		}
	}
	m := s.spendAll(at, calls, out)
	if len(m.rest) == 0 {
		return true
	}
	s.unspend(m, out)
	return false
}

// mixed is a request of which some limits were spent from leases.
type mixed struct {
	local []keyhash.Hash // zero: not spent here
	rest  []int
}

// spendAll spends what leases cover of a request. Limits that share a counter are
// left to the script.
func (s *Store) spendAll(at caudal.Instant, calls []caudal.Call, out []caudal.Decision) *mixed {
	m := &mixed{local: make([]keyhash.Hash, len(calls))}
	hashes := make([]keyhash.Hash, len(calls))
	for i := range calls {
		hashes[i] = hashOf(calls[i].Limit, calls[i].Key)
	}
	for i := range calls {
		alone := true
		for j, h := range hashes {
			alone = alone && (j == i || h != hashes[i])
		}
		if alone && calls[i].Cost > 0 && s.leasable(at, &calls[i]) && s.spend(hashes[i], calls[i].Limit, calls[i].Cost, &out[i]) {
			m.local[i] = hashes[i]
		} else {
			m.rest = append(m.rest, i)
		}
	}
	return m
}

// unspend gives back what spendAll took, and lets its decisions say what remains
// without the request. What the server was told of meanwhile is taken back there.
func (s *Store) unspend(m *mixed, out []caudal.Decision) {
	for i, h := range m.local {
		d := &out[i]
		if h == (keyhash.Hash{}) || !d.Charged {
			continue
		}
		r := d.Receipt
		d.Charged, d.Receipt = false, caudal.Receipt{}
		d.Remaining = min(d.Remaining+uint64(r.Cost), d.Limit)
		if !s.leases.giveBack(h, r) {
			s.inBackground(func() {
				ctx, cancel := context.WithTimeout(s.link.ctx, takeBackTimeout)
				defer cancel()
				_ = s.Refund(ctx, caudal.Instant{}, []caudal.Refund{{Receipt: r, N: r.Cost}}) // what fails stays charged
			})
		}
	}
}

// takeMixed decides a request of several limits, some of them from leases. The
// others are asked about together; when they deny, or no decision is made, what was
// spent is given back, so that all are charged or none. done is false when no limit
// had a lease, and then nothing was done.
func (s *Store) takeMixed(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) (done bool, err error) {
	m := s.spendAll(at, calls, out)
	switch len(m.rest) {
	case 0:
		return true, nil
	case len(calls):
		return false, nil
	}
	rest, said := make([]caudal.Call, len(m.rest)), make([]caudal.Decision, len(m.rest))
	for n, i := range m.rest {
		rest[n] = calls[i]
	}
	if err := s.Take(ctx, at, rest, said); err != nil {
		s.unspend(m, out)
		return true, err
	}
	for n, i := range m.rest {
		out[i] = said[n]
	}
	if !caudal.Judge(rest, said).Allowed {
		s.unspend(m, out)
	}
	return true, nil
}

// leasing reports whether some limit of a request may be leased.
func (s *Store) leasing(at caudal.Instant, calls []caudal.Call) bool {
	for i := range calls {
		if s.leasable(at, &calls[i]) {
			return true
		}
	}
	return false
}

// wantLeases notes the leased limits of a request that is asked about together,
// and asks for leases of those that are hot in the background.
func (s *Store) wantLeases(at caudal.Instant, r *request, calls []caudal.Call) {
	for i := range calls {
		c := &calls[i]
		if c.Cost == 0 || !s.leasable(at, c) {
			continue
		}
		if w := s.leases.begin(hashOf(c.Limit, c.Key), c.Limit, r.counters[i], uint64(c.Cost), s.clock.Now()); w != nil {
			s.askBehind(w)
		}
	}
}
