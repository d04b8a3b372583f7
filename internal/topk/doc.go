// Package topk finds the keys that come most often in a stream, in memory that
// does not depend on how many keys there are.
//
// [Sketch] is the Space-Saving algorithm of Metwally, Agrawal and El Abbadi
// (2005). It keeps k counters. A key that has one is counted by it; any other
// takes over the smallest counter and goes on from its count, which is how much
// the new key may be over-counted by. With N counted in all:
//
//   - a count is never below the true one, and above it by at most its
//     ErrorBound, which is at most N / k;
//   - a key that is counted more often than N / k has a counter.
//
// [Window] forgets: it answers for the present stretch of time and the one before.
package topk
