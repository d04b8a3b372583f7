package redisstore

import (
	"encoding/binary"
	"time"

	"github.com/caudal-dev/caudal"
)

// Flags of a reply.
const (
	flagAllowed = 1 << iota
	flagNever
	flagCharged
)

// Sizes of a reply: now, and then what each limit says.
const (
	nowSize     = 8
	verdictSize = 26
)

// verdict is what a script says of one limit: instants, not waits.
type verdict struct {
	flags     byte
	remaining uint64
	x         int64 // of the charge, or of the retry
	reset     int64
	frac      uint32
}

// parseVerdict reads what a reply begins with.
func parseVerdict(reply string) verdict {
	b := []byte(reply[:verdictSize])
	return verdict{
		flags:     b[0],
		remaining: uint64(b[1])<<32 | uint64(binary.BigEndian.Uint32(b[2:])),
		x:         int64(binary.BigEndian.Uint64(b[6:])),
		reset:     int64(binary.BigEndian.Uint64(b[14:])),
		frac:      binary.BigEndian.Uint32(b[22:]),
	}
}

func parseNow(reply string) int64 {
	return int64(binary.BigEndian.Uint64([]byte(reply[:nowSize])))
}

// micros turns a wait in microseconds into a Duration; a wait below zero is none,
// and one beyond 292 years is as long as a Duration can say.
func micros(us int64) time.Duration {
	const most = int64(1<<63-1) / 1000
	return time.Duration(min(max(us, 0), most)) * time.Microsecond
}

// decide turns a verdict into the decision about a call of this cost.
func (v verdict) decide(l *caudal.Compiled, c counter, cost uint32, now int64, id uint64, d *caudal.Decision) {
	*d = caudal.Decision{
		Limit:      l.Capacity(),
		Allowed:    v.flags&flagAllowed != 0,
		Never:      v.flags&flagNever != 0,
		Remaining:  v.remaining,
		ResetAfter: micros(v.reset - now),
	}
	switch {
	case v.flags&flagCharged != 0:
		d.Charged = true
		d.Receipt = caudal.Receipt{Limit: l, Counter: c, ID: id, At: v.x, Frac: v.frac, Cost: cost}
		if l.Algorithm() == caudal.LeakyBucket {
			turn := v.x
			if v.frac > 0 {
				turn++
			}
			d.Delay = micros(turn - now)
		}
	case !d.Allowed && !d.Never:
		d.RetryAfter = micros(v.x - now)
	}
}
