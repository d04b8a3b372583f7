package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"

	"github.com/caudal-dev/caudal"
)

// Explanation says what a domain's rules make of one request, and why. It is a
// plain structure for JSON; String renders it for people.
type Explanation struct {
	Domain string `json:"domain"`
	// By is "attributes" or "descriptor".
	By string `json:"by"`
	// Steps are the branches that were walked, in order.
	Steps []Step `json:"steps"`
	// Limits are those that apply, all checked together.
	Limits []Applied `json:"limits"`
	// Concurrency are the limits of calls under way that apply.
	Concurrency []AppliedConcurrency `json:"concurrency,omitempty"`
	// Replaced names limits that matched and that another one replaces.
	Replaced []string `json:"replaced,omitempty"`
	// Rejected is the attribute whose absence refuses the request.
	Rejected string `json:"rejected,omitempty"`
	// Unlimited says that a rule with unlimited: true matched.
	Unlimited bool `json:"unlimited,omitempty"`
	// Priority is the request's when there is not room for all; empty when no rule
	// says one, or by descriptor.
	Priority string `json:"priority,omitempty"`
}

// Step is one choice among the siblings of a key.
type Step struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Absent bool   `json:"absent,omitempty"`
	// Chosen is nil when no sibling was.
	Chosen *Chosen `json:"chosen"`
	// Note says in words how it was chosen, or why nothing was.
	Note string `json:"note"`
	// Lost are siblings that were not chosen, those that would match first; at
	// most MaxLost, and LostMore more.
	Lost     []Lost `json:"lost,omitempty"`
	LostMore int    `json:"lost_more,omitempty"`
	// Below are the choices among the chosen descriptor's children.
	Below []Step `json:"below,omitempty"`
}

// MaxLost is how many losing siblings a Step names.
const MaxLost = 10

// Chosen is the descriptor that a step chose.
type Chosen struct {
	Rule     string   `json:"rule"`
	Position Position `json:"position"`
	// Limits are the names of its limits.
	Limits []string `json:"limits,omitempty"`
	// Exempt says that it has neither limits nor children, so that nothing of its
	// branch applies.
	Exempt bool `json:"exempt,omitempty"`
	// Priority is what the descriptor itself says.
	Priority string `json:"priority,omitempty"`
}

// Lost is a sibling that was not chosen.
type Lost struct {
	Rule     string   `json:"rule"`
	Position Position `json:"position"`
	Why      string   `json:"why"`
}

// Applied is a limit that a request is checked against.
type Applied struct {
	Name     string   `json:"name"`
	Rule     string   `json:"rule"`
	Position Position `json:"position"`
	// Words says what the limit does, WorstCase what it lets through at most.
	Words     string `json:"words"`
	WorstCase string `json:"worst_case"`
	// WorstOverRegions is the same of all regions together; empty when none is known.
	WorstOverRegions string `json:"worst_over_regions,omitempty"`
	// Counter says whose calls are counted together, one part for each level of
	// the rule, and CounterID is a short hash of the counter's whole identity.
	Counter   []string `json:"counter"`
	CounterID string   `json:"counter_id"`
	Cost      uint32   `json:"cost"`
	// CountWhen are the statuses of responses that count; empty when every call
	// does.
	CountWhen string `json:"count_when,omitempty"`
	// Fair is the attribute whose values share the queue; empty when none does.
	Fair string `json:"fair,omitempty"`
	// Mode is "enforced", "shadow" or "quota".
	Mode string `json:"mode"`
	// Accuracy is "leased" where instances take the count from Redis in batches,
	// and empty for exact.
	Accuracy string `json:"accuracy,omitempty"`

	limit *Limit
}

// Explain says what Match does with the request.
func (d *Domain) Explain(req Request) *Explanation {
	var m Match
	d.Match(req, &m)
	e := &explainer{walker: walker{domain: d, req: req}, out: &Explanation{Domain: d.name, By: "attributes"}}
	e.out.Steps = e.level(&d.root, nil)
	e.finish(&m)
	return e.out
}

// ExplainDescriptor says what MatchDescriptor does with the descriptors of one
// request.
func (d *Domain) ExplainDescriptor(descriptors ...[]Entry) *Explanation {
	var m Match
	e := &explainer{walker: walker{domain: d}, out: &Explanation{Domain: d.name, By: "descriptor"}}
	for _, entries := range descriptors {
		d.MatchDescriptor(entries, &m)
		e.out.Steps = append(e.out.Steps, e.entries(&d.root, entries, nil)...)
	}
	m.Replace()
	e.finish(&m)
	return e.out
}

// explainer walks as a walker does, through the same choices, and takes notes.
// What applies is not its own finding: finish takes that from the match itself.
type explainer struct {
	walker
	out    *Explanation
	walked []Applied
}

// finish pairs what was walked with what the match says, in the same order. What
// the match lacks was replaced.
func (e *explainer) finish(m *Match) {
	e.out.Rejected, e.out.Unlimited = m.Rejected, m.Unlimited
	e.out.Priority = m.Priority.String()
	e.out.Limits = []Applied{}
	j := 0
	for _, a := range e.walked {
		if j >= len(m.Limits) || m.Limits[j] != a.limit {
			e.out.Replaced = append(e.out.Replaced, a.Name)
			continue
		}
		call := &m.Calls[j]
		sum := sha256.Sum256(caudal.AppendPart([]byte(call.Limit.Scope()), call.Key))
		a.CounterID = hex.EncodeToString(sum[:6])
		a.Cost, a.Fair = call.Cost, a.limit.Fair
		if c := a.limit.CountWhen; c != nil && e.out.By == "attributes" {
			a.CountWhen = c.Status.String()
		}
		a.Mode = modeWords(call.Mode)
		if call.Limit.Accuracy() != caudal.Exact {
			a.Accuracy = call.Limit.Accuracy().String()
		}
		e.out.Limits = append(e.out.Limits, a)
		j++
	}
	e.finishConcurrency(m)
}

