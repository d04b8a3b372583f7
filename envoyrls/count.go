package envoyrls

import (
	"net/netip"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
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
		s.opts.Stats.count(x, s.opts.ShadowMode || s.opts.Controls.Off())
	}
}

func (s *Service) decided(x *exchange, i int, result httplimit.Result) {
	if s.opts.Observer != nil {
		s.tell(x, i, result)
	}
}

// tell tells the observer what became of the limit of call i.
func (s *Service) tell(x *exchange, i int, result httplimit.Result) {
	if s.detailed == nil {
		s.opts.Observer.Decided(x.domain, x.match.Calls[i].Limit, result)
		return
	}
	d := &x.detail
	*d = httplimit.Detail{Domain: x.domain, Call: &x.match.Calls[i], Result: result, Decision: &x.decisions[i], Rule: x.match.Limits[i], Who: &x.who}
	for k := range x.parts {
		if p := &x.parts[k]; p.first <= i && i < p.last {
			d.Entries = x.valuesOf(p)
			break
		}
	}
	x.who = d.Entries
	s.detailed.Detailed(d)
}

// described is a request of which only a descriptor is known.
type described []rule.Entry

// Attribute gives the value of the entry of that name.
func (e *described) Attribute(name string) (string, bool) {
	for _, entry := range *e {
		if entry.Key == name {
			return entry.Value, true
		}
	}
	return "", false
}

// Address gives the client's address, if the descriptor has it.
func (e *described) Address() netip.Addr {
	text, _ := e.Attribute("remote_address")
	a, _ := netip.ParseAddr(text) // else there is none
	return a
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
