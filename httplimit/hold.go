package httplimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/caudal-dev/caudal"
)

// maxHeldBody is the largest request body that is read while its call is held.
const maxHeldBody = 64 << 10

// margin is how long before its deadline a call must have its turn, for there to
// be any use in it.
const margin = 5 * time.Millisecond

// Hold waits until the turn of a call that was given a delay, and reports whether
// the request may go on. When the request's context ends first, everything that
// was charged is given back, the turn as for a call that never left.
//
// It must be called once, before the request's body is read; it may replace the
// body by a copy.
func (o *Outcome) Hold(r *http.Request) bool {
	if o.Action != Pass || o.leave.IsZero() {
		return o.Action == Pass
	}
	ctx := r.Context()
	if readBody(r) != nil || !sleepUntil(ctx, o.leave) {
		o.Action = Gone
		o.Cancel(ctx)
		return false
	}
	return true
}

// sleepUntil reports whether the instant came before the context ended.
func sleepUntil(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// readBody takes in a small body of HTTP/1 before the wait. Until a body has been
// read, net/http does not watch the connection, so a client that hangs up would
// keep its turn. HTTP/2 always watches; a client that wants to be asked for its
// body is not asked before its turn.
func readBody(r *http.Request) error {
	n := r.ContentLength
	if r.ProtoMajor != 1 || n <= 0 || n > maxHeldBody || r.Header.Get("Expect") != "" {
		return nil
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return err
	}
	r.Body = heldBody{bytes.NewReader(body), r.Body}
	return nil
}

type heldBody struct {
	io.Reader
	io.Closer
}

// Cancel gives back all that the call was charged, as for a call that never left
// its queue. It works once, also after ctx has ended.
func (o *Outcome) Cancel(ctx context.Context) {
	o.refunds = o.refunds[:0]
	for i := range o.Decisions {
		d := &o.Decisions[i]
		if !d.Charged {
			continue
		}
		d.Charged = false
		o.refunds = append(o.refunds, caudal.Refund{Receipt: d.Receipt, N: d.Receipt.Cost})
	}
	if len(o.refunds) == 0 {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			o.broken = true
			o.core.report(o.domain, &PanicError{Value: v})
		}
	}()
	if err := o.core.taker.refund(context.WithoutCancel(ctx), o.refunds); err != nil {
		o.core.report(o.domain, err)
	}
}

// fits reports whether a call has its turn before its deadline.
func (o *Outcome) fits(ctx context.Context, now time.Time, delay time.Duration) bool {
	if o.hasRoom && delay > o.room-margin {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || delay <= deadline.Sub(now)-margin
}

// tooLate denies a call whose turn comes after its deadline, and charges it
// nothing. The queues that would hold it too long are those that deny.
func (c *core) tooLate(ctx context.Context, o *Outcome) {
	delay := o.Verdict.Delay
	for i := range o.Decisions {
		d := &o.Decisions[i]
		if d.Charged {
			d.Remaining = min(d.Limit, d.Remaining+uint64(d.Receipt.Cost))
		}
		if d.Delay == delay && o.Enforced(i) {
			d.Allowed, d.RetryAfter = false, delay
		}
		d.Delay = 0
	}
	o.Cancel(ctx)
	o.leave = time.Time{}
	o.Verdict = caudal.Judge(o.Calls, o.Decisions)
}

// grpcTimeout reads the time that a gRPC client gives its call.
func grpcTimeout(r *http.Request) (time.Duration, bool) {
	if !isGRPC(r) {
		return 0, false
	}
	s := r.Header.Get("Grpc-Timeout")
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if err != nil {
		return 0, false
	}
	switch s[len(s)-1] {
	case 'H':
		return time.Duration(n) * time.Hour, n < 1<<20
	case 'M':
		return time.Duration(n) * time.Minute, true
	case 'S':
		return time.Duration(n) * time.Second, true
	case 'm':
		return time.Duration(n) * time.Millisecond, true
	case 'u':
		return time.Duration(n) * time.Microsecond, true
	case 'n':
		return time.Duration(n), true
	}
	return 0, false
}
