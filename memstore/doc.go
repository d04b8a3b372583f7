// Package memstore counts in memory: the store for one process.
//
//	store := memstore.New(memstore.Options{})
//	limiter, err := caudal.New(store, caudal.PerMinute(100).WithBurst(20))
//
// # What it costs
//
// One key takes about 45 bytes, without a pointer, so that the garbage collector
// has nothing to follow however many keys there are; a decision allocates
// nothing and touches two cache lines. There is no goroutine and no timer: keys
// that have become fresh again are dropped by the calls that come after, and by
// [Store.Sweep].
//
// # What it promises
//
// Decisions are linearizable per key, and a batch over several keys is atomic.
// The number of keys is bounded by Options.MaxKeys. At the bound a key is
// dropped for each new one: first one that is fresh again anyway, then one that
// still has room, and one that was denied last of all; see Options.MaxKeys.
//
// What is counted ends with the process, unless [Open] makes the store: it keeps
// it in a file, written outside of decisions, of which a kill loses at most the
// last second.
//
// Keys are known by 128 bits of a hash under a secret seed. Two keys share a
// counter with a chance of 1 in 10^24 even among 10 million keys, and nobody who
// does not know the seed can look for such a pair.
package memstore
