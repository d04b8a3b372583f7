package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caudal-dev/caudal"
)

// ErrLimited is wrapped by the error of a call that its own side held back: it has
// not been sent. Test with errors.Is; a *LimitedError says more.
var ErrLimited = errors.New("retry: held back by the outbound limit")

// LimitedError says why a call was held back.
type LimitedError struct {
	// Key is who was charged.
	Key string
	// Decision is the denial; its RetryAfter says when there will be room.
	Decision caudal.Decision
	// Err is why no decision was made, when FailClosed refuses without one.
	Err error
}

// Error says what was denied and when to come back.
func (e *LimitedError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("%v: %q could not be checked: %v", ErrLimited, e.Key, e.Err)
	case e.Decision.Unavailable:
		return fmt.Sprintf("%v: %q could not be checked: its store is gone", ErrLimited, e.Key)
	case e.Decision.Never:
		return fmt.Sprintf("%v: %q costs more than it ever allows", ErrLimited, e.Key)
	}
	return fmt.Sprintf("%v: %q has room in %s", ErrLimited, e.Key, e.Decision.RetryAfter.Round(time.Millisecond))
}

// Unwrap lets errors.Is find ErrLimited and the failure of the store.
func (e *LimitedError) Unwrap() []error { return []error{ErrLimited, e.Err} }

// Outbound is a limit on what is sent. The zero value holds nothing back.
type Outbound struct {
	// Limiter decides, on whatever store it stands: one in memory is for this
	// process, one on Redis for all who share it. nil means no limit.
	Limiter *caudal.Limiter
	// MaxWait bounds how long a call waits for its turn; one that would wait longer
	// gets a *LimitedError at once. 0 means that only the context bounds it;
	// negative, that no call waits.
	MaxWait time.Duration
	// FailClosed refuses calls about which the limiter cannot decide, for budgets
	// that must not be overspent. By default they pass.
	FailClosed bool
}

// Wait returns nil when a call of this key and cost may be sent. It returns a
// *LimitedError at once when its turn is beyond MaxWait or ctx's deadline, and
// ctx's error when that ends first; nothing is charged then.
func (o *Outbound) Wait(ctx context.Context, key string, cost uint32) error {
	if o.Limiter == nil {
		return nil
	}
	waiting := ctx
	if o.MaxWait > 0 {
		// A limiter denies a turn that comes with the deadline: it would be a race. Here
		// the longest wait is one that is still accepted.
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, min(o.MaxWait, longest)+time.Millisecond)
		defer cancel()
	}
	d, err := o.ask(waiting, key, cost)
	switch {
	case err == nil && d.Allowed:
		return nil
	case err == nil:
		return &LimitedError{Key: key, Decision: d}
	case ctx.Err() != nil:
		return ctx.Err()
	case waiting.Err() != nil:
		return &LimitedError{Key: key, Decision: caudal.Decision{RetryAfter: o.MaxWait}}
	case o.FailClosed:
		return &LimitedError{Key: key, Err: err}
	}
	return nil
}

func (o *Outbound) ask(ctx context.Context, key string, cost uint32) (caudal.Decision, error) {
	if o.MaxWait >= 0 {
		return o.Limiter.WaitN(ctx, key, cost)
	}
	d, err := o.Limiter.AllowN(ctx, key, cost)
	if err == nil && d.Delay > 0 { // a turn to wait for, and nobody who waits
		err = o.Limiter.Cancel(context.WithoutCancel(ctx), d.Receipt)
		d = caudal.Decision{Limit: d.Limit, RetryAfter: d.Delay}
	}
	return d, err
}
