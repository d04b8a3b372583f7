// Package caudal limits how often things may happen.
//
// Most programs need two names: [New], which makes a [Limiter] from a store and
// a [Limit], and [Limiter.Allow], which asks it.
//
//	limiter, err := caudal.New(memstore.New(memstore.Options{}), caudal.PerMinute(100))
//	...
//	d, err := limiter.Allow(ctx, "user:42")
//	if err != nil { ... }   // no decision was made: the store failed
//	if !d.Allowed { ... }   // denied: d.RetryAfter says when to come back
//
// # Words
//
// A [Limit] is a promise: how many calls per period, by which [Algorithm]. A key
// names who is charged. A cost is how much one call takes, usually 1. A
// [Decision] answers "may this pass?". A denial is data, never an error; an
// error means that no decision was made. An allowed decision carries a
// [Receipt], with which the charge can be taken back.
//
// # Time
//
// Decisions are made to the microsecond with integers only; nothing drifts. Time
// comes from a [Clock] that gives the monotonic and the wall time in one call,
// so that a wall clock that steps changes nothing where only elapsed time
// counts. Every verb has a full form that takes the instant.
//
// # What the package does not do
//
// It holds no state itself: a [Store] does (package memstore in memory, package
// redisstore when several instances share a count). It knows nothing of HTTP
// (package httplimit), of Envoy's protocol (package envoyrls) or of rule files
// (package rule).
// It needs only the standard library.
package caudal
