package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal"
)

// Set is rules ready to match: one or more domains. It does not change once
// loaded and is safe for concurrent use. Its zero value holds nothing.
type Set struct {
	domains []*Domain // sorted by name
	files   []*ruleFile
}

// Domain gives a domain by name, and false when the set does not hold it.
func (s *Set) Domain(name string) (*Domain, bool) {
	i, ok := slices.BinarySearchFunc(s.domains, name, func(d *Domain, name string) int { return strings.Compare(d.name, name) })
	if !ok {
		return nil, false
	}
	return s.domains[i], true
}

// Default gives the domain to use when none is named: the only one. When the set
// holds several, the error lists them.
func (s *Set) Default() (*Domain, error) {
	switch len(s.domains) {
	case 0:
		return nil, fmt.Errorf("rule: the set holds no domain")
	case 1:
		return s.domains[0], nil
	}
	names := make([]string, len(s.domains))
	for i, d := range s.domains {
		names[i] = d.name
	}
	return nil, fmt.Errorf("rule: %d domains are loaded: name one of %s", len(names), strings.Join(names, ", "))
}

// Domains gives all domains, sorted by name.
func (s *Set) Domains() []*Domain { return slices.Clone(s.domains) }

// Limits gives every limit of every domain, in the order of the files.
func (s *Set) Limits() []*Limit {
	var all []*Limit
	for _, d := range s.domains {
		all = append(all, d.limits...)
	}
	return all
}

// Domain is the rules of one domain. It is safe for concurrent use.
type Domain struct {
	name     string
	root     index
	limits   []*Limit
	keys     []string
	replaces bool // some limit replaces another
	// priorities says that some rule gives one.
	priorities bool
	v4, v6     int // bits of an address that make one counter
	// concurrencies are beside the limits: they are asked for permits, not charged.
	concurrencies []*Concurrency
}

// Name gives the domain's name.
func (d *Domain) Name() string { return d.name }

// Limits gives every limit of the domain, in the order of the files.
func (d *Domain) Limits() []*Limit { return slices.Clone(d.limits) }

// Keys gives every key that the domain's descriptors use, sorted, so that those
// who make requests know which attributes are worth working out. Header names
// are in canonical form, such as "header:X-Tenant".
func (d *Domain) Keys() []string { return slices.Clone(d.keys) }

// HasPriorities reports whether some rule says a priority.
func (d *Domain) HasPriorities() bool { return d.priorities }

// Limit is one rate_limit of the rules.
type Limit struct {
	// Compiled is the limit in the form that stores take; nil when Unlimited.
	Compiled *caudal.Compiled
	// Unlimited says that the rule allows everything and counts nothing.
	Unlimited bool
	// Domain is the name of the domain.
	Domain string
	// Name is what people see, the same as Compiled.Name: the limit's name if it
	// has one, else its path; unique within the domain.
	Name string
	// Label is the name as written in the file, often empty. Others replace the
	// limit by it.
	Label string
	// Path says where the rule stands, such as "path=/login.remote_address".
	Path string
	// Mode is how the limit takes part: Shadow with shadow_mode, Quota with
	// quota_mode.
	Mode caudal.Mode
	// EnforcePercent is the share of the counters, from 0 to 100, that the limit
	// takes part for as Mode says; for the others its calls have mode Shadow. A
	// hash of the counter's key decides, so that a client is always in or always
	// out, on every node.
	EnforcePercent int
	// Scope says where the limit holds, and Region whose share of a limit with
	// ScopeGlobal Compiled is; empty when the rules were read for all regions, and
	// Compiled is the whole.
	Scope  Scope
	Region string
	// Fair is the attribute by which the calls that wait share the queue of a leaky
	// bucket, so that no value fills it; see caudal.Call.Fair. Empty means that they
	// do not.
	Fair string
	// Cost says what a call costs by attributes; nil means 1. It is that of the
	// limit's descriptor, else of the nearest one above.
	Cost *Cost
	// CountWhen says which calls count by attributes; nil means all. It is that of
	// the descriptor, else of the nearest one above.
	CountWhen *CountWhen
	// OnDeny is what a request is answered that this limit denies; nil means the
	// usual. It is that of the descriptor, else of the nearest one above, else of
	// the file.
	OnDeny *Denial
	// DetailedMetric says that metrics name the values of every level, and Metadata
	// is whatever the descriptor says there, in the types of encoding/json; it must
	// not be changed. See also MetricName.
	DetailedMetric bool
	Metadata       map[string]any
	// Position and FilePath say where the rate_limit stands in the file: its place
	// and the key's path.
	Position Position
	FilePath string

	replaces []string
	node     *node
	own      *ownNumbers
	regions  []string // that the set knows of
}

// Shadow reports whether the limit is in shadow mode: it counts and never
// denies.
func (l *Limit) Shadow() bool { return l.Mode == caudal.Shadow }

// String gives the name.
func (l *Limit) String() string { return l.Name }
