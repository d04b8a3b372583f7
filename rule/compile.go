package rule

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal"
)

// compile makes files into a set. Mistakes that only show across descriptors and
// files, such as duplicates, are reported here.
func compile(files []*ruleFile, opts *Options, errs *Errors) (*Set, []Warning) {
	sortFiles(files)
	set := &Set{files: files}
	regions := allRegions(files)
	first := map[string]*ruleFile{}
	var domains []*compiler
	byName := map[string]*compiler{}
	for _, f := range files {
		c := byName[f.domain]
		if c != nil && !opts.MergeDomains {
			errs.add(&Error{Position: f.domainPos, Path: "domain",
				What: fmt.Sprintf("domain %q stands in two files; first in %s", clip(f.domain), first[f.domain].domainPos),
				Hint: "put the rules of a domain in one file"})
			continue
		}
		if c == nil {
			c = newCompiler(f.domain, opts, errs)
			byName[f.domain], first[f.domain] = c, f
			domains = append(domains, c)
			set.domains = append(set.domains, c.domain)
		}
		c.file = f
		c.level(&c.domain.root, nil, f.descriptors, c.rootSeen)
	}
	var warnings []Warning
	for _, c := range domains {
		c.finish(regions)
		if len(*errs) == 0 {
			warnings = append(warnings, lint(c.domain, opts)...)
		}
	}
	if len(*errs) == 0 {
		l := &linter{opts: opts}
		for _, f := range files {
			l.differences(f)
		}
		warnings = append(warnings, l.warnings...)
	}
	slices.SortFunc(set.domains, func(a, b *Domain) int { return strings.Compare(a.name, b.name) })
	return set, warnings
}

// compiler builds one domain.
type compiler struct {
	domain   *Domain
	opts     *Options
	errs     *Errors
	file     *ruleFile // whose descriptors are being compiled
	order    int
	keys     map[string]bool
	rootSeen map[sibling]*descriptor
}

// sibling is what must be unique among the descriptors of one list. Key is
// compared with key and value with value: composed text would take ("a", "b_c")
// and ("a_b", "c") for one.
type sibling struct {
	key  string
	kind valueKind
	text string
}

func newCompiler(name string, opts *Options, errs *Errors) *compiler {
	d := &Domain{name: name, v4: opts.IPv4Prefix, v6: opts.IPv6Prefix}
	if d.v4 == 0 {
		d.v4 = 32
	}
	if d.v6 == 0 {
		d.v6 = 64
	}
	return &compiler{domain: d, opts: opts, errs: errs, keys: map[string]bool{}, rootSeen: map[sibling]*descriptor{}}
}

// level compiles a list of siblings.
func (c *compiler) level(ix *index, parent *node, list []*descriptor, seen map[sibling]*descriptor) {
	for _, d := range list {
		n := c.node(d, parent)
		s := n.sibling()
		if twin := seen[s]; twin != nil {
			c.duplicate(d, twin)
			continue
		}
		seen[s] = d
		ix.add(n)
		c.limits(n)
		c.concurrency(n)
		c.level(&n.below, n, d.children, map[sibling]*descriptor{})
	}
}

func (c *compiler) duplicate(d, twin *descriptor) {
	what, hint := fmt.Sprintf("key %q without value", clip(d.key)), `merge the two; value: "" is the same as no value`
	if d.hasValue {
		what, hint = fmt.Sprintf("key %q with value %q", clip(d.key), clip(d.value)), "merge the two"
	}
	place := fmt.Sprintf("line %d", twin.pos.Line)
	if twin.pos.File != d.pos.File {
		place = twin.pos.String()
	}
	c.errs.add(&Error{Position: d.pos, Path: d.path,
		What: what + " stands twice among its siblings; first at " + place,
		Hint: hint})
}

func (c *compiler) node(d *descriptor, parent *node) *node {
	c.order++
	c.keys[d.key] = true
	n := &node{key: d.key, value: d.value, order: c.order, parent: parent, source: d, missing: d.missing, cost: d.cost, count: d.count, deny: d.deny, priority: d.priority}
	c.domain.priorities = c.domain.priorities || d.priority != 0
	if parent != nil {
		n.inherit(parent.cost, parent.count, parent.deny)
	} else {
		n.inherit(nil, nil, c.file.deny)
	}
	if n.cost != nil && n.cost.Source != CostResponseHeader {
		c.keys[n.cost.key] = true
	}
	if n.missing == 0 {
		n.missing = defaultMissing(d.key)
	}
	if isPattern(d.key) {
		n.keyAny, n.keys = true, newPattern(d.key)
	}
	switch {
	case !d.hasValue:
		n.kind = anyValue
	case isPattern(d.value):
		n.kind, n.match = wildcard, newPattern(d.value)
	case d.key == remoteAddress && isCIDR(d.value):
		n.kind = cidrValue
	default:
		n.kind = exactValue
	}
	n.sharedByDescriptor = d.share == yes
	n.sharedByAttribute = d.share == yes || d.share == unset && d.key == "path" && n.kind == wildcard
	return n
}

