package decisionapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caudal-dev/caudal"
)

// refundBody is the body of /v1/refund.
type refundBody struct {
	Receipt *receipt `json:"receipt"`
	N       *uint32  `json:"n"`
	Left    bool     `json:"left"`
}

// refunded is its answer.
type refunded struct {
	Refunded uint32 `json:"refunded"`
}

func (a *API) refund(w http.ResponseWriter, r *http.Request) {
	var body refundBody
	if err := readJSON(w, r, &body); err != nil {
		bad(w, r, err)
		return
	}
	if body.Receipt == nil {
		bad(w, r, errors.New("receipt: send the receipt that the check answered"))
		return
	}
	charges, err := a.signer.open(*body.Receipt, a.rules.Load().limits, a.opts.Clock.Now().Wall)
	switch {
	case errors.Is(err, errExpired):
		problem(w, r, http.StatusGone, err.Error())
		return
	case err != nil:
		problem(w, r, http.StatusForbidden, err.Error())
		return
	case len(charges) == 0:
		problem(w, r, http.StatusGone, "the limits that charged this are no longer in the rules")
		return
	}
	n, err := amount(body.N, charges)
	if err != nil {
		bad(w, r, err)
		return
	}
	refunds := make([]caudal.Refund, len(charges))
	for i, c := range charges {
		refunds[i] = caudal.Refund{Receipt: c, N: min(n, c.Cost), Left: body.Left}
	}
	switch err := a.decider.Refund(r.Context(), refunds); {
	case err == nil:
		reply(w, http.StatusOK, refunded{n})
	case errors.Is(err, caudal.ErrReceiptUsed):
		problem(w, r, http.StatusConflict, "this receipt was refunded before")
	case errors.Is(err, caudal.ErrInvalidRefund):
		bad(w, r, err)
	case errors.Is(err, caudal.ErrUnsupported):
		problem(w, r, http.StatusNotImplemented, "the store of this server cannot refund")
	default:
		problem(w, r, http.StatusServiceUnavailable, "the store of the limits failed: whether anything was refunded is not known; the same receipt can be sent again")
	}
}

// amount says how much goes back: all when the body does not say.
func amount(asked *uint32, charges []caudal.Receipt) (uint32, error) {
	var cost uint32
	for _, c := range charges {
		cost = max(cost, c.Cost)
	}
	switch {
	case asked == nil:
		return cost, nil
	case *asked > cost:
		return 0, fmt.Errorf("n: %d is more than the %d that was charged", *asked, cost)
	}
	return *asked, nil
}
