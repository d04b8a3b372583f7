package memstore

import (
	"syscall"
	"time"
)

// nap gives the processor to another thread for a moment. It is a call of the
// system and no time.Sleep, because in a test on fake time (testing/synctest) that
// one counts as waiting for ever, and here somebody is about to go on.
func nap(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil) // an interrupted nap is a shorter one
}
