package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc/tap"

	"github.com/caudal-dev/caudal/httplimit"
)

// Tap is a tap.ServerInHandle, for grpc.InTapHandle: it denies a call before the
// server starts anything for it. It is for shedding load with counts in memory,
// and does not wait: gRPC runs it for one call of a connection after another.
//
// A store that has to be asked over a network would hold up the whole connection;
// it gets 4 ms, after which the call passes. A turn that has yet to come denies the
// call. The answer has the details of a status but no trailer, so clients that
// retry by their service config do so by their own backoff. The charge stands,
// whatever becomes of the call.
//
// Use it instead of the other interceptors, or with limits of its own.
func (i *Interceptor) Tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if i.opts.Exempt(info.FullMethodName) {
		return ctx, nil
	}
	brief, cancel := context.WithTimeout(ctx, tapTime)
	defer cancel()
	o := i.decider.Decide(request(brief, info.FullMethodName, info.Header))
	defer o.Release()
	if o.Action == httplimit.Pass || o.Action == httplimit.Gone {
		return ctx, nil // a call whose client has gone ends by itself
	}
	return ctx, i.refuse(ctx, o).status.Err()
}

// tapTime is the time that a decision has. It is less than the time before its
// deadline at which a call must have its turn, so that no turn to come fits.
const tapTime = 4 * time.Millisecond
