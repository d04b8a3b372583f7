package memstore

import (
	"context"
	"fmt"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/algorithm"
	"github.com/caudal-dev/caudal/internal/keyhash"
)

// maxRefunded is how many refunded receipts each shard remembers, 4 million in
// all: a receipt refunded again after so many others is not recognised.
const maxRefunded = 4096

// refunded remembers the receipts that were refunded, the newest maxRefunded.
type refunded struct {
	ids  map[uint64]struct{}
	ring []uint64
	next int
}

// add notes a receipt; it reports false when it was there.
func (r *refunded) add(id uint64) bool {
	if _, ok := r.ids[id]; ok {
		return false
	}
	if r.ids == nil {
		r.ids = make(map[uint64]struct{})
	}
	if len(r.ring) < maxRefunded {
		r.ring = append(r.ring, id)
	} else {
		delete(r.ids, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % maxRefunded
	}
	r.ids[id] = struct{}{}
	return true
}

// Refund takes charges back; see caudal.Refunder.
func (s *Store) Refund(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	for i := range refunds {
		if err := check(&refunds[i]); err != nil {
			return err
		}
	}
	at = s.now(at)
	var first error
	for i := range refunds {
		if err := s.refundOne(at, &refunds[i]); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func check(r *caudal.Refund) error {
	switch {
	case r.Receipt.Limit == nil && r.Limit == nil:
		return fmt.Errorf("%w: neither a receipt nor a limit and a key", caudal.ErrInvalidRefund)
	case r.Receipt.Limit != nil && r.N > r.Receipt.Cost:
		return fmt.Errorf("%w: %d is more than the %d that was charged", caudal.ErrInvalidRefund, r.N, r.Receipt.Cost)
	}
	return nil
}

func (s *Store) refundOne(at caudal.Instant, r *caudal.Refund) error {
	if r.Receipt.Limit == nil {
		h := s.hashString(r.Limit, r.Key)
		sh := s.shardOf(h)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if sh.attend && sh.journal.closed {
			return errClosed()
		}
		sh.creditLocked(h, r.Limit, at, r.N)
		return nil
	}
	h := keyhash.Hash{Hi: r.Receipt.Counter[0], Lo: r.Receipt.Counter[1]}
	sh := s.shardOf(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.attend && sh.journal.closed {
		return errClosed()
	}
	if !sh.refunded.add(r.Receipt.ID) {
		return caudal.ErrReceiptUsed
	}
	sh.refundLocked(h, r, at)
	return nil
}

// refundLocked takes a charge back from the counter, if it is still there: one
// that was dropped counts nothing.
func (sh *shard) refundLocked(h keyhash.Hash, r *caudal.Refund, at caudal.Instant) {
	i := sh.table.find(h)
	if i < 0 {
		return
	}
	sh.changedLocked(i)
	l, slot := r.Receipt.Limit, sh.table.slot(i)
	switch l.Algorithm() {
	case caudal.TokenBucket:
		slot.setTokenBucket(slot.tokenBucket().Refund(l, r.N))
	case caudal.FixedWindow:
		slot.setFixedWindow(slot.fixedWindow().Refund(r.Receipt.At, r.N))
	case caudal.SlidingWindow:
		slot.setSlidingWindow(slot.slidingWindow().Refund(l, r.Receipt.At, r.N))
	case caudal.LeakyBucket:
		if !r.Left {
			b := sh.leakyBucketLocked(i, h)
			sh.setLeakyBucketLocked(i, h, l, at, b.Refund(r.Receipt, l.Micros(at), r.N))
		}
		return
	case caudal.SlidingLog:
		sh.editLogLocked(i, func(v *algorithm.SlidingLog) { v.Refund(r.Receipt.At, r.N) })
	}
}

func (sh *shard) creditLocked(h keyhash.Hash, l *caudal.Compiled, at caudal.Instant, n uint32) {
	i := sh.table.find(h)
	if i < 0 {
		return
	}
	sh.changedLocked(i)
	now, slot := l.Micros(at), sh.table.slot(i)
	switch l.Algorithm() {
	case caudal.TokenBucket:
		slot.setTokenBucket(slot.tokenBucket().Refund(l, n))
	case caudal.FixedWindow:
		slot.setFixedWindow(slot.fixedWindow().Credit(l, now, n))
	case caudal.SlidingWindow:
		w := slot.slidingWindow().Credit(l, now, n)
		slot.setSlidingWindow(w)
		slot.setLife(w.FreshAt(l) - w.Start)
	case caudal.LeakyBucket:
		b := sh.leakyBucketLocked(i, h)
		sh.setLeakyBucketLocked(i, h, l, at, b.Credit(l, now, n))
		return
	case caudal.SlidingLog:
		sh.editLogLocked(i, func(v *algorithm.SlidingLog) { v.Credit(n) })
	}
}

// editLogLocked lets edit take entries out of a key's log.
func (sh *shard) editLogLocked(i int, edit func(*algorithm.SlidingLog)) {
	slot := sh.table.slot(i)
	n, newest := slot.log(), slot.at()
	v := sh.logs.view(n)
	edit(&v)
	sh.logs.trim(n, v, 0)
	slot.setLog(n, newest)
}

// Reset makes a counter fresh; see caudal.Resetter.
func (s *Store) Reset(ctx context.Context, l *caudal.Compiled, key string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	h := s.hashString(l, key)
	sh := s.shardOf(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.attend && sh.journal.closed {
		return errClosed()
	}
	if i := sh.table.find(h); i >= 0 {
		sh.dropLocked(i)
	}
	return nil
}
