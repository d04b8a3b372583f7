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
// A call that leaves takes the permits that its rules demand (concurrency). If none
// is free it is denied, and all that was charged is given back likewise. The permits
// are held, and renewed, until Release.
//
// It must be called once, before the request's body is read; it may replace the
// body by a copy.
func (o *Outcome) Hold(r *http.Request) bool {
	if o.Action != Pass || o.leave.IsZero() {
		return o.takePermits(r.Context())
	}
	return o.wait(r.Context(), readAhead(r)) && o.takePermits(r.Context())
}

// Wait is Hold for a call that is no HTTP request of its own.
func (o *Outcome) Wait(ctx context.Context) bool {
	if o.Action != Pass || o.leave.IsZero() {
		return o.takePermits(ctx)
	}
	return o.wait(ctx, nil) && o.takePermits(ctx)
}

// wait waits for the turn; hungUp tells of a client that has gone, beside ctx.
func (o *Outcome) wait(ctx context.Context, hungUp <-chan struct{}) bool {
	o.waiting(1)
	defer o.waiting(-1)
	if waitUntil(ctx, hungUp, o.leave) {
		return true
	}
	o.Action = Gone
	if o.uncounted {
		o.uncounted = false
		o.core.count(o)
	}
	o.Cancel(ctx)
	return false
}

// waitUntil waits until an instant, and reports whether it came before the end of the
// context or of the connection.
func waitUntil(ctx context.Context, hungUp <-chan struct{}, at time.Time) bool {
	t := time.NewTimer(time.Until(at) - early)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return false
		case <-hungUp:
			return false
		}
		sleepPrecisely(time.Until(at))
		// What is left is of a sleep that was cut short, or where time is not real.
		rest := time.Until(at)
		if rest <= 0 {
			return ctx.Err() == nil
		}
		t.Reset(rest)
	}
}

// readAhead takes in a small body of HTTP/1 during the wait. Until a body has
// been read, net/http does not watch the connection, so a client that hangs up
// would keep its turn. HTTP/2 always watches; a client that wants to be asked for
// its body is not asked before its turn. The channel is closed if the body breaks
// off.
func readAhead(r *http.Request) <-chan struct{} {
	n := r.ContentLength
	if r.ProtoMajor != 1 || n <= 0 || n > maxHeldBody || r.Header.Get("Expect") != "" {
		return nil
	}
	b := &heldBody{Closer: r.Body, read: make(chan struct{}), broken: make(chan struct{})}
	body := r.Body
	r.Body = b
	go func() {
		defer close(b.read)
		data := make([]byte, n)
		k, err := io.ReadFull(body, data)
		b.data.Reset(data[:k])
		if b.err = err; err != nil {
			close(b.broken)
		}
	}()
	return b.broken
}

// heldBody is a body that is being taken in. A reader waits until it is there: a
// slow sender delays its own call, and not the moment at which it leaves.
type heldBody struct {
	io.Closer
	read, broken chan struct{}

	data bytes.Reader // once read is closed
	err  error
}

func (b *heldBody) Read(p []byte) (int, error) {
	<-b.read
	n, err := b.data.Read(p)
	if err == io.EOF && b.err != nil {
		err = b.err
	}
	return n, err
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
	o.giveBack(ctx)
}

// giveBack takes back what o.refunds says.
func (o *Outcome) giveBack(ctx context.Context) {
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
