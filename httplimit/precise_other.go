//go:build !linux

package httplimit

import "time"

// early is 0: a held call is woken by the runtime's timer alone.
const early = 0

func sleepPrecisely(time.Duration) {}
