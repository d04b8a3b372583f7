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

// maxLimits bounds the limits of one request: their number is one byte.
const maxLimits = 255

// ask is a request, or the part of it that one script call can decide, as the
// scripts take it; and then what they said.
type ask struct {
	forms int      // set of the limits' forms
	keys  []string // one per limit
	args  []string // see scripts/batch.lua

	now      int64
	verdicts string // 26 bytes per limit; empty when boundaries are missing
	wall     int64  // around which to ask again then
	lacks    int    // which limit lacked them, by its place
	err      error
}

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
	if s.link.ctx.Err() != nil {
		return caudal.ErrClosed
	}
	err = fail(ctx, op, err)
	s.link.failed(ses, err)
	return err
}

// call builds the command of a script.
func call(ses *session, sc *script, full bool, keys, args []string) rueidis.Completed {
	b := ses.client.B()
	if full {
		return b.Eval().Script(sc.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
	}
	return b.Evalsha().Sha1(sc.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// askFor prepares some of a request's calls, the members. alone says that they are
// not all, so that a quota cannot be judged here: it is charged when it has room,
// like a shadow. wall gives the instant around which a member's boundaries are: one
// counter's time may lie far ahead of the others', after a server's clock was set
// back.
func (s *Store) askFor(r *request, calls []caudal.Call, members []int, alone bool, wall func(n int) int64) *ask {
	q := &ask{keys: make([]string, len(members)), args: make([]string, 0, 1+2*len(members))}
	shared := false
	modes := make([]byte, len(members))
	for n, i := range members {
		q.keys[n] = s.name(r.counters[i])
		q.forms |= 1 << formOf(calls[i].Limit)
		letter := byte('e')
		switch {
		case calls[i].Mode == caudal.Shadow, calls[i].Mode == caudal.Quota && alone:
			letter = 's'
		case calls[i].Mode == caudal.Quota:
			letter = 'q'
		}
		if r.shared && r.sharedWith(i) {
			letter -= 'a' - 'A'
			shared = true
		}
		modes[n] = letter
	}
	if len(members) > 1 {
		q.args = append(q.args, string(modes))
	}
	var buf [128]byte
	for n, i := range members {
		q.args = append(q.args, string(s.appendCall(buf[:0], &calls[i], r.cost(calls, i), wall(n))))
	}
	if shared {
		for n, i := range members {
			q.args = append(q.args, string(s.appendCall(buf[:0], &calls[i], uint64(calls[i].Cost), wall(n))))
		}
	}
	return q
}

// command builds the script call for an ask by itself.
func (s *Store) command(ses *session, q *ask, full bool, now string) rueidis.Completed {
	if len(q.keys) == 1 {
		return call(ses, s.scripts.oneFor(q.forms), full, q.keys, appendNow(q.args, now))
	}
	args := append([]string{now, string([]byte{byte(len(q.keys)), 1})}, q.args...)
	return call(ses, s.scripts.batchFor(q.forms), full, q.keys, args)
}

// appendNow appends the time, if it is not the server's.
func appendNow(args []string, now string) []string {
	if now == "" {
		return args
	}
	return append(args, now)
}

// askAlone runs the script call for an ask by itself.
func (s *Store) askAlone(ctx context.Context, ses *session, q *ask, now string) {
	msg, err := s.exec(ctx, ses, "take", func(full bool) rueidis.Completed { return s.command(ses, q, full, now) })
	if err != nil {
		q.err = err
		return
	}
	s.readAlone(ctx, ses, q, msg)
}

// readAlone takes the reply to an ask by itself apart.
func (s *Store) readAlone(ctx context.Context, ses *session, q *ask, msg rueidis.RedisMessage) {
	q.err, q.verdicts = nil, ""
	if len(q.keys) > 1 {
		list, err := msg.ToArray()
		if err != nil || len(list) != 2 {
			q.err = unreadable("take")
			return
		}
		s.readPart(ctx, ses, q, list[0], list[1])
		return
	}
	reply, elsewhere, err := readOne("take", msg)
	switch {
	case err != nil:
		q.err = err
	case reply == "":
		q.wall = elsewhere
	default:
		q.now, q.verdicts = parseNow(reply), reply[nowSize:]
	}
}

// readPart takes one request's part of a batch's reply apart.
func (s *Store) readPart(ctx context.Context, ses *session, q *ask, head, part rueidis.RedisMessage) {
	q.err, q.verdicts = nil, ""
	now, err := head.ToString()
	if err != nil || len(now) != nowSize {
		q.err = unreadable("take")
		return
	}
	q.now = parseNow(now)
	if part.IsInt64() {
		q.wall, q.err = part.ToInt64()
		return
	}
	if part.IsArray() {
		list, err := part.AsIntSlice()
		if err != nil || len(list) != 2 || list[1] < 1 || list[1] > int64(len(q.keys)) {
			q.err = unreadable("take")
			return
		}
		q.wall, q.lacks = list[0], int(list[1]-1)
		return
	}
	text, err := part.ToString()
	switch {
	case err != nil:
		q.err = s.failed(ctx, ses, "take", err)
	case len(text) != len(q.keys)*verdictSize:
		q.err = unreadable("take")
	default:
		q.verdicts = text
	}
}

// readOne takes the reply of a script for one counter apart. An empty reply says
// that it needs the boundaries of the windows around the instant elsewhere.
func readOne(op string, msg rueidis.RedisMessage) (reply string, elsewhere int64, err error) {
	if msg.IsArray() {
		if list, err := msg.AsIntSlice(); err == nil && len(list) == 1 {
			return "", list[0], nil
		}
	} else if reply, err = msg.ToString(); err == nil && len(reply) == nowSize+verdictSize {
		return reply, 0, nil
	}
	return "", 0, unreadable(op)
}

func unreadable(op string) error {
	return &Error{op, KindOther, false, errors.New("the server's reply cannot be read: is something between that changes it?")}
}

func errNoWindow(op string) error {
	return &Error{op, KindScript, false, fmt.Errorf("no window that this instance knows holds the server's time, asked %d times", maxAsks)}
}

// maxAsks bounds how often a script is asked again with other boundaries: once
// for a clock that differs, once more for time that went on.
const maxAsks = 4

// takeTogether decides a request of several limits by one script call.
func (s *Store) takeTogether(ctx context.Context, at caudal.Instant, r *request, calls []caudal.Call, out []caudal.Decision) error {
	ses, err := s.link.session("take")
	if err != nil {
		return err
	}
	t := s.instant(ses, at)
	members := make([]int, len(calls))
	for i := range members {
		members[i] = i
	}
	walls := make(map[int]int64) // of the members that lacked boundaries
	wall := func(n int) int64 {
		if w, ok := walls[n]; ok {
			return w
		}
		return t.wall
	}
	for range maxAsks + len(calls) {
		q, err := s.submit(ctx, ses, s.askFor(r, calls, members, false, wall), t.now)
		if err != nil {
			return err
		}
		if q.verdicts != "" {
			decide(q, r, calls, members, out)
			return nil
		}
		walls[q.lacks] = q.wall
	}
	return errNoWindow("take")
}

// decide turns what a script said into the decisions of the members.
func decide(q *ask, r *request, calls []caudal.Call, members []int, out []caudal.Decision) {
	for n, i := range members {
		c := &calls[i]
		parseVerdict(q.verdicts[n*verdictSize:]).decide(c.Limit, r.counters[i], c.Cost, q.now, rand.Uint64(), &out[i])
	}
	if !r.shared {
		return
	}
	for n, i := range members { // what remains is what remains after the whole request
		for _, j := range members[n+1:] {
			if r.counters[j] == r.counters[i] && out[i].Charged && out[j].Charged {
				out[i].Remaining, out[i].ResetAfter = out[j].Remaining, out[j].ResetAfter
			}
		}
	}
}
