package httplimit

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/shed"
)

// Priority gives the priority of the request, as the rules say; 0 when none says
// one.
func (o *Outcome) Priority() rule.Priority { return o.match.Priority }

// Shedding says what sheds the calls that there is no room for.
type Shedding struct {
	Shedder *shed.Shedder
	// PlanWeights says how much more than others the clients of a plan may have; a
	// plan that it lacks has weight 1.
	PlanWeights map[string]uint32
}

// sheds reports whether the call is yet to be admitted.
func (o *Outcome) sheds() bool {
	return o.shedding != nil && o.Action == Pass && !o.broken && !o.core.dry()
}

// shedCall says to a shedder whose call it is.
func (o *Outcome) shedCall(s *Shedding) shed.Call {
	call := shed.Call{Priority: o.match.Priority, Client: o.key}
	if r := o.request.HTTP(); r != nil {
		call.Client = o.request.Client()
		if len(s.PlanWeights) > 0 {
			plan, _ := o.request.Attribute("plan")
			call.Weight = s.PlanWeights[plan]
		}
	}
	return call
}

// shedEarly sheds a call for which there is certainly no room, before a store is
// asked about it: under overload that spares the store as well.
func (o *Outcome) shedEarly() bool {
	if !o.sheds() || !o.shedding.Shedder.Refuses(o.shedCall(o.shedding)) {
		return false
	}
	o.Action, o.Verdict.Allowed = Shed, false
	return true
}

// Admit takes a slot for a call that passed its limits and had its turn. It is the
// last thing to ask for before the call goes on: a call that is refused here is
// given back all that it was charged, and one that a limit refused never holds a slot.
// It reports false when there is no room; Refuse answers then. The slot is nil
// where nothing is to be denied, which all its methods bear. s is what the call was
// decided with, and may be nil.
func (o *Outcome) Admit(ctx context.Context, s *Shedding) (*shed.Slot, bool) {
	if s == nil || o.core.dry() {
		o.admitted()
		return nil, true
	}
	slot, err := s.Shedder.Acquire(ctx, o.shedCall(s))
	if err == nil {
		o.admitted()
		return slot, true
	}
	o.Action = Gone
	if errors.Is(err, shed.ErrShed) {
		// What is given back counts as nothing that passed.
		o.Action, o.Verdict.Allowed = Shed, false
	}
	o.countPermits(o.Action == Gone)
	for i := range o.Decisions {
		if d := &o.Decisions[i]; d.Charged {
			d.Remaining = min(d.Limit, d.Remaining+uint64(d.Receipt.Cost))
		}
	}
	o.Cancel(ctx)
	return nil, false
}

// admitted tells the observer of a call that goes on, if that has waited for it.
func (o *Outcome) admitted() {
	if o.shedding != nil {
		o.countPermits(true)
	}
}

// Overloaded is the body of the answer to a call that was shed.
func Overloaded() Problem {
	return Problem{Type: typeReducedCapacity, Title: "Request cannot be satisfied due to temporary server capacity constraints",
		Status: http.StatusServiceUnavailable, Detail: "the server is overloaded and has no room for this request now"}
}

// Streams reports whether a response goes on for as long as both sides like, so
// that it is no work under way: an upgrade, such as to WebSocket, and an event
// stream.
func Streams(status int, h http.Header) bool {
	return status == http.StatusSwitchingProtocols || strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// answer tells a slot how a response begins. Failures say nothing about how long
// an answer takes, and a stream gives the slot back.
func answer(slot *shed.Slot, status int, h http.Header) {
	switch {
	case Streams(status, h):
		slot.Release()
	case status < http.StatusInternalServerError:
		slot.Answered()
	}
}

// serveSlot runs a handler that holds a slot.
func serveSlot(slot *shed.Slot, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watcher := &watcher{ResponseWriter: w, begin: func(status int) { answer(slot, status, w.Header()) }}
		defer slot.Release()
		next.ServeHTTP(watcher.shown(), r)
		watcher.start(http.StatusOK)
	})
}
