package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/caudal-dev/caudal"
)

// exec sends a script by its name, and with its text only when the server does
// not know it: after a restart, a failover, SCRIPT FLUSH. A server that says so
// has not run it. No other failure makes anything be sent again.
func (s *Store) exec(ctx context.Context, ses *session, op string, build func(full bool) rueidis.Completed) (rueidis.RedisMessage, error) {
	var start time.Time
	if s.observed {
		start = time.Now()
	}
	msg, err := ses.client.Do(ctx, build(false)).ToMessage()
	if noScript(err) {
		msg, err = ses.client.Do(ctx, build(true)).ToMessage()
	}
	if err != nil {
		err = s.failed(ctx, ses, op, err)
	}
	if s.observed {
		s.observer.Call(op, time.Since(start), err)
	}
	return msg, err
}

func noScript(err error) bool {
	if err == nil {
		return false
	}
	answer, ok := rueidis.IsRedisErr(err)
	return ok && answer.IsNoScript()
}

// failed makes the error of a call and tells the link.
func (s *Store) failed(ctx context.Context, ses *session, op string, err error) error {
	err = fail(ctx, op, err)
	s.link.failed(ses, err)
	if errors.Is(err, rueidis.ErrClosing) && s.link.ctx.Err() != nil {
		return caudal.ErrClosed
	}
	return err
}

// run calls a script for one counter. An empty reply says that it needs the
// boundaries of the windows around the instant elsewhere.
func (s *Store) run(ctx context.Context, ses *session, op string, sc *script, key, params, now string) (reply string, elsewhere int64, err error) {
	msg, err := s.exec(ctx, ses, op, func(full bool) rueidis.Completed {
		return command(ses, sc, full, key, params, now)
	})
	if err != nil {
		return "", 0, err
	}
	return s.read(op, msg, 1)
}

// read takes a reply about n limits apart.
func (s *Store) read(op string, msg rueidis.RedisMessage, n int) (reply string, elsewhere int64, err error) {
	if msg.IsArray() {
		list, err := msg.AsIntSlice()
		if err == nil && len(list) == 1 {
			return "", list[0], nil
		}
	} else if reply, err = msg.ToString(); err == nil && len(reply) == nowSize+n*verdictSize {
		return reply, 0, nil
	}
	return "", 0, &Error{op, KindOther, false, fmt.Errorf("the server's reply cannot be read: %s", msg.String())}
}

// takeTogether decides a batch by one script call.
func (s *Store) takeTogether(ctx context.Context, at caudal.Instant, r *request, calls []caudal.Call, out []caudal.Decision) error {
	ses, err := s.link.session("take")
	if err != nil {
		return err
	}
	t := s.instant(ses, at)
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	b := s.batch(r, calls, all, false)
	for range maxAsks {
		msg, err := s.exec(ctx, ses, "take", func(full bool) rueidis.Completed { return b.command(ses, full, t) })
		if err != nil {
			return err
		}
		reply, elsewhere, err := s.read("take", msg, len(calls))
		if err != nil {
			return err
		}
		if reply != "" {
			b.decide(reply, out)
			return nil
		}
		t.wall = elsewhere
	}
	return errNoWindow("take")
}

func errNoWindow(op string) error {
	return &Error{op, KindScript, false, errors.New("no window that this instance knows holds the server's time")}
}

// batch is the part of a request that one script call decides.
type batch struct {
	store   *Store
	request *request
	calls   []caudal.Call
	members []int // which of the calls
	script  *script
	keys    []string
	modes   string
}

// batch prepares a script call for some of a request's calls. alone says that
// they are not all, so that a quota cannot be judged here: it is charged when it
// has room, like a shadow.
func (s *Store) batch(r *request, calls []caudal.Call, members []int, alone bool) *batch {
	b := &batch{store: s, request: r, calls: calls, members: members}
	set, modes := 0, make([]byte, len(members))
	for n, i := range members {
		b.keys = append(b.keys, s.name(r.counters[i]))
		set |= 1 << formOf(calls[i].Limit)
		letter := byte('e')
		switch {
		case calls[i].Mode == caudal.Shadow, calls[i].Mode == caudal.Quota && alone:
			letter = 's'
		case calls[i].Mode == caudal.Quota:
			letter = 'q'
		}
		if r.shared && r.sharedWith(i) {
			letter -= 'a' - 'A'
		}
		modes[n] = letter
	}
	b.modes, b.script = string(modes), s.scripts.manyFor(set)
	return b
}

func (b *batch) command(ses *session, full bool, t instant) rueidis.Completed {
	args := make([]string, 2, 2+2*len(b.members))
	args[0], args[1] = t.now, b.modes
	var buf [128]byte
	for _, i := range b.members {
		cost := uint64(b.calls[i].Cost)
		if b.request.shared {
			cost = b.request.cost(b.calls, i)
		}
		args = append(args, string(b.store.appendParams(buf[:0], b.calls[i].Limit, cost, t.wall)))
	}
	if b.request.shared {
		for _, i := range b.members {
			args = append(args, string(b.store.appendParams(buf[:0], b.calls[i].Limit, uint64(b.calls[i].Cost), t.wall)))
		}
	}
	c := ses.client.B()
	if full {
		return c.Eval().Script(b.script.text).Numkeys(int64(len(b.keys))).Key(b.keys...).Arg(args...).Build()
	}
	return c.Evalsha().Sha1(b.script.sha).Numkeys(int64(len(b.keys))).Key(b.keys...).Arg(args...).Build()
}

// decide turns the reply into the decisions of the batch's calls.
func (b *batch) decide(reply string, out []caudal.Decision) {
	now := parseNow(reply)
	for n, i := range b.members {
		c := &b.calls[i]
		parseVerdict(reply, n).decide(c.Limit, b.request.counters[i], c.Cost, now, rand.Uint64(), &out[i])
	}
	if !b.request.shared {
		return
	}
	for n, i := range b.members { // what remains is what remains after the whole request
		for _, j := range b.members[n+1:] {
			if b.request.counters[j] == b.request.counters[i] && out[i].Charged && out[j].Charged {
				out[i].Remaining, out[i].ResetAfter = out[j].Remaining, out[j].ResetAfter
			}
		}
	}
}
