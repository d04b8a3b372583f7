package caudal

import "time"

// Decision answers "may this pass?" for one limit. The zero value denies.
type Decision struct {
	// Allowed says that this limit has room for the call. When several limits are
	// checked together the call passes only if all that are enforced allow it.
	Allowed bool

	// Never says that a denied call can never succeed: its cost is above Limit,
	// or Limit is 0. RetryAfter means nothing then.
	Never bool

	// Charged says that the call was counted. It is false for a peek, and for a
	// limit with room when another limit denied the call.
	Charged bool

	// Unasked says that this limit was not asked and counted nothing, because
	// another limit of the call was known to deny it. Allowed is set then, so that
	// it is no denial; all else is zero, and nobody should be shown it.
	Unasked bool

	// Degraded says that the decision was made without the store that should have
	// made it: by a local count, or by a policy for when it is gone.
	Degraded bool

	// Unavailable says that a call was denied only because the store is gone and
	// the limit's policy for that is FailClosed: nobody is over a limit.
	Unavailable bool

	// Limit is the largest cost that a fresh key admits at once.
	Limit uint64

	// Remaining is the largest cost that would pass now, after this call;
	// 0 <= Remaining <= Limit.
	Remaining uint64

	// RetryAfter is how long a denied call must wait until it would pass, if
	// nobody else calls. Zero when allowed.
	RetryAfter time.Duration

	// ResetAfter is how long it takes until Remaining equals Limit again, if
	// nobody calls.
	ResetAfter time.Duration

	// Delay is how long an allowed call must wait for its turn. Only leaky
	// buckets give one.
	Delay time.Duration

	// Receipt says what an allowed call was charged, for a refund.
	Receipt Receipt
}

// Receipt says what a call was charged by one limit: which counter, how much,
// when. It is worth one refund, whoever copies it. The zero Receipt is none.
// Stores fill it; others only pass it on.
type Receipt struct {
	// Limit is the limit that charged.
	Limit *Compiled
	// Counter identifies the counter, as the store's hash of the limit's scope
	// and the key.
	Counter [2]uint64
	// ID is unique among the receipts of one counter while the charge counts.
	ID uint64
	// At is the instant of the charge on the key's own time; for a leaky bucket
	// the first turn given, with Frac/Requests of a microsecond.
	At   int64
	Frac uint32
	// Cost is what was charged.
	Cost uint32
}

// Mode says how a limit takes part in a call that several limits decide.
type Mode uint8

const (
	// Enforce lets the limit deny. The zero value.
	Enforce Mode = iota
	// Shadow never denies and never delays: it is charged when the call passes
	// and it has room, and its verdict is reported.
	Shadow
	// Quota behaves like Shadow until all Quota limits of the call deny.
	Quota
)

// Verdict is what the limits of one call together say.
type Verdict struct {
	// Allowed says that every enforced limit allows the call.
	Allowed bool
	// Never says that the denied call can never succeed.
	Never bool
	// RetryAfter is the longest wait of the denying limits; zero when allowed.
	RetryAfter time.Duration
	// Delay is the longest turn of the enforced limits.
	Delay time.Duration
	// Nearest is the index of the limit to tell the client about: the denying one
	// with the longest wait, else the enforced one with the least remaining; -1
	// when no limit is enforced.
	Nearest int
	// Degraded says that some decision was made without the store.
	Degraded bool
	// Unavailable says that the call was denied because the store is gone; it
	// wins over any limit's denial.
	Unavailable bool
}

// Judge sums up the decisions about one call. It is the one place that says
// which of several limits decide, for stores and for those who answer clients.
func Judge(calls []Call, decisions []Decision) Verdict {
	v := Verdict{Allowed: true, Nearest: -1}
	quota := QuotaEnforced(calls, decisions)
	for i := range decisions {
		d := &decisions[i]
		v.Degraded = v.Degraded || d.Degraded
		if !Enforced(calls[i].Mode, quota) {
			continue
		}
		if v.Nearest < 0 || nearer(d, &decisions[v.Nearest]) {
			v.Nearest = i
		}
		if d.Allowed {
			v.Delay = max(v.Delay, d.Delay)
			continue
		}
		v.Allowed = false
		v.Never = v.Never || d.Never
		v.Unavailable = v.Unavailable || d.Unavailable
		v.RetryAfter = max(v.RetryAfter, d.RetryAfter)
	}
	if !v.Allowed {
		v.Delay = 0
	}
	if v.Never {
		v.RetryAfter = 0
	}
	return v
}

// QuotaEnforced reports whether the limits with mode Quota are enforced: there
// is at least one and all of them deny.
func QuotaEnforced(calls []Call, decisions []Decision) bool {
	any := false
	for i := range decisions {
		if calls[i].Mode != Quota {
			continue
		}
		if decisions[i].Allowed {
			return false
		}
		any = true
	}
	return any
}

// Enforced reports whether a limit of this mode takes part in the verdict.
func Enforced(m Mode, quotaEnforced bool) bool {
	return m == Enforce || m == Quota && quotaEnforced
}

// nearer reports whether a is nearer to denying, or denies for longer, than b.
func nearer(a, b *Decision) bool {
	switch {
	case a.Allowed != b.Allowed:
		return !a.Allowed
	case a.Allowed:
		return a.Remaining < b.Remaining
	case a.Never != b.Never:
		return a.Never
	}
	return a.RetryAfter > b.RetryAfter
}
