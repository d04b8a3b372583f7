// Package retry is the client's side of a limit: it tries again what was refused,
// at a pace that helps the server, and can hold calls back so that they are not
// refused at all.
//
// Most programs need one name: [NewTransport], an http.RoundTripper.
//
//	transport, err := retry.NewTransport(http.DefaultTransport, retry.Options{})
//	client := &http.Client{Transport: transport}
//
// Share one client: its calls then share one retry budget and one outbound limit.
// For gRPC clients there is package retry/grpcretry.
//
// # When it tries again
//
// After 429, 502, 503 and 504 and after a network error, if the request may be
// sent twice: its method is idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) or
// it carries an Idempotency-Key, and its body can be had again (GetBody, which
// http.NewRequest sets for bodies in memory). [Options] can say more.
//
// # How long it waits
//
// By an exponential [Backoff] with jitter. What the server asks for with
// Retry-After, or else with RateLimit, is a floor: the backoff comes on top of
// it, so that clients that were refused together do not come back together. A
// server that asks for more than Options.MaxRetryAfter is not tried again; its
// answer goes to the caller at once, and so it does when the wait would outlast
// the request's context.
//
// # What bounds it
//
// MaxAttempts bounds the attempts of one call, and a [Budget] those of all calls
// together: when a server is down, retries stop instead of multiplying the load.
//
// # Holding calls back
//
// With an [Outbound] limit each attempt first waits for its turn under a
// caudal.Limiter, in memory for one process or on Redis for many. A client that
// knows the server's limit so never meets a 429, and a daily budget of a paid API
// is never overspent; see docs/clients.md.
package retry
