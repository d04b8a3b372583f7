package memstore

import (
	"sync"
	"testing"
	"testing/synctest"
)

// TestLockOnFakeTime: who waits for a shard is not taken for one who waits for ever,
// however long the holder is without a processor.
func TestLockOnFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lock
		var waiters sync.WaitGroup
		l.Lock()
		got := 0
		for range 8 {
			waiters.Go(func() {
				l.Lock()
				defer l.Unlock()
				got++
			})
		}
		go func() {
			for range 1 << 22 { // longer than a waiter spins and yields
			}
			l.Unlock()
		}()
		synctest.Wait()
		if got != 8 {
			t.Errorf("%d of 8 waiters had the lock when all was still", got)
		}
		waiters.Wait()
	})
}
