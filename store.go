package caudal

import (
	"context"
	"time"
)

// Call is one limit of a request: which counter, and how much.
type Call struct {
	// Limit decides. Required.
	Limit *Compiled
	// Key names the counter within the limit's scope, as opaque bytes; any bytes
	// will do, also none. A store keeps no reference to it after the call.
	Key []byte
	// Cost is what the call takes; 0 is a peek, which counts nothing.
	Cost uint32
	// Mode says whether the limit is enforced.
	Mode Mode
	// Alone decides the call by itself: it is charged when it has room, whatever
	// the others of its request say, as if each came in a request of its own, in
	// order. All calls of a request must agree on it. It is for protocols that
	// promise to charge each limit by itself.
	Alone bool
	// CountDenied makes a fixed window count the cost of a denied call too, as
	// Envoy's reference service does: who goes on calling stays denied until the
	// window ends, also when the limit is raised, and a peek at a window that
	// counts more than its limit is denied. Other algorithms ignore it.
	CountDenied bool
	// MinDelay is the least Delay that a leaky bucket may give: the first turn of
	// the call is no sooner than this after the instant of the call, on the time of
	// the counter, and if it is charged, later calls get their turns behind it. It
	// is for a caller who knows of turns that were given elsewhere. Whole
	// microseconds; 0 is none, and other algorithms ignore it.
	MinDelay time.Duration
	// Fair says for whom the call waits in a leaky bucket, as opaque bytes that the
	// store keeps only a hash of: of the turns that lie ahead, all calls with the
	// same Fair hold at most max(1, floor(Capacity / (a + 1))), where a counts the
	// values that hold some, this one included. Turns that were given stand. So one
	// client cannot fill the queue. Empty is nobody in particular: no share is taken
	// or kept to. Calls of one request that share a counter must agree on it; other
	// algorithms ignore it. The store keeps no reference to it after the call.
	Fair []byte
}

// Store counts. It must be safe for concurrent use.
//
// # Contract
//
// Take decides one request against all its limits together and writes one
// decision per call into out, in order. Either every enforced limit has room and
// all are charged (limits that are not enforced: those that have room), or
// nothing is charged at all; Call.Alone and Call.CountDenied make exceptions.
// Calls of one request that share a counter are checked with their summed cost. When the request is denied, the decisions of
// limits with room report what remains without it. Package storetest checks all
// this, with the reasons.
//
// at is the instant of the request; the zero Instant means now by the store's
// own clock, read once. The time held in a counter never moves back: an instant
// before it counts as the time held, and waits are measured from at.
//
// An error means that no decision was made, wraps ErrStore or the context's
// error, and leaves out undefined. A denial is not an error.
//
// A store reads only the counters, never what a client sent. It holds at most
// what it was made to hold; a counter that it drops counts as fresh.
type Store interface {
	Take(ctx context.Context, at Instant, calls []Call, out []Decision) error
}

// The following are further abilities of a store, found by type assertion.
type (
	// KeyStore decides one limit without the slices of Take, so that the most
	// common call allocates nothing.
	KeyStore interface {
		TakeKey(ctx context.Context, at Instant, limit *Compiled, key string, cost uint32) (Decision, error)
	}

	// Refunder takes charges back.
	Refunder interface {
		// Refund takes back the charges of one request. Each receipt works once;
		// the first that was used before makes the call return ErrReceiptUsed after
		// the others are done. A refund with no receipt to go by names its limit
		// and key and takes from what is there, down to nothing used.
		Refund(ctx context.Context, at Instant, refunds []Refund) error
	}

	// Resetter makes a counter fresh.
	Resetter interface {
		Reset(ctx context.Context, limit *Compiled, key string) error
	}

	// Forecaster runs a counter ahead of time, for waiters in line.
	Forecaster interface {
		Forecast(ctx context.Context, at Instant, limit *Compiled, key string) (Forecast, error)
	}
)

// Refund names a charge to take back.
type Refund struct {
	// Receipt is what the allowed decision carried. When it is zero, Limit and
	// Key name the counter instead.
	Receipt Receipt
	Limit   *Compiled
	Key     string
	// N is how much to take back, at most the receipt's cost.
	N uint32
	// Left says that the call left its queue. A leaky bucket gives back only
	// turns of calls that never left.
	Left bool
}

// Forecast is a copy of a counter that runs ahead of time.
type Forecast interface {
	// Peek gives how long after the forecast's instant a call of this cost could
	// pass, behind those taken so far; ok is false when it can never.
	Peek(cost uint32) (wait time.Duration, ok bool)
	// Take charges the call at that time and gives the same wait.
	Take(cost uint32) (wait time.Duration, ok bool)
}
