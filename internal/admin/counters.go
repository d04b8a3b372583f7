package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

// CountersRequest says whose counters: one of Key, Attributes and Descriptor. It is
// the body of /v1/counters and of the two below it.
type CountersRequest struct {
	// Domain is the name of one domain; empty is all.
	Domain string `json:"domain,omitempty"`
	// Key is one attribute and its value, such as "api_key=k-123", or an address.
	Key string `json:"key,omitempty"`
	// Attributes are several.
	Attributes map[string]string `json:"attributes,omitempty"`
	// Descriptor is one as Envoy sends it: "key=value,key2=value2".
	Descriptor string `json:"descriptor,omitempty"`
	// Rule narrows what is reset or refunded to one limit's name.
	Rule string `json:"rule,omitempty"`
	// N is how much to refund.
	N uint32 `json:"n,omitempty"`
}

// Counters is the answer: every counter that the client has.
type Counters struct {
	// Blocked says that the client is blocked by hand, and for how many seconds yet.
	Blocked *BlockedFor `json:"blocked,omitempty"`
	// Counters are sorted as the rules are.
	Counters []Counter `json:"counters"`
}

// BlockedFor says by which attribute a client is blocked.
type BlockedFor struct {
	Attribute string  `json:"attribute"`
	Seconds   float64 `json:"seconds"`
}

// Counter is one counter as it is now.
type Counter struct {
	Domain string `json:"domain"`
	Rule   string `json:"rule"`
	Path   string `json:"path"`  // where the rule stands
	Words  string `json:"words"` // the limit
	Mode   string `json:"mode"`  // enforce, shadow or quota

	Limit      uint64  `json:"limit"`
	Used       uint64  `json:"used"`
	Remaining  uint64  `json:"remaining"`
	ResetAfter float64 `json:"reset_after"` // seconds until Remaining is Limit again
	// RetryAfter is the seconds until a call of cost 1 passes, where it would not
	// now and the wait is known; Denies says why it would not.
	RetryAfter float64 `json:"retry_after,omitempty"`
	Denies     string  `json:"denies,omitempty"`
	Degraded   bool    `json:"degraded,omitempty"` // the count of this instance alone
}

var modes = map[caudal.Mode]string{caudal.Enforce: "enforce", caudal.Shadow: "shadow", caudal.Quota: "quota"}

// place is a counter: a limit and the key under it.
type place struct {
	rule *rule.Limit
	call caudal.Call
}

const (
	// maxAttributes bounds those of one look-up.
	maxAttributes = 64
	// maxPlaces bounds the counters of one look-up.
	maxPlaces = 1000
	// perCall is how many counters are asked for in one call of the store.
	perCall = 100
)

// places finds the counters of a request.
func (a *API) places(q *CountersRequest) ([]place, error) {
	given := 0
	for _, is := range []bool{q.Key != "", len(q.Attributes) > 0, q.Descriptor != ""} {
		if is {
			given++
		}
	}
	if given != 1 || len(q.Attributes) > maxAttributes {
		return nil, fmt.Errorf("send one of key, attributes (at most %d) and descriptor", maxAttributes)
	}
	domains := a.o.Rules().Domains()
	if q.Domain != "" {
		d, ok := a.o.Rules().Domain(q.Domain)
		if !ok {
			return nil, fmt.Errorf("domain %.80q is not among the rules", q.Domain)
		}
		domains = []*rule.Domain{d}
	}
	if q.Descriptor != "" {
		return byDescriptor(domains, q.Descriptor), nil
	}
	known, err := a.client(q)
	if err != nil {
		return nil, err
	}
	var all []place
	for _, d := range domains {
		d.Lookup(known, func(l *rule.Limit, c caudal.Call) {
			if len(all) < maxPlaces {
				c.Key = append([]byte(nil), c.Key...)
				c.Limit = known.own(l, c.Limit)
				all = append(all, place{l, c})
			}
		})
	}
	return all, nil
}

func byDescriptor(domains []*rule.Domain, text string) []place {
	var all []place
	entries := rule.ParseDescriptor(text)
	for _, d := range domains {
		var m rule.Match
		d.MatchDescriptor(entries, &m)
		for i, l := range m.Limits {
			all = append(all, place{l, m.Calls[i]})
		}
	}
	return all
}

// look reads the counters, without charging them.
func (a *API) look(ctx context.Context, places []place) ([]Counter, error) {
	calls, out := make([]caudal.Call, len(places)), make([]caudal.Decision, len(places))
	for i, p := range places {
		calls[i] = caudal.Call{Limit: p.call.Limit, Key: p.call.Key, Mode: caudal.Shadow}
	}
	for from := 0; from < len(calls); from += perCall {
		to := min(from+perCall, len(calls))
		if err := a.o.Store.Take(ctx, caudal.Instant{}, calls[from:to], out[from:to]); err != nil {
			return nil, err
		}
	}
	list := make([]Counter, len(places))
	for i, p := range places {
		d := &out[i]
		list[i] = Counter{Domain: p.rule.Domain, Rule: p.rule.Name, Path: p.rule.Path, Words: p.call.Limit.Limit().Words(),
			Mode: modes[p.call.Mode], Limit: d.Limit, Remaining: d.Remaining, Used: d.Limit - min(d.Limit, d.Remaining),
			ResetAfter: seconds(d.ResetAfter), Degraded: d.Degraded}
		if d.Remaining == 0 {
			list[i].Denies, list[i].RetryAfter = a.why(ctx, &p, d)
		}
	}
	return list, nil
}

