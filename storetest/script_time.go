package storetest

import (
	"time"

	"github.com/caudal-dev/caudal"
)

// Short names that keep the timelines readable.
type (
	instant  = caudal.Instant
	duration = time.Duration
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// receipt is short for what a call was charged.
type receipt = caudal.Receipt

// cancelOf takes back the whole charge of a call that never left.
func cancelOf(r receipt) caudal.Refund { return caudal.Refund{Receipt: r, N: r.Cost} }
