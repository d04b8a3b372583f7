// Package failover keeps decisions coming when the store that makes them is slow
// or gone. [New] wraps a store that several instances share, such as redisstore,
// and gives a store that always answers:
//
//	shared, err := redisstore.Open(ctx, "redis://10.0.0.5:6379", redisstore.Options{})
//	store := failover.New(shared, failover.Options{})
//	defer store.Close()
//	limiter, err := caudal.New(store, caudal.PerMinute(100))
//
// # What a caller sees
//
// No call waits longer than [Options.Deadline] for the shared store, also when
// the store does not obey its context. When the store fails, each limit does what
// it was compiled with, see caudal.OnStoreError: count in this process, pass, or
// deny as unavailable. Such decisions say Degraded. A denial by the shared store
// is an answer, and is never asked again elsewhere. The only errors that remain
// are the caller's own: its context ended, or the store was closed.
//
// # When it stops asking
//
// A circuit breaker opens when at least half of the calls of the last moments
// failed, for which one failed call is enough to start looking: a dead store is
// found within 50 ms of the first call that it fails, whatever the traffic. From
// then on calls are answered here at once. One probe at a time asks whether the
// store is back; callers are never used for that. When it is, calls return to it
// a few at first and twice as many with each round of answers, so that a store
// that has just come up is not run over.
//
// # Counting in this process
//
// A local limit is the instance's share of the limit times its local factor; see
// caudal.Compiled.Local. The number of instances comes from a [Heart], as last
// known. Local counts start fresh, are kept apart from the shared ones, and are
// bounded. A leaky bucket protects something fragile, so its turns are handed
// over: see [Store.Take].
//
// # What it cannot know
//
// A call that was not answered in time may still be charged by the shared store:
// that counts too much, never too little. A receipt of a local count is worth a
// refund in this process only.
package failover
