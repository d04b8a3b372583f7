// Package algorithm holds the five algorithms as pure functions: the state of a
// key, an instant, a limit and a cost give the next state and a decision. There
// is no lock, no clock and no map here; stores bring those. Each file has a Lua
// twin in package redisstore that gives the same decisions.
//
// # Arithmetic
//
// Everything is an integer. Instants are microseconds since 1970. A token bucket
// and a sliding window count time in ticks (see Compiled.Tick), so that products
// of a cost and a period fit two machine words; a leaky bucket keeps fractions
// of a microsecond exactly. docs/algorithms.md states what that means for
// precision.
//
// # Rules that hold for all
//
// A zero state is fresh. A cost of 0 is a peek. A denied call changes nothing:
// Take returns the state it was given. The time held in a state never moves
// back; an instant before it counts as the time held, while waits are measured
// from the caller's instant.
package algorithm
