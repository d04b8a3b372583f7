//go:build !linux

package memstore

import "time"

// nap gives the processor to another thread for a moment.
func nap(d time.Duration) { time.Sleep(d) }
