package redisstore

import (
	"context"
	"encoding/binary"
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
	verdicts string // 26 bytes per limit, once or once per caller; empty when boundaries are missing
	crowd    *said  // instead of them
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

// appendAsk says what some of a request's calls, the members, ask: requests that ask
// the same say the same. alone says that they are not all, so that a quota cannot be
// judged here: it is charged when it has room, like a shadow. wall gives the instant
// around which a member's boundaries are: one counter's time may lie far ahead of the
// others', after a server's clock was set back.
//
// It is how many limits there are, and of each its counter, its mode, and its length
// and parameters as the scripts take them, and where a mode is a capital once more
// what the limit by itself charges.
func (s *Store) appendAsk(b []byte, r *request, calls []caudal.Call, members []int, alone bool, wall func(n int) int64) []byte {
	b = append(b, byte(len(members)))
	for n, i := range members {
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
		b = s.appendMember(b, r.counters[i], letter, &calls[i], r.cost(calls, i), wall(n))
		if r.shared {
			b = s.appendSized(b, &calls[i], uint64(calls[i].Cost), wall(n))
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// appendOne is appendAsk for a call by itself.
func (s *Store) appendOne(b []byte, c counter, call *caudal.Call, wall int64) []byte {
	return append(s.appendMember(append(b, 1), c, 'e', call, uint64(call.Cost), wall), 0)
}

func (s *Store) appendMember(b []byte, c counter, letter byte, call *caudal.Call, cost uint64, wall int64) []byte {
	b = binary.BigEndian.AppendUint64(b, c[0])
	b = binary.BigEndian.AppendUint64(b, c[1])
	return s.appendSized(append(b, letter), call, cost, wall)
}

func (s *Store) appendSized(b []byte, call *caudal.Call, cost uint64, wall int64) []byte {
	b = append(b, 0)
	from := len(b)
	b = s.appendCall(b, call, cost, wall)
	b[from-1] = byte(len(b) - from)
	return b
}

// limitsOf gives how many limits an ask has.
func limitsOf(key string) int { return int(key[0]) }

// askOf makes an ask of what appendAsk says.
func (s *Store) askOf(key string) *ask {
	q := new(ask)
	s.fill(q, key)
	return q
}

func (s *Store) fill(q *ask, key string) {
	n, b := limitsOf(key), key[1:]
	q.keys = make([]string, n)
	if n > 1 {
		q.args = append(make([]string, 0, 1+n), "")
	}
	var buf [64]byte
	modes, alone := buf[:0], make([]string, 0, 4)
	shared := false
	for i := range n {
		id := []byte(b[:16])
		q.keys[i] = s.name(counter{binary.BigEndian.Uint64(id), binary.BigEndian.Uint64(id[8:])})
		modes = append(modes, b[16])
		shared = shared || b[16] < 'a'
		q.forms |= 1 << b[18]
		b = b[17:]
		size := int(b[0])
		q.args, b = append(q.args, b[1:1+size]), b[1+size:]
		size = int(b[0])
		alone, b = append(alone, b[1:1+size]), b[1+size:]
	}
	if n > 1 {
		q.args[0] = string(modes)
	}
	if shared {
		q.args = append(q.args, alone...)
	}
}

// command builds the script call for an ask by itself.
func (s *Store) command(ses *session, q *ask, full bool, now string) rueidis.Completed {
	if len(q.keys) == 1 {
		return call(ses, s.scripts.oneFor(q.forms), full, q.keys, appendNow(q.args, now))
	}
	args := append([]string{now, string([]byte{byte(len(q.keys)), 0, 1})}, q.args...)
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
	var buf [512]byte
	key := buf[:0]
	walls := make(map[int]int64) // of the members that lacked boundaries
	wall := func(n int) int64 {
		if w, ok := walls[n]; ok {
			return w
		}
		return t.wall
	}
	for range maxAsks + len(calls) {
		q, err := s.submit(ctx, ses, s.appendAsk(key[:0], r, calls, members, false, wall), t.now)
		if err != nil {
			return err
		}
		if q.answered() {
			decide(q, r, calls, members, out)
			return nil
		}
		walls[q.lacks] = q.wall
	}
	return errNoWindow("take")
}

// decide turns what a script said into the decisions of the members.
func decide(q answer, r *request, calls []caudal.Call, members []int, out []caudal.Decision) {
	for n, i := range members {
		c := &calls[i]
		q.verdict(n, c.Limit).decide(c.Limit, r.counters[i], c.Cost, q.now, rand.Uint64(), &out[i])
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
