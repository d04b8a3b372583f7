package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// Concurrency is the concurrency of one descriptor: how many calls may be under
// way at once.
type Concurrency struct {
	// Compiled is the limit in the form that stores take.
	Compiled *caudal.CompiledConcurrency
	// Domain is the name of the domain.
	Domain string
	// Name is what people see, the same as Compiled.Name: the path and the word
	// concurrency.
	Name string
	// Path says where the rule stands, such as "path=/report".
	Path string
	// Shadow says that it never denies: the descriptor is in shadow mode.
	Shadow bool
	// OnDeny is what a request is answered that it denies; nil means the usual.
	OnDeny *Denial
	// Position and FilePath say where it stands in the file.
	Position Position
	FilePath string

	node *node
}

// String gives the name.
func (c *Concurrency) String() string { return c.Name }

// Concurrencies gives every concurrency limit of the domain, in the order of the
// files.
func (d *Domain) Concurrencies() []*Concurrency { return slices.Clone(d.concurrencies) }

// Concurrencies gives every concurrency limit of every domain.
func (s *Set) Concurrencies() []*Concurrency {
	var all []*Concurrency
	for _, d := range s.domains {
		all = append(all, d.concurrencies...)
	}
	return all
}

// Describe says in one plain sentence what the limit does, such as
//
//	2 at once, lease 1m0s, for each api_key where path is /report
func (c *Concurrency) Describe() string {
	s := c.Compiled.Concurrency().String() + c.node.whom(false)
	if c.Shadow {
		s += "; in shadow mode: counts and never denies"
	}
	return s
}

// concurrencyLimit is one concurrency mapping as written.
type concurrencyLimit struct {
	pos   Position
	path  string
	limit caudal.Concurrency
}

var concurrencyKeys = &keySpecs{of: "a concurrency", required: []string{"max"}, keys: []keySpec{
	{"max", true, number(0, maxUint32), "How many calls may be under way at once; 0 denies everything."},
	{"lease", true, valueSpec{kind: aLength}, "After how long a call whose holder died counts no more, from 1s to 24h; 60s when absent. Holders renew every third of it."},
}}

// concurrency reads a descriptor's concurrency.
func (r *reader) concurrency(d *descriptor, f field) {
	fs, good := r.mapping(f.value, f.path, concurrencyKeys)
	if f.value.Kind != yaml.MappingNode {
		return
	}
	c := &concurrencyLimit{pos: r.position(f.value), path: f.path}
	if most, ok := fs.get("max"); ok {
		c.limit.Max, _ = r.number(most)
	} else if good {
		r.fail(f.value, f.path, "add max: how many calls may be under way at once", "max is missing")
	}
	if lease, ok := fs.get("lease"); ok {
		var read bool
		if c.limit.Lease, read = r.length(lease, "leave it out for 60s"); read {
			if err := c.limit.Validate(); err != nil {
				r.fail(lease.value, lease.path, "use whole milliseconds, from 1s to 24h", "lease %s is out of range", c.limit.Lease)
			}
		}
	}
	if d.quota {
		r.fail(f.key, f.path, "leave out quota_mode, or give the quota a descriptor without concurrency",
			"concurrency does not go with quota_mode: a permit cannot wait for other quotas")
	}
	d.concurrency = c
}

// concurrency compiles the concurrency of a node.
func (c *compiler) concurrency(n *node) {
	src := n.source.concurrency
	if src == nil {
		return
	}
	l := &Concurrency{Domain: c.domain.name, Path: n.words(), Name: n.words() + " concurrency", Shadow: n.source.shadow,
		OnDeny: n.deny, Position: src.pos, FilePath: src.path, node: n}
	if len(l.Name) > maxName {
		sum := sha256.Sum256([]byte(l.scope()))
		l.Name = l.Name[:maxName-24] + "..." + hex.EncodeToString(sum[:4]) + " concurrency"
	}
	compiled, err := src.limit.Compile(l.Name, l.scope(), c.file.failure.action)
	if err != nil {
		return // the reader has said so
	}
	l.Compiled = compiled
	n.concurrency = l
	c.domain.concurrencies = append(c.domain.concurrencies, l)
}

// scope is the part of a counter's identity that the rules give.
func (c *Concurrency) scope() string {
	b := caudal.AppendPart(nil, "concurrency")
	b = caudal.AppendPart(b, c.Domain)
	return string(c.node.appendPath(b))
}

// addConcurrency takes the concurrency of a node that was reached.
func (m *Match) addConcurrency(n *node, path span) {
	c := n.concurrency
	m.Concurrencies = append(m.Concurrencies, c)
	m.PermitCalls = append(m.PermitCalls, caudal.PermitCall{Limit: c.Compiled, Key: m.keys[path.start:path.end:path.end], Shadow: c.Shadow})
}

func (m *yamlMap) concurrency(c *concurrencyLimit) {
	if c == nil {
		return
	}
	n := &yamlMap{}
	n.number("max", c.limit.Max, true)
	if c.limit.Lease > 0 {
		n.word("lease", c.limit.Lease.String())
	}
	m.add("concurrency", n.node())
}

// AppliedConcurrency is a concurrency limit that a request needs a permit of.
type AppliedConcurrency struct {
	Name     string   `json:"name"`
	Rule     string   `json:"rule"`
	Position Position `json:"position"`
	// Words says what the limit does.
	Words string `json:"words"`
	// Counter and CounterID are as those of Applied.
	Counter   []string `json:"counter"`
	CounterID string   `json:"counter_id"`
	// Mode is "enforced" or "shadow".
	Mode string `json:"mode"`
}

