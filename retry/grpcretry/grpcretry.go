// Package grpcretry is package retry for gRPC clients: interceptors that try again
// what was refused, when the server says, and hold calls back under an outbound
// limit.
//
//	on, err := grpcretry.New(grpcretry.Options{})
//	...
//	conn, err := grpc.NewClient(target, grpc.WithUnaryInterceptor(on.Unary), grpc.WithStreamInterceptor(on.Stream))
//
// gRPC can retry by itself, by a policy in its service config, and then obeys the
// pushback of servers as well. Use one of the two: together they multiply. This
// one adds a budget that all calls share, a choice of jitter, an outbound limit,
// and retries only where that is safe.
//
// # When it tries again
//
// After RESOURCE_EXHAUSTED if the answer carries RetryInfo or a pushback: a limit
// refused the call before it did anything. Without them the code may mean that a
// message is too large, and no time helps. After UNAVAILABLE if Options.Idempotent
// says that the method may be called twice. Streams are not tried again, as what
// was said on them would be lost.
package grpcretry

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal/retry"
)

// Options are the settings of an Interceptor. The zero value is usable.
type Options struct {
	// Backoff gives the delays.
	Backoff retry.Backoff
	// MaxAttempts bounds the attempts of one call, the first included. Default 4.
	MaxAttempts int
	// MaxRetryAfter is the longest that a server may ask to wait. A call that is
	// asked to wait longer is not tried again. Default one minute.
	MaxRetryAfter time.Duration
	// Budget bounds the retries of all calls that share it. Default
	// retry.NewBudget(20, 0.2), for this interceptor.
	Budget *retry.Budget
	// Idempotent says whether a method (/package.Service/Method) may be called
	// twice. Default: none may.
	Idempotent func(method string) bool

	// Outbound holds attempts back until they have their turn.
	Outbound retry.Outbound
	// Key names who is charged under Outbound. Default: the target of the
	// connection.
	Key func(target, method string) string
}

func (o Options) withDefaults() Options {
	if o.MaxAttempts == 0 {
		o.MaxAttempts = 4
	}
	if o.MaxRetryAfter == 0 {
		o.MaxRetryAfter = time.Minute
	}
	if o.Budget == nil {
		o.Budget = retry.NewBudget(20, 0.2)
	}
	if o.Idempotent == nil {
		o.Idempotent = func(string) bool { return false }
	}
	if o.Key == nil {
		o.Key = func(target, _ string) string { return target }
	}
	return o
}

// Interceptor tries calls again. Make it with New. It is safe for concurrent use.
type Interceptor struct{ opts Options }

// New makes the interceptors.
func New(o Options) (*Interceptor, error) {
	o = o.withDefaults()
	switch {
	case o.MaxAttempts < 1:
		return nil, fmt.Errorf("grpcretry: %d attempts: allow at least 1", o.MaxAttempts)
	case o.MaxRetryAfter < 0:
		return nil, fmt.Errorf("grpcretry: a longest wait of %s: it cannot be negative", o.MaxRetryAfter)
	}
	if err := o.Backoff.Validate(); err != nil {
		return nil, err
	}
	return &Interceptor{o}, nil
}

// Unary is the interceptor for calls with one request and one answer. It gives the
// last answer as it came; a first attempt that the outbound limit holds back gives
// a *retry.LimitedError.
func (i *Interceptor) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := i.turn(ctx, cc, method); err != nil {
		return err
	}
	var trailer metadata.MD
	opts = append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))
	delays := i.opts.Backoff.Start()
	err := invoke(ctx, method, req, reply, cc, opts...)
	for attempt := 1; attempt < i.opts.MaxAttempts && err != nil; attempt++ {
		floor, ok := i.again(method, err, trailer)
		if !ok {
			return err
		}
		wait := floor + delays.Next()
		if deadline, ok := ctx.Deadline(); ok && wait >= time.Until(deadline) || !i.opts.Budget.Spend() {
			return err
		}
		if gone := sleep(ctx, wait); gone != nil {
			return status.FromContextError(gone).Err()
		}
		if i.turn(ctx, cc, method) != nil {
			return err
		}
		trailer = nil
		err = invoke(ctx, method, req, reply, cc, opts...)
	}
	if err == nil {
		i.opts.Budget.Earn()
	}
	return err
}

// Stream is the interceptor for streams: it holds them back until they have their
// turn under the outbound limit.
func (i *Interceptor) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := i.turn(ctx, cc, method); err != nil {
		return nil, err
	}
	return open(ctx, desc, cc, method, opts...)
}

func (i *Interceptor) turn(ctx context.Context, cc *grpc.ClientConn, method string) error {
	if i.opts.Outbound.Limiter == nil {
		return nil
	}
	target := ""
	if cc != nil {
		target = cc.Target()
	}
	return i.opts.Outbound.Wait(ctx, i.opts.Key(target, method), 1)
}

// again reports whether a failed call may be tried again, and the least time to
// wait before.
func (i *Interceptor) again(method string, err error, trailer metadata.MD) (floor time.Duration, ok bool) {
	floor, asked, forbidden := after(err, trailer)
	if forbidden || floor > i.opts.MaxRetryAfter {
		return 0, false
	}
	switch status.Code(err) {
	case codes.ResourceExhausted:
		return floor, asked
	case codes.Unavailable:
		return floor, i.opts.Idempotent(method)
	}
	return 0, false
}

// after gives what a server asks for: the longer of pushback and RetryInfo.
// forbidden says that it asks not to be called again, as any pushback that is no
// number does.
func after(err error, trailer metadata.MD) (floor time.Duration, asked, forbidden bool) {
	for _, v := range trailer.Get("grpc-retry-pushback-ms") {
		ms, bad := strconv.ParseInt(v, 10, 32)
		if bad != nil || ms < 0 {
			return 0, false, true
		}
		floor, asked = max(floor, time.Duration(ms)*time.Millisecond), true
	}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok && info.GetRetryDelay().CheckValid() == nil {
			// A delay beyond what a Duration holds is its largest, or 0 when negative.
			floor, asked = max(floor, info.GetRetryDelay().AsDuration()), true
		}
	}
	return floor, asked, false
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
