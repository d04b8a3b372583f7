package decisionapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

// seconds is a duration as a JSON number of seconds, rounded up to a microsecond.
type seconds time.Duration

// MarshalJSON writes up to six decimals.
func (s seconds) MarshalJSON() ([]byte, error) {
	us := (time.Duration(s) + time.Microsecond - 1) / time.Microsecond
	b := strconv.AppendInt(nil, int64(us/1e6), 10)
	if part := us % 1e6; part > 0 {
		b = append(b, strings.TrimRight(fmt.Sprintf(".%06d", part), "0")...)
	}
	return b, nil
}

// decision is the answer to one check.
type decision struct {
	Allowed     bool                  `json:"allowed"`
	Domain      string                `json:"domain"`
	Never       bool                  `json:"never,omitempty"`
	RetryAfter  *seconds              `json:"retry_after,omitempty"`
	Delay       seconds               `json:"delay"`
	Nearest     string                `json:"nearest,omitempty"`
	Missing     string                `json:"missing,omitempty"`
	Blocked     string                `json:"blocked,omitempty"`
	Degraded    bool                  `json:"degraded,omitempty"`
	Unavailable bool                  `json:"unavailable,omitempty"`
	Limits      []limitDecision       `json:"limits"`
	Concurrency []concurrencyDecision `json:"concurrency,omitempty"`
	Receipt     *receipt              `json:"receipt,omitempty"`
	Permit      *permit               `json:"permit,omitempty"`
	Error       string                `json:"error,omitempty"`
}

// limitDecision is what one limit says.
type limitDecision struct {
	Name       string   `json:"name"`
	Mode       string   `json:"mode"` // enforce, shadow or quota
	Allowed    bool     `json:"allowed"`
	Charged    bool     `json:"charged"`
	Limit      uint64   `json:"limit"`
	Remaining  uint64   `json:"remaining"`
	ResetAfter seconds  `json:"reset_after"`
	RetryAfter *seconds `json:"retry_after,omitempty"`
	Delay      seconds  `json:"delay"`
	Never      bool     `json:"never,omitempty"`
	Degraded   bool     `json:"degraded,omitempty"`
}

// decisions is the answer to a batch.
type decisions struct {
	Results []decision `json:"results"`
}

func (a *API) check(w http.ResponseWriter, r *http.Request) {
	var body checkBody
	if err := readJSON(w, r, &body); err != nil {
		bad(w, r, err)
		return
	}
	rules := a.rules.Load()
	if body.Checks == nil {
		d, err := a.prepare(rules, &body.checkRequest)
		if err != nil {
			bad(w, r, err)
			return
		}
		answer := a.decide(r, d, &body.checkRequest)
		if answer.Error != "" {
			problem(w, r, http.StatusServiceUnavailable, answer.Error)
			return
		}
		reply(w, http.StatusOK, answer)
		return
	}
	domains, err := a.prepareBatch(rules, &body)
	if err != nil {
		bad(w, r, err)
		return
	}
	answers := decisions{Results: make([]decision, len(body.Checks))}
	for i := range body.Checks {
		answers.Results[i] = a.decide(r, domains[i], &body.Checks[i])
	}
	reply(w, http.StatusOK, answers)
}

// prepareBatch looks at all checks of a batch before the first is charged.
func (a *API) prepareBatch(rules *rules, body *checkBody) ([]*rule.Domain, error) {
	one := &body.checkRequest
	switch {
	case one.Attributes != nil || one.Descriptors != nil || one.Cost != nil || one.Peek || one.Domain != "":
		return nil, fmt.Errorf("checks: beside a list of checks nothing else may stand: write it into each")
	case len(body.Checks) == 0 || len(body.Checks) > maxChecks:
		return nil, fmt.Errorf("checks: %d of them; send 1 to %d", len(body.Checks), maxChecks)
	}
	domains := make([]*rule.Domain, len(body.Checks))
	for i := range body.Checks {
		d, err := a.prepare(rules, &body.Checks[i])
		if err != nil {
			return nil, fmt.Errorf("checks[%d]: %w", i, err)
		}
		domains[i] = d
	}
	return domains, nil
}

func (a *API) prepare(rules *rules, c *checkRequest) (*rule.Domain, error) {
	if err := c.validate(a.opts.FoldPathCase); err != nil {
		return nil, err
	}
	if name := rules.standard.Name(); name != "" && (c.Domain == "" || c.Domain == name) {
		return rules.standard, nil
	}
	if d, ok := rules.set.Domain(c.Domain); ok {
		return d, nil
	}
	var names []string
	for _, d := range rules.set.Domains() {
		names = append(names, d.Name())
	}
	if c.Domain == "" {
		return nil, fmt.Errorf("domain: name one, for the rules hold several: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("domain: %.100q is not among the rules: they hold %s", c.Domain, strings.Join(names, ", "))
}

func (a *API) decide(r *http.Request, domain *rule.Domain, c *checkRequest) decision {
	if hit, ok := c.blocked(a.decider); ok {
		left := seconds(hit.Left)
		return decision{Domain: domain.Name(), Limits: []limitDecision{}, Blocked: hit.Attribute, RetryAfter: &left}
	}
	start := time.Now()
	o := a.decider.DecideMatch(r.Context(), domain.Name(), func(m *rule.Match) { c.match(domain, m) })
	defer o.Release()
	a.opts.Took(time.Since(start))
	answer := decision{Domain: domain.Name(), Limits: []limitDecision{}, Missing: o.Missing()}
	if o.Err == nil {
		a.permits(r.Context(), o, &answer)
	}
	answer.Allowed = o.Action == httplimit.Pass
	if o.Err != nil {
		answer.Allowed, answer.Error = false, "no decision was made: the store of the limits failed"
		return answer
	}
	answer.Never, answer.Delay = o.Verdict.Never, seconds(o.Verdict.Delay)
	answer.Degraded, answer.Unavailable = answer.Degraded || o.Verdict.Degraded, answer.Unavailable || o.Verdict.Unavailable
	if o.Action == httplimit.Deny && !o.Verdict.Never {
		after := seconds(o.Verdict.RetryAfter)
		answer.RetryAfter = &after
	}
	if n := o.Verdict.Nearest; n >= 0 && n < len(o.Decisions) && answer.Nearest == "" {
		answer.Nearest = o.Calls[n].Limit.Name()
	}
	for i := range o.Decisions {
		if d := &o.Decisions[i]; !d.Unasked {
			answer.Limits = append(answer.Limits, limitOf(&o.Calls[i], d))
		}
	}
	if answer.Allowed {
		answer.Receipt = a.signer.receipt(o, a.opts.Clock.Now().Wall)
	}
	return answer
}

var modes = map[caudal.Mode]string{caudal.Enforce: "enforce", caudal.Shadow: "shadow", caudal.Quota: "quota"}

func limitOf(c *caudal.Call, d *caudal.Decision) limitDecision {
	l := limitDecision{Name: c.Limit.Name(), Mode: modes[c.Mode], Allowed: d.Allowed, Charged: d.Charged,
		Limit: d.Limit, Remaining: d.Remaining, ResetAfter: seconds(d.ResetAfter), Delay: seconds(d.Delay),
		Never: d.Never, Degraded: d.Degraded}
	if !d.Allowed && !d.Never {
		after := seconds(d.RetryAfter)
		l.RetryAfter = &after
	}
	return l
}

func reply(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
