package envoyrls

import (
	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
)

// count tells the observer about each limit that was charged or denied the call,
// and keeps the reference's statistics.
func (s *Service) count(x *exchange) {
	if s.opts.Observer != nil {
		calls := x.match.Calls
		quota := caudal.QuotaEnforced(calls, x.decisions)
		for i := range x.decisions {
			if result, ok := resultOf(x, i, quota); ok {
				s.decided(x, i, result)
			}
		}
	}
	if s.opts.Stats != nil {
		s.opts.Stats.count(x, s.opts.ShadowMode)
	}
}

func (s *Service) decided(x *exchange, i int, result httplimit.Result) {
	if s.opts.Observer != nil {
		s.opts.Observer.Decided(x.domain, x.match.Calls[i].Limit, result)
	}
}

// resultOf says what became of one limit; ok is false when nothing did.
func resultOf(x *exchange, i int, quota bool) (result httplimit.Result, ok bool) {
	c, d := &x.match.Calls[i], &x.decisions[i]
	passes := x.verdict.Allowed || c.Alone // each stands for itself
	switch {
	case c.Cost == 0:
		return 0, false
	case d.Unavailable && caudal.Enforced(c.Mode, quota):
		return httplimit.ErrorDenied, true
	case d.Degraded && d.Allowed && !d.Charged && passes && c.Limit.OnStoreError() == caudal.FailOpen:
		return httplimit.ErrorAllowed, true
	case d.Charged && passes:
		return httplimit.Allowed, true
	case d.Allowed:
		return 0, false
	case caudal.Enforced(c.Mode, quota):
		return httplimit.Denied, true
	}
	return httplimit.ShadowDenied, true
}