func modeWords(m caudal.Mode) string {
	switch m {
	case caudal.Shadow:
		return "shadow"
	case caudal.Quota:
		return "quota"
	}
	return "enforced"
}

// level explains all branches below one node by attributes.
func (e *explainer) level(ix *index, counter []string) []Step {
	var steps []Step
	for _, g := range ix.groups {
		v, ok := "", false
		var n *node
		if g.address {
			if a := e.client(); a.IsValid() {
				v, ok = a.String(), true
				n = g.pickAddr(a, nil)
			}
		} else if v, ok = e.req.Attribute(g.key); ok && !(v == "" && g.emptyIsAbsent()) {
			n = g.pick(v)
		} else {
			ok = false
		}
		step := Step{Key: g.key, Value: v, Absent: !ok}
		var part string
		if ok {
			part = e.part(n, v)
			step.Note = chosenWords(n)
			step.lost(g, n, v)
		} else {
			n, part, step.Note = e.missing(g)
		}
		if n != nil {
			e.enter(&step, n, append(slices.Clone(counter), part))
			step.Below = e.level(&n.below, append(slices.Clone(counter), part))
		}
		steps = append(steps, step)
	}
	for _, n := range ix.anyKeys {
		steps = append(steps, Step{Key: n.key, Absent: true, Note: "a key with * matches only by descriptor"})
	}
	return steps
}

// missing explains a request that lacks the attribute.
func (e *explainer) missing(g *group) (n *node, part, note string) {
	if g.any == nil {
		return nil, "", "the request has none, and every sibling wants a value"
	}
	switch g.any.missing {
	case MissingReject:
		return nil, "", "the request has none: missing: reject refuses it"
	case MissingIP:
		if a := e.client(); a.IsValid() {
			return g.any, fmt.Sprintf("no %s, address %s", printable(g.key), e.prefix(a)), "the request has none: missing: ip counts by address"
		}
		return g.any, "no " + printable(g.key), "the request has none, and no address: all such are counted together"
	case MissingShared:
		return g.any, "no " + printable(g.key), "the request has none: missing: shared counts all such together"
	}
	return nil, "", "the request has none, so the branch is left out"
}

// enter notes the node that a step chose.
func (e *explainer) enter(step *Step, n *node, counter []string) {
	step.Chosen = e.chosen(n)
	e.take(n, counter)
}

func (e *explainer) chosen(n *node) *Chosen {
	c := &Chosen{Rule: n.words(), Position: n.source.pos, Exempt: len(n.limits) == 0 && n.concurrency == nil && n.below.empty(), Priority: n.priority.String()}
	for _, l := range n.limits {
		c.Limits = append(c.Limits, l.Name)
	}
	if n.concurrency != nil {
		c.Limits = append(c.Limits, n.concurrency.Name)
	}
	return c
}

// take notes the limits of a node that was reached.
func (e *explainer) take(n *node, counter []string) {
	e.takeConcurrency(n, counter)
	for _, l := range n.limits {
		if l.Unlimited {
			continue
		}
		over := ""
		if w, _, ok := l.WorstOverRegions(); ok {
			over = w.String()
		}
		e.walked = append(e.walked, Applied{Name: l.Name, Rule: l.Path, Position: l.Position,
			Words: l.Compiled.Limit().Words() + l.whom() + l.regionWords(), WorstCase: l.Compiled.Limit().WorstCase().String(),
			WorstOverRegions: over, Counter: counter, limit: l})
	}
}

func (ix *index) empty() bool { return len(ix.groups) == 0 && len(ix.anyKeys) == 0 }

// part says what a level adds to the counter by attributes.
func (e *explainer) part(n *node, v string) string {
	switch {
	case n == nil:
		return ""
	case n.kind == exactValue:
		return printable(n.key) + "=" + printable(n.value)
	case n.sharedByAttribute:
		return "all " + printable(n.key) + " matching " + printable(n.value)
	case n.key == remoteAddress:
		return "address " + e.prefix(e.client())
	}
	return printable(n.key) + "=" + printable(clip(v))
}

// prefix writes the address as it is counted.
func (e *explainer) prefix(a netip.Addr) string {
	p := e.domain.group(a)
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// entries explains one descriptor from the given level on.
func (e *explainer) entries(ix *index, list []Entry, counter []string) []Step {
	if len(list) == 0 {
		return nil
	}
	entry := list[0]
	step := Step{Key: entry.Key, Value: entry.Value}
	n := ix.pick(&entry, nil)
	step.Note = chosenWords(n)
	if g := ix.byKey[normalKey(entry.Key)]; g != nil {
		step.lost(g, n, entry.Value)
	}
	if n == nil {
		return []Step{step}
	}
	counter = append(slices.Clone(counter), e.entryPart(n, &entry))
	step.Chosen = e.chosen(n)
	switch {
	case len(list) == 1:
		e.take(n, counter)
	case len(n.limits) > 0:
		step.Note += "; its own limits do not count, as the descriptor goes on"
	}
	step.Below = e.entries(&n.below, list[1:], counter)
	return []Step{step}
}

func (e *explainer) entryPart(n *node, entry *Entry) string {
	if n.kind != exactValue && n.sharedByDescriptor {
		return "all " + printable(n.key) + " matching " + printable(n.value)
	}
	if a, ok := parseAddr(entry.Value); ok && n.kind == cidrValue {
		return "address " + e.prefix(a)
	}
	return printable(entry.Key) + "=" + printable(clip(entry.Value))
}
