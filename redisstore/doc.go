// Package redisstore counts in Redis: the store for several instances that share
// one count.
//
//	store, err := redisstore.Open(ctx, "redis://127.0.0.1:6379", redisstore.Options{})
//	limiter, err := caudal.New(store, caudal.PerMinute(100).WithBurst(20))
//
// # What it promises
//
// Decisions are the same as those of package memstore, to the last unit: each
// algorithm in scripts is the twin of one in package algorithm. All limits of a
// request are decided by one script call, in one round trip, and are all charged
// or none. Callers who ask at the same time share script calls: nobody waits for
// company, but who finds two calls under way goes with the next.
//
// On a Cluster each counter may live on another node, so each is asked by its own
// script call, all in parallel; when one denies, what the others charged is taken
// back. For that moment they count too much; they never admit too much. When the
// node cannot be reached to take a charge back, the charge stays.
//
// # Time
//
// Time is the server's, so that the clocks of the instances do not matter, held
// so that a counter's time never goes back. A server whose clock is set forward
// refills buckets, as wall clocks do. Instants are exact to a microsecond up to the
// year 2255, and to two after that. Where the server refuses TIME in scripts
// (some managed services, or the rights of the user), Open notices, logs it, and
// the instances' own wall clocks are used; see Options.CallerTime.
//
// # Keys and memory
//
// A counter is one key: the prefix and, in braces, 128 bits of a hash of the
// limit's scope and the key, so that nothing that a client sends reaches Redis and
// nobody can aim at another's counter. A token bucket takes 12 bytes of value. Keys
// expire when their state is the same as a fresh one. A value that this version
// does not know (from a later one, or foreign) is an error for its counter and is
// never overwritten. A refunded receipt is remembered by a small key beside the
// counter while its charge counts, and a minute at least. A sliding log takes 11
// bytes per admitted call, and can hold some 46 million.
//
// # When Redis fails
//
// A denial is never an error. Every failure wraps caudal.ErrStore and is an
// [*Error], which says its kind and whether it is transient. Nothing is sent
// twice: after a timeout it is not known whether a charge was made, and asking
// again could charge again. A server that answers that it is a replica, loading
// or without its master loses its connection and is dialled anew, so that names
// are resolved again. Deadlines come with the context.
//
// Redis 6.2 or later. A user needs: +evalsha +eval +script|load +get +set +del
// +exists +getrange +setrange +pexpire +pttl +time +publish +subscribe +ping
// +info ~PREFIX* &PREFIX*; for concurrency limits also +zadd +zcard +zscore +zrem
// +zremrangebyscore.
package redisstore
