package envoyrls

import (
	"math"
	"slices"
	"sync"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

// exchange is one request being answered. They are pooled.
type exchange struct {
	domain    string
	match     rule.Match
	parts     []part
	modes     []caudal.Mode // of the calls as the rules have them
	decisions []caudal.Decision
	verdict   caudal.Verdict

	entries []rule.Entry // of all descriptors, one after another
	keys    []byte       // of overrides
	before  []*rule.Limit
	refunds []caudal.Refund
	broken  bool // after a panic: not to be reused

	detail httplimit.Detail // for the observer
	who    described
}

// part is what one descriptor matched.
type part struct {
	first, last int         // its calls
	from, to    int         // its entries
	exempt      *rule.Limit // a rule that is unlimited
	negative    bool        // its hits are given back
	hits        uint32      // to charge, or to give back
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// maxKept bounds the memory for keys that an exchange keeps between requests.
const maxKept = 16 << 10

func (x *exchange) release() {
	x.match.Reset()
	clear(x.decisions)
	clear(x.entries)
	clear(x.before)
	clear(x.refunds)
	clear(x.parts)
	x.domain, x.verdict = "", caudal.Verdict{}
	x.detail, x.who = httplimit.Detail{}, nil
	x.parts, x.modes, x.decisions = x.parts[:0], x.modes[:0], x.decisions[:0]
	x.entries, x.before, x.refunds = x.entries[:0], x.before[:0], x.refunds[:0]
	if x.keys = x.keys[:0]; cap(x.keys) > maxKept {
		x.keys = nil
	}
	exchanges.Put(x)
}

// match finds the limits of all descriptors, with what each is to be charged.
func (s *Service) match(x *exchange, domain *rule.Domain, req *pb.RateLimitRequest) error {
	m := &x.match
	m.Reset()
	x.domain = domain.Name()
	for i, d := range req.Descriptors {
		p := part{first: len(m.Calls)}
		p.hits, p.negative = hitsOf(req, d)
		m.Exempt = nil
		if override := d.GetLimit(); override != nil {
			if err := s.override(x, i, d); err != nil {
				return err
			}
		} else {
			p.from = len(x.entries)
			for _, e := range d.GetEntries() {
				x.entries = append(x.entries, rule.Entry{Key: e.GetKey(), Value: e.GetValue()})
			}
			p.to = len(x.entries)
			domain.MatchDescriptor(x.entries[p.from:p.to], m)
		}
		p.last, p.exempt = len(m.Calls), m.Exempt
		x.parts = append(x.parts, p)
	}
	x.replace()
	s.prepare(x)
	return nil
}

// valuesOf gives the entries of a descriptor.
func (x *exchange) valuesOf(p *part) []rule.Entry { return x.entries[p.from:p.to] }

// hitsOf says what a descriptor is charged, or is given back: its own hits, of
// which 0 is a peek, else the request's, of which 0 is 1.
func hitsOf(req *pb.RateLimitRequest, d *ratelimit.RateLimitDescriptor) (hits uint32, negative bool) {
	if h := d.GetHitsAddend(); h != nil {
		// Nothing counts more than 32 bits, so giving back more changes nothing.
		return uint32(min(h.Value, math.MaxUint32)), d.IsNegativeHits
	}
	return max(req.HitsAddend, 1), d.GetIsNegativeHits()
}

// replace leaves out the limits that others of the request replace, and finds the
// place of those that stay. Limits are left out by name, so of two calls with the
// same limit both stay or none does: walking both lists finds which are gone.
func (x *exchange) replace() {
	m := &x.match
	x.before = append(x.before[:0], m.Limits...)
	m.Replace()
	if len(m.Limits) == len(x.before) {
		return
	}
	kept, old := 0, 0
	for i := range x.parts {
		p := &x.parts[i]
		first := kept
		for ; old < p.last; old++ {
			if kept < len(m.Limits) && m.Limits[kept] == x.before[old] {
				kept++
			}
		}
		p.first, p.last = first, kept
	}
}

// prepare says of each call what it costs and how it takes part.
func (s *Service) prepare(x *exchange) {
	calls := x.match.Calls
	n := len(calls)
	x.modes = slices.Grow(x.modes[:0], n)[:n]
	x.decisions = slices.Grow(x.decisions[:0], n)[:n]
	clear(x.decisions)
	shadow := s.opts.ShadowMode || s.opts.Controls.Off()
	unmatched := slices.ContainsFunc(x.parts, func(p part) bool { return p.first == p.last })
	for _, p := range x.parts {
		for i := p.first; i < p.last; i++ {
			c := &calls[i]
			c.Cost = p.hits
			c.Alone = s.opts.Compat && !s.opts.StopIncrement
			c.CountDenied = s.opts.Compat
			if s.opts.QuotaMode && c.Mode == caudal.Enforce {
				c.Mode = caudal.Quota
			}
			x.modes[i] = c.Mode
			switch {
			case p.negative:
				c.Cost, c.Mode, x.modes[i] = 0, caudal.Shadow, caudal.Shadow
			case shadow, s.opts.QuotaMode && unmatched:
				// A descriptor without limits always has room, so no quota is over.
				c.Mode = caudal.Shadow
			}
		}
	}
}
