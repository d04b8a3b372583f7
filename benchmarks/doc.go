// Command benchmarks measures caudal beside other rate limiters for Go: the same
// work, the same keys, one table.
//
//	go run .                    all rows in memory
//	go run . -store redis       the same limiters over one Redis
//	go run . -store services    caudal as a service beside gubernator and nginx
//	go run . -rows hot,zipf -rounds 5
//	go run . -json > results.json
//
// Each limiter and row runs in a process of its own, so that none pays for what
// another left on the heap, and the rounds go round all limiters in turn, so that a
// machine that grows slower does so for everyone. The table gives the median of the
// rounds and how far apart they were.
//
// Services run as processes of their own, all at once, and take turns in a closed
// loop of -callers. Their figure is the processor time of a request, and how much it
// is more than that of the same server without limits. gubernator is built in the
// user's cache folder the first time; nginx must be installed. One that cannot be had
// is left out, and the table says why.
//
// This is a module of its own: who uses caudal does not get its rivals.
package main
