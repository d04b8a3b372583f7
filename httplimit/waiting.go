package httplimit

import "github.com/caudal-dev/caudal"

// QueueObserver is an ability of an Observer: it is told how many calls wait in the
// queues. It is found by asking whether an Observer is one too.
type QueueObserver interface {
	// Waiting is called with 1 when a call begins to wait for its turn under an
	// enforced leaky bucket, and with -1 when it leaves or goes away.
	Waiting(domain string, limit *caudal.Compiled, change int)
}

// waiting tells of the queues in which the call has a turn ahead.
func (o *Outcome) waiting(change int) {
	if o.core.queues == nil {
		return
	}
	quota := caudal.QuotaEnforced(o.Calls, o.Decisions)
	for i := range o.Decisions {
		if o.Decisions[i].Delay > 0 && caudal.Enforced(o.Calls[i].Mode, quota) {
			o.core.queues.Waiting(o.domain, o.Calls[i].Limit, change)
		}
	}
}