// why says in words why a limit would deny a call now, and the seconds until it
// would not; 0 where that is not known.
func (a *API) why(ctx context.Context, p *place, d *caudal.Decision) (words string, retry float64) {
	l := p.call.Limit
	if l.Requests() == 0 {
		return "this limit allows no requests", 0
	}
	wait := a.wait(ctx, p, d)
	what := fmt.Sprintf("used up: %d of %d", d.Limit, d.Limit)
	if p.call.Mode == caudal.Shadow {
		what += "; it would deny, but is not enforced"
	}
	if wait <= 0 {
		return fmt.Sprintf("%s; whole again in %s", what, up(d.ResetAfter)), 0
	}
	return fmt.Sprintf("%s; a call passes in %s", what, up(wait)), seconds(wait)
}

// up is a time in whole seconds, rounded up, so that nobody comes early.
func up(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// wait is how long until a call of cost 1 passes; 0 where nobody knows.
func (a *API) wait(ctx context.Context, p *place, d *caudal.Decision) time.Duration {
	l := p.call.Limit
	switch l.Algorithm() {
	case caudal.FixedWindow:
		return d.ResetAfter // at the end of the window
	case caudal.TokenBucket:
		full := time.Duration(float64(l.PeriodMicros())*float64(d.Limit-1)/float64(l.Requests())) * time.Microsecond
		return max(d.ResetAfter-full, time.Microsecond)
	}
	if f, ok := a.o.Store.(caudal.Forecaster); ok {
		if ahead, err := f.Forecast(ctx, caudal.Instant{}, l, string(p.call.Key)); err == nil {
			if wait, ok := ahead.Peek(1); ok {
				return wait
			}
		}
	}
	return 0
}

func (a *API) counters(w http.ResponseWriter, r *http.Request) {
	var q CountersRequest
	if !read(w, r, &q) {
		return
	}
	a.answer(w, r, &q)
}

// answer looks at the counters, as they are after what was done to them.
func (a *API) answer(w http.ResponseWriter, r *http.Request, q *CountersRequest) {
	places, err := a.places(q)
	if err != nil {
		problem(w, r, http.StatusBadRequest, err)
		return
	}
	list, err := a.look(r.Context(), places)
	if err != nil {
		problem(w, r, http.StatusServiceUnavailable, fmt.Errorf("the counters cannot be read: %w", err))
		return
	}
	reply(w, Counters{Blocked: a.blockedFor(q), Counters: list})
}

// blockedFor says whether the client is blocked.
func (a *API) blockedFor(q *CountersRequest) *BlockedFor {
	var hit control.Hit
	var ok bool
	if q.Descriptor != "" {
		hit, ok = a.o.Controls.LookupEntries(rule.ParseDescriptor(q.Descriptor))
	} else if known, err := a.client(q); err == nil {
		hit, ok = a.o.Controls.Lookup(known)
	}
	if !ok {
		return nil
	}
	return &BlockedFor{hit.Attribute, seconds(hit.Left)}
}

func (a *API) reset(w http.ResponseWriter, r *http.Request) {
	a.change(w, r, "counter reset", func(ctx context.Context, q *CountersRequest, p place) error {
		resetter, ok := a.o.Store.(caudal.Resetter)
		if !ok {
			return caudal.ErrUnsupported
		}
		return resetter.Reset(ctx, p.call.Limit, string(p.call.Key))
	})
}

func (a *API) refund(w http.ResponseWriter, r *http.Request) {
	a.change(w, r, "counter refunded", func(ctx context.Context, q *CountersRequest, p place) error {
		refunder, ok := a.o.Store.(caudal.Refunder)
		if !ok {
			return caudal.ErrUnsupported
		}
		if q.N == 0 {
			return errors.New("n: say how much to give back")
		}
		return refunder.Refund(ctx, caudal.Instant{}, []caudal.Refund{{Limit: p.call.Limit, Key: string(p.call.Key), N: q.N}})
	})
}

// change does something to each counter that a request names, and answers with what
// is there then.
func (a *API) change(w http.ResponseWriter, r *http.Request, what string, do func(context.Context, *CountersRequest, place) error) {
	var q CountersRequest
	if !read(w, r, &q) {
		return
	}
	places, err := a.places(&q)
	if err != nil {
		problem(w, r, http.StatusBadRequest, err)
		return
	}
	done := 0
	for _, p := range places {
		if q.Rule != "" && p.rule.Name != q.Rule {
			continue
		}
		if err := do(r.Context(), &q, p); err != nil {
			status := http.StatusBadRequest
			if errors.Is(err, caudal.ErrStore) {
				status = http.StatusServiceUnavailable
			}
			problem(w, r, status, err)
			return
		}
		done++
		a.changed(r, what, "domain", p.rule.Domain, "rule", p.rule.Name, "key", q.whose(p), "n", q.N)
	}
	if done == 0 {
		problem(w, r, http.StatusNotFound, errors.New("no rule has a counter for this"+ofRule(q.Rule)))
		return
	}
	a.answer(w, r, &q)
}

// whose names the client in the log as blocks are named there, secrets by their
// hash. Several values are one hash, that of the counter's key: any may be a secret.
func (q *CountersRequest) whose(p place) string {
	if target, err := control.ParseTarget(q.Key); q.Key != "" && err == nil {
		return target.String()
	}
	return "sha256:" + identity.HashKey(string(p.call.Key)).String()
}

func ofRule(name string) string {
	if name == "" {
		return ""
	}
	return " under " + strings.ToValidUTF8(name, "?")
}
