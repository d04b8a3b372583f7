package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// lapse is how long after a charge has flowed back, or its turn has come, a
// receipt may still be used.
const lapse = time.Minute

// undo is one charge to take back, or a counter to credit.
type undo struct {
	limit   *caudal.Compiled
	counter counter
	receipt caudal.Receipt // zero for a credit
	n       uint32
	left    bool   // of a leaky bucket: nothing goes back
	mark    string // the key that remembers the receipt; empty: nothing to remember
}

// Refund takes back the charges of requests, in one round trip; see
// caudal.Refunder. A receipt works once whichever instance it is brought to, while
// its charge counts (of a token bucket: until it would have flowed back by itself,
// and a minute); after that it gives nothing back.
func (s *Store) Refund(ctx context.Context, at caudal.Instant, refunds []caudal.Refund) error {
	if len(refunds) == 0 {
		return nil
	}
	undos := make([]undo, len(refunds))
	for i := range refunds {
		u, err := s.undoOf(&refunds[i])
		if err != nil {
			return err
		}
		undos[i] = u
	}
	ses, err := s.link.session("refund")
	if err != nil {
		return err
	}
	replies, err := s.undo(ctx, ses, s.instant(ses, at), undos)
	if err != nil {
		return err
	}
	for _, reply := range replies {
		if reply == "" {
			return caudal.ErrReceiptUsed
		}
	}
	return nil
}

func (s *Store) undoOf(r *caudal.Refund) (undo, error) {
	switch l := r.Receipt.Limit; {
	case l == nil && r.Limit == nil:
		return undo{}, fmt.Errorf("%w: neither a receipt nor a limit and a key", caudal.ErrInvalidRefund)
	case l == nil:
		return undo{limit: r.Limit, counter: counterOf(r.Limit, r.Key), n: r.N}, nil
	case r.N > r.Receipt.Cost:
		return undo{}, fmt.Errorf("%w: %d is more than the %d that was charged", caudal.ErrInvalidRefund, r.N, r.Receipt.Cost)
	default:
		c := counter(r.Receipt.Counter)
		return undo{
			limit: l, counter: c, receipt: r.Receipt, n: r.N, mark: s.mark(c, r.Receipt.ID),
			left: r.Left && l.Algorithm() == caudal.LeakyBucket,
		}, nil
	}
}

// undo runs the refunds, in order where they share a counter. It gives what each
// counter says afterwards, empty for a receipt that was used before.
func (s *Store) undo(ctx context.Context, ses *session, t instant, undos []undo) ([]string, error) {
	replies := make([]string, len(undos))
	todo := make([]int, len(undos))
	walls := make([]int64, len(undos))
	for i := range undos {
		todo[i], walls[i] = i, t.wall
	}
	full := false
	for range maxAsks + 1 {
		start := time.Now()
		commands := make([]rueidis.Completed, len(todo))
		for n, i := range todo {
			commands[n] = s.undoCommand(ses, full, &undos[i], instant{t.now, walls[i]})
		}
		var again []int
		var first error
		for n, result := range ses.client.DoMulti(ctx, commands...) {
			i := todo[n]
			more, err := s.readUndo(ctx, ses, result, &replies[i], &walls[i])
			if err != nil && first == nil {
				first = err
			}
			if more {
				again, full = append(again, i), true
			} else if s.denials != nil {
				s.denials.drop(undos[i].counter)
			}
		}
		if s.observed {
			s.observer.Call("refund", time.Since(start), first)
		}
		if first != nil || len(again) == 0 {
			return replies, first
		}
		todo = again
	}
	return replies, errNoWindow("refund")
}

func (s *Store) readUndo(ctx context.Context, ses *session, result rueidis.RedisResult, reply *string, wall *int64) (more bool, err error) {
	msg, err := result.ToMessage()
	switch {
	case noScript(err):
		return true, nil
	case err != nil:
		return false, s.failed(ctx, ses, "refund", err)
	case msg.IsInt64(): // used before
		return false, nil
	}
	text, elsewhere, err := readOne("refund", msg)
	if err == nil && text == "" {
		*wall = elsewhere
		return true, nil
	}
	*reply = text
	return false, err
}

func (s *Store) undoCommand(ses *session, full bool, u *undo, t instant) rueidis.Completed {
	params := s.appendParams(nil, u.limit, 0, t.wall)
	at, until, back := "", "0", "1"
	if u.receipt.Limit != nil {
		at = strconv.FormatInt(u.receipt.At, 10)
		until = strconv.FormatInt(countsUntil(u.receipt), 10)
		if u.limit.Algorithm() == caudal.LeakyBucket {
			params = binary.BigEndian.AppendUint64(params, uint64(u.receipt.At))
			params = binary.BigEndian.AppendUint32(params, u.receipt.Frac)
			params = binary.BigEndian.AppendUint32(params, u.receipt.Cost)
		}
	}
	if u.left {
		back = "0"
	}
	keys := append(make([]string, 0, 2), s.name(u.counter))
	if u.mark != "" {
		keys = append(keys, u.mark)
	}
	args := []string{string(params), t.now, strconv.FormatUint(uint64(u.n), 10), at, until, back, s.channel}
	return call(ses, s.scripts.refund[formOf(u.limit)], full, keys, args)
}

// countsUntil gives the instant from which taking a charge back would be wrong, or
// change nothing.
func countsUntil(r caudal.Receipt) int64 {
	l, until := r.Limit, r.At
	switch l.Algorithm() {
	case caudal.TokenBucket:
		until += span(l, l.Capacity()).micros + lapse.Microseconds()
	case caudal.LeakyBucket:
		until += span(l, uint64(r.Cost)).micros + lapse.Microseconds()
	case caudal.FixedWindow:
		_, until = l.Window(r.At)
	case caudal.SlidingWindow:
		until += 2 * l.PeriodMicros()
	case caudal.SlidingLog:
		until += l.PeriodMicros()
	}
	return min(until, 1<<54)
}

// Reset makes a counter fresh; see caudal.Resetter.
func (s *Store) Reset(ctx context.Context, limit *caudal.Compiled, key string) error {
	ses, err := s.link.session("reset")
	if err != nil {
		return err
	}
	c := counterOf(limit, key)
	s.leases.void(func(le *lease) bool { return le.counter == c })
	bucket := "0"
	if limit.Algorithm() == caudal.TokenBucket {
		bucket = "1"
	}
	keys, args := []string{s.name(c)}, []string{s.channel, bucket}
	_, err = s.exec(ctx, ses, "reset", func(full bool) rueidis.Completed {
		return call(ses, s.scripts.reset, full, keys, args)
	})
	if err == nil && s.denials != nil {
		s.denials.drop(c)
	}
	return err
}