// takeConcurrency notes the concurrency of a node that was reached.
func (e *explainer) takeConcurrency(n *node, counter []string) {
	c := n.concurrency
	if c == nil {
		return
	}
	a := AppliedConcurrency{Name: c.Name, Rule: c.Path, Position: c.Position,
		Words: c.Describe(), Counter: counter, Mode: "enforced"}
	if c.Shadow {
		a.Mode = "shadow"
	}
	e.out.Concurrency = append(e.out.Concurrency, a)
}

// finishConcurrency adds the identities of the counters, which the match has in
// the same order.
func (e *explainer) finishConcurrency(m *Match) {
	for i := range e.out.Concurrency {
		if i < len(m.PermitCalls) {
			call := &m.PermitCalls[i]
			sum := sha256.Sum256(caudal.AppendPart([]byte(call.Limit.Scope()), call.Key))
			e.out.Concurrency[i].CounterID = hex.EncodeToString(sum[:6])
		}
	}
}

func (e *Explanation) writeConcurrency(b *strings.Builder) {
	if len(e.Concurrency) == 0 {
		return
	}
	fmt.Fprintf(b, "a permit is taken when the call leaves, and held until its response has ended:\n")
	for _, a := range e.Concurrency {
		fmt.Fprintf(b, "  %s (%s)\n    %s\n    counter: %s [%s]\n", a.Name, a.Position, a.Words, strings.Join(a.Counter, ", "), a.CounterID)
		if a.Mode == "shadow" {
			b.WriteString("    not enforced: it counts and never denies\n")
		}
	}
}

// concurrencies pairs the concurrency limits of one domain by where they stand.
func (d *differ) concurrencies(name string, a, b *Domain) {
	old, now := map[string]*Concurrency{}, map[string]*Concurrency{}
	for _, c := range a.concurrencies {
		old[c.scope()] = c
	}
	for _, c := range b.concurrencies {
		now[c.scope()] = c
	}
	for place, was := range old {
		is, kept := now[place]
		if !kept {
			d.add(Change{Kind: Removed, Domain: name, Rule: was.Name, Old: was.summary(), Position: was.Position})
			continue
		}
		d.concurrency(name, was, is)
	}
	for place, is := range now {
		if _, had := old[place]; !had {
			d.add(Change{Kind: Added, Domain: name, Rule: is.Name, New: is.summary(), Position: is.Position})
		}
	}
}

func (d *differ) concurrency(name string, was, is *Concurrency) {
	c := Change{Kind: Changed, Domain: name, Rule: is.Name, Old: was.summary(), New: is.summary(), Position: is.Position}
	a, b := was.Compiled, is.Compiled
	if a.Max() != b.Max() {
		c.Details = append(c.Details, fmt.Sprintf("max %d -> %d", a.Max(), b.Max()))
		c.Kind = Loosened
		if b.Max() < a.Max() {
			c.Kind, c.Drastic = Tightened, drastic(float64(a.Max()), float64(b.Max()))
		}
	}
	if a.Lease() != b.Lease() {
		c.Details = append(c.Details, fmt.Sprintf("lease %s -> %s", a.Lease(), b.Lease()))
	}
	if a.OnStoreError() != b.OnStoreError() {
		c.Details = append(c.Details, fmt.Sprintf("on_store_error %s -> %s", a.OnStoreError(), b.OnStoreError()))
	}
	if was.Shadow != is.Shadow {
		c.Details = append(c.Details, fmt.Sprintf("shadow_mode %t -> %t", was.Shadow, is.Shadow))
		switch {
		case len(c.Details) > 1 && (c.Kind == Loosened) != is.Shadow:
			c.Kind = Changed
		case is.Shadow:
			c.Kind = Loosened
		default:
			c.Kind = Tightened
		}
	}
	if !reflect.DeepEqual(was.OnDeny, is.OnDeny) {
		c.Details = append(c.Details, "on_deny changed")
	}
	if len(c.Details) > 0 {
		d.add(c)
	}
}

// summary says in short what the limit does.
func (c *Concurrency) summary() string {
	s := c.Compiled.Concurrency().String()
	if c.Shadow {
		s += ", in shadow mode"
	}
	return s
}

// concurrencyLints look at the concurrency limits of a domain.
func (l *linter) concurrencyLints() {
	for _, c := range l.domain.concurrencies {
		switch {
		case c.Compiled.Max() == 0 && !c.Shadow:
			l.addNode(c.node, Warning{Code: "concurrency-zero", What: "concurrency with max: 0",
				Why: "it denies every call", Mend: "write the number of calls that may be under way at once, if that is not meant"})
		case !c.Shadow && c.node.shared():
			l.addNode(c.node, Warning{Code: "shared-permits", What: "one count of calls under way for all clients of " + c.Path,
				Why: "one client whose calls are slow can hold them all", Mend: "add descriptors for each client (remote_address, api_key) with a smaller concurrency"})
		}
	}
}

// shared reports whether all clients of a node have one counter, and no level
// below bounds what each of them may have under way.
func (n *node) shared() bool {
	for at := n; at != nil; at = at.parent {
		if isClientKey(at.key) && (at.kind == exactValue || !at.sharedByAttribute) {
			return false
		}
	}
	return !n.below.boundsClients()
}

func isClientKey(key string) bool {
	switch key {
	case "api_key", "user", remoteAddress, "visitor":
		return true
	}
	return strings.HasPrefix(key, "jwt:") || strings.HasPrefix(key, "client_cert:")
}

func (ix *index) boundsClients() bool {
	for _, g := range ix.groups {
		for _, n := range g.nodes {
			if n.concurrency != nil && !n.shared() || n.below.boundsClients() {
				return true
			}
		}
	}
	return false
}
