// Package httplimit puts limits in front of net/http handlers: it decides,
// writes the headers that tell clients where they stand, answers denials, and
// holds calls until their turn.
//
// Most programs need two names: [New], for one limit and a function that says
// who is charged, and [Middleware.Wrap].
//
//	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerMinute(100)))
//	limit, err := httplimit.New(limiter, httplimit.ByIP, httplimit.Options{})
//	http.ListenAndServe(":8080", limit.Wrap(api))
//
// With a rule file, [NewDecider] takes the place of New: all limits that match a
// request are charged together, or none.
//
// # Answers
//
// A denied request gets 429 with Retry-After (whole seconds, rounded up, at least
// 1; none when it can never succeed), Cache-Control: no-store and a problem+json
// body that names the limits. A gRPC request gets RESOURCE_EXHAUSTED instead. Passed
// and denied requests alike carry X-RateLimit-Limit, -Remaining and -Reset for
// the nearest limit, and RateLimit-Policy and RateLimit (draft 11) for every
// enforced one; [Options] chooses among them. Where a handler behind, or another
// middleware before, limits as well, the lists are joined and the three older
// headers come from the tighter.
//
// A rule's on_deny replaces status, body and headers of its denials. A rule's cost
// in a response header is charged at its most and credited down once the handler
// is done. Where a rule counts only some responses (count_when), a call is charged
// before the handler and given back when the response begins with another status; a
// handler that panics before that leaves none, and its call counts. See
// [Outcome.Settle] for front ends of other kinds.
//
// # Streams and upgrades
//
// The ResponseWriter is handed on as it came, or under count_when in a wrapper that
// can do the same: flushing, hijacking, trailers and early hints work as without the
// middleware.
//
// # Calls under way
//
// Where a rule has a concurrency limit, a call takes a permit when it leaves, and
// holds it until its handler has returned, or until a connection that the handler
// took over is closed. If none is free the call is denied at once with
// Retry-After: 1, and what its other limits charged is given back. See
// [Outcome.Hold] and [Outcome.HoldsPermits].
//
// # When things go wrong
//
// A limiter that cannot decide lets requests pass and says so to the [Observer];
// Options.OnError can refuse them instead (503). A panic of the limiter passes
// the request and is reported the same way. A panic of the handler is not touched.
//
// # What the package does not do
//
// It holds no counts: a store does. It does not say who may be believed about an
// address: package identity does.
package httplimit
