package httplimit

import (
	"sync/atomic"
	"syscall"
	"time"
)

// early is how long before its turn a held call is woken by the runtime's timer,
// which on Linux is up to a millisecond late. The rest it sleeps in the kernel, on a
// thread of its own; more than maxPrecise at a time are not worth that.
const (
	early      = 1200 * time.Microsecond
	maxPrecise = 4
)

var precise atomic.Int32

// sleepPrecisely sleeps for about the rest of a wait. It may return too soon.
func sleepPrecisely(rest time.Duration) {
	defer precise.Add(-1)
	if precise.Add(1) > maxPrecise || rest <= 0 {
		return
	}
	ts := syscall.NsecToTimespec(int64(rest))
	_ = syscall.Nanosleep(&ts, nil) // interrupted, it returns too soon
}
