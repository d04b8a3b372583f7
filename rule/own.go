package rule

import (
	"sync"

	"github.com/caudal-dev/caudal"
)

// maxOwn bounds how many numbers of a limit's own are kept ready.
const maxOwn = 10_000

// ownNumbers are the forms of one limit with other numbers, by requests_per_unit.
type ownNumbers struct {
	mu    sync.RWMutex
	ready map[uint32]*caudal.Compiled
}

// PerClient reports whether each API key or each user has a counter of its own under
// the limit. Only then can one of them have numbers of its own.
func (l *Limit) PerClient() bool {
	for n := l.node; n != nil; n = n.parent {
		if (n.key == "api_key" || n.key == "user") && (n.kind == exactValue || !n.sharedByAttribute) {
			return true
		}
	}
	return false
}

// WithRequests gives the limit as it is for somebody who has another
// requests_per_unit; a burst grows or shrinks in proportion, rounded up. The counter
// stays the same. The error says that there is no such limit. What it gives is kept:
// the numbers must be the operator's, not a client's. In a region that has a share of
// the limit it is that share of the number; one that rounds down to nothing denies
// everything, as to let one call pass would be more than was given.
func (l *Limit) WithRequests(n uint32) (*caudal.Compiled, error) {
	if n == l.source().limit.Requests {
		return l.Compiled, nil
	}
	l.own.mu.RLock()
	c := l.own.ready[n]
	l.own.mu.RUnlock()
	if c != nil {
		return c, nil
	}
	src := l.source()
	limit := src.limit
	if limit.Burst > 0 && limit.Requests > 0 {
		limit.Burst = inProportion(limit.Burst, n, limit.Requests)
	}
	limit.Requests = n
	c, err := l.inForce(limit).Compile(l.Name, l.scope(), src.options()...)
	if err != nil {
		return nil, err
	}
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	if len(l.own.ready) < maxOwn {
		if l.own.ready == nil {
			l.own.ready = map[uint32]*caudal.Compiled{}
		}
		l.own.ready[n] = c
	}
	return c, nil
}

// inProportion gives a x n / of, rounded up, from 1 to the largest uint32.
func inProportion(a, n, of uint32) uint32 {
	q := (uint64(a)*uint64(n) + uint64(of) - 1) / uint64(of) // fits: (2^32-1)^2 + 2^32 is under 2^64
	return uint32(min(max(q, 1), 1<<32-1))
}