// inherit takes what the descriptor above says where this one says nothing.
func (n *node) inherit(cost *Cost, count *CountWhen, deny *Denial) {
	if n.cost == nil {
		n.cost = cost
	}
	if n.count == nil {
		n.count = count
	}
	if n.deny == nil {
		n.deny = deny
	}
}

func (n *node) sibling() sibling {
	s := sibling{key: collapseStars(n.key), kind: n.kind, text: n.value}
	switch {
	case n.kind == wildcard:
		s.text = collapseStars(n.value)
	case n.kind == exactValue && n.key == remoteAddress:
		if a, ok := parseAddr(n.value); ok {
			s.text = a.String()
		}
	case n.kind == cidrValue:
		s.text = netip.MustParsePrefix(n.value).String()
	}
	return s
}

// limits compiles the limits of a node. Names are settled in finish, when all
// are known.
func (c *compiler) limits(n *node) {
	mode := caudal.Enforce
	switch {
	case n.source.shadow:
		mode = caudal.Shadow
	case n.source.quota:
		mode = caudal.Quota
	}
	for _, src := range n.source.limits {
		l := &Limit{Unlimited: src.unlimited, Domain: c.domain.name, Label: src.name, Path: n.words(),
			Cost: n.cost, CountWhen: n.count, OnDeny: n.deny, DetailedMetric: n.source.detailedMetric, Metadata: n.source.metadata,
			Mode: mode, EnforcePercent: int(src.percent), Position: src.pos, FilePath: src.path, replaces: src.replaces, node: n, own: new(ownNumbers), Scope: src.scope, Fair: src.fair}
		if src.fair != "" {
			n.fair, c.keys[src.fair] = true, true
		}
		if src.scope == ScopeGlobal {
			l.Region = c.opts.Region
		}
		n.limits = append(n.limits, l)
		c.domain.limits = append(c.domain.limits, l)
		c.domain.replaces = c.domain.replaces || len(src.replaces) > 0
	}
}

// finish names and compiles the limits.
func (c *compiler) finish(regions []string) {
	d := c.domain
	for k := range c.keys {
		d.keys = append(d.keys, k)
	}
	slices.Sort(d.keys)
	nameLimits(d.limits)
	for _, l := range d.limits {
		l.regions = regions
		if l.Unlimited {
			continue
		}
		src := l.source()
		c.region(l, src)
		compiled, err := l.inForce(src.limit).Compile(l.Name, l.scope(), src.options()...)
		if err != nil { // the reader has validated it
			c.errs.add(&Error{Position: l.Position, Path: l.FilePath, What: err.Error()})
			continue
		}
		l.Compiled = compiled
	}
}

// source gives the limit as written.
func (l *Limit) source() *rateLimit {
	for i, other := range l.node.limits {
		if other == l {
			return l.node.source.limits[i]
		}
	}
	return &rateLimit{}
}

// Tags before the parts of a scope, so that "any value", a value and a name can
// never be taken for one another.
const (
	scopeAny   = 'k'
	scopeValue = 'v'
	scopeName  = 'n'
)

// scope is the part of a counter's identity that the rules give: domain, the
// rule's path, and the name inside rate_limits. Compile adds algorithm and
// period.
func (l *Limit) scope() string {
	b := caudal.AppendPart(nil, "rule")
	b = caudal.AppendPart(b, l.Domain)
	b = l.node.appendPath(b)
	if l.node.source.listed {
		b = caudal.AppendPart(append(b, scopeName), l.Label)
	}
	return string(b)
}

func (n *node) appendPath(b []byte) []byte {
	if n.parent != nil {
		b = n.parent.appendPath(b)
	}
	if n.kind == anyValue {
		return caudal.AppendPart(append(b, scopeAny), n.key)
	}
	b = caudal.AppendPart(append(b, scopeValue), n.key)
	return caudal.AppendPart(b, n.value)
}
