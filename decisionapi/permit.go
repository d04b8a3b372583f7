package decisionapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
)

// permit is what an allowed check holds of the concurrency limits, for the caller
// to renew and release.
type permit struct {
	ID    string  `json:"id"`
	MAC   string  `json:"mac"`
	Lease seconds `json:"lease,omitempty"`
}

// permitBody is the body of /v1/renew and /v1/release.
type permitBody struct {
	Permit *permitHandle `json:"permit"`
}

// permitHandle is a permit that comes back. Its lease is not read.
type permitHandle struct {
	ID    string  `json:"id"`
	MAC   string  `json:"mac"`
	Lease float64 `json:"lease"`
}

// renewed and released are the answers.
type (
	renewed struct {
		Lease seconds `json:"lease"`
	}
	released struct {
		Released bool `json:"released"`
	}
)

// concurrencyDecision is what one concurrency limit says.
type concurrencyDecision struct {
	Name     string `json:"name"`
	Mode     string `json:"mode"` // enforce or shadow
	Allowed  bool   `json:"allowed"`
	Acquired bool   `json:"acquired"`
	Max      uint64 `json:"max"`
	InUse    uint64 `json:"in_use"`
	Degraded bool   `json:"degraded,omitempty"`
}

// The form of a permit's id: a version, and for each permit whether one instance
// counts it by itself, the limit, the counter (two words) and the permit's own id.
const (
	permitVersion = 1
	permitItem    = 1 + 16 + 16 + 8
)

func permitLimitID(l *caudal.CompiledConcurrency) limitID {
	sum := sha256.Sum256([]byte(l.Scope()))
	return limitID(sum[:])
}

func (s signer) permitMAC(payload []byte) []byte {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte("caudal permit"))
	m.Write(payload)
	return m.Sum(nil)[:macSize]
}

// permit gives the handle of an outcome's permits; nil when there are none.
func (s signer) permit(o *httplimit.Outcome) *permit {
	permits := o.Permits()
	if len(permits) == 0 {
		return nil
	}
	b := append(make([]byte, 0, 1+permitItem*len(permits)), permitVersion)
	lease := permits[0].Limit.Lease()
	for _, p := range permits {
		local := byte(0)
		if p.Limit.StandsInFor() != nil {
			local = 1
		}
		id := permitLimitID(p.Limit)
		b = append(append(b, local), id[:]...)
		for _, word := range []uint64{p.Counter[0], p.Counter[1], p.ID} {
			b = binary.BigEndian.AppendUint64(b, word)
		}
		lease = min(lease, p.Limit.Lease())
	}
	return &permit{ID: encoding.EncodeToString(b), MAC: encoding.EncodeToString(s.permitMAC(b)), Lease: seconds(lease)}
}

var errPermitForged = errors.New("the permit does not bear this deployment's MAC: it was changed, or made under another secret (restarted without secret_file?)")

// openPermit gives the permits of a handle. Those of limits that are no longer in
// the rules are left out: nothing counts them.
func (s signer) openPermit(p permitHandle, limits map[limitID]*caudal.CompiledConcurrency) ([]caudal.Permit, error) {
	// Its length is bounded by that of bodies alone: whatever a check handed out must
	// come back, or it is held until its lease is over.
	b, err := encoding.DecodeString(p.ID)
	mac, errMAC := encoding.DecodeString(p.MAC)
	if err != nil || errMAC != nil || !hmac.Equal(mac, s.permitMAC(b)) {
		return nil, errPermitForged
	}
	// What follows was written here.
	if len(b) < 1 || b[0] != permitVersion || (len(b)-1)%permitItem != 0 {
		return nil, errPermitForged
	}
	var permits []caudal.Permit
	for b = b[1:]; len(b) > 0; b = b[permitItem:] {
		limit := limits[limitID(b[1:17])]
		if limit == nil {
			continue
		}
		if b[0] == 1 {
			limit = limit.Local(1) // any: only that it is local matters
		}
		word := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
		permits = append(permits, caudal.Permit{Limit: limit, Counter: [2]uint64{word(17), word(25)}, ID: word(33)})
	}
	return permits, nil
}

// permits takes the permits of a check that may pass, and tells of them.
func (a *API) permits(ctx context.Context, o *httplimit.Outcome, answer *decision) {
	o.AcquirePermits(ctx)
	for i := range o.Grants {
		g, call := &o.Grants[i], o.PermitCall(i)
		c := concurrencyDecision{Name: call.Limit.Name(), Mode: "enforce", Allowed: g.Allowed, Acquired: g.Acquired, Max: g.Max, InUse: g.InUse, Degraded: g.Degraded}
		if call.Shadow {
			c.Mode = "shadow"
		}
		answer.Concurrency = append(answer.Concurrency, c)
		answer.Degraded = answer.Degraded || g.Degraded
		answer.Unavailable = answer.Unavailable || g.Unavailable && !call.Shadow
	}
	answer.Permit = a.signer.permit(o)
	if names := o.DenyingPermits(); len(names) > 0 {
		answer.Nearest = names[0]
	}
}

func (a *API) renew(w http.ResponseWriter, r *http.Request) {
	permits, ok := a.readPermit(w, r)
	if !ok {
		return
	}
	held := make([]bool, len(permits))
	if err := a.decider.RenewPermits(r.Context(), permits, held); err != nil {
		permitFailed(w, r, err)
		return
	}
	lease := permits[0].Limit.Lease()
	for i, ok := range held {
		if !ok {
			problem(w, r, http.StatusGone, "the permit is not held any more: it was released, or not renewed within its lease")
			return
		}
		lease = min(lease, permits[i].Limit.Lease())
	}
	reply(w, http.StatusOK, renewed{seconds(lease)})
}

func (a *API) release(w http.ResponseWriter, r *http.Request) {
	permits, ok := a.readPermit(w, r)
	if !ok {
		return
	}
	held := make([]bool, len(permits))
	if err := a.decider.ReleasePermits(r.Context(), permits, held); err != nil {
		permitFailed(w, r, err)
		return
	}
	for _, ok := range held {
		if ok {
			reply(w, http.StatusOK, released{true})
			return
		}
	}
	problem(w, r, http.StatusGone, "the permit was not held any more: it was released before, or not renewed within its lease")
}

// readPermit reads the permits that a body names; false when the request has been
// answered.
func (a *API) readPermit(w http.ResponseWriter, r *http.Request) ([]caudal.Permit, bool) {
	var body permitBody
	if err := readJSON(w, r, &body); err != nil {
		bad(w, r, err)
		return nil, false
	}
	if body.Permit == nil {
		bad(w, r, errors.New("permit: send the permit that the check answered"))
		return nil, false
	}
	permits, err := a.signer.openPermit(*body.Permit, a.rules.Load().concurrency)
	switch {
	case err != nil:
		problem(w, r, http.StatusForbidden, err.Error())
		return nil, false
	case len(permits) == 0:
		problem(w, r, http.StatusGone, "the limits that gave this permit are no longer in the rules")
		return nil, false
	}
	return permits, true
}

func permitFailed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, caudal.ErrUnsupported) {
		problem(w, r, http.StatusNotImplemented, "the store of this server cannot hold permits")
		return
	}
	problem(w, r, http.StatusServiceUnavailable, "the store of the limits failed: the same permit can be sent again")
}
