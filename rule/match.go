package rule

import (
	"crypto/sha256"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/caudal-dev/caudal"
)

// Request is what rules are matched against. It is used by one goroutine at a
// time, and only during Match.
type Request interface {
	// Attribute gives the value of an attribute, and false when the request does
	// not have it. The names are api_key, user, plan, path, method, host,
	// user_agent, visitor, header:NAME, cookie:NAME, query:NAME, body:FIELD,
	// jwt:CLAIM and client_cert:SAN, and whatever else the rules use. Header
	// names come in canonical form, such as "header:X-Tenant". It is never asked
	// for remote_address.
	Attribute(name string) (value string, ok bool)
	// Address gives the client's whole address; the zero Addr when there is none.
	Address() netip.Addr
}

// Match is what a request matched. Its zero value is ready; reuse it, for it
// keeps its memory. It must not be copied, and belongs to one goroutine at a
// time.
type Match struct {
	// Calls are ready for Store.Take: one per limit, of cost 1 or as the rule's cost
	// says; by descriptor it is always 1, for the caller to change. Their keys are valid until the next Match or Reset.
	Calls []caudal.Call
	// Limits are the rules that the calls come from, in the same order.
	Limits []*Limit
	// PermitCalls are ready for PermitStore.Acquire, when the call is let through, and
	// Concurrencies are the rules that they come from, in the same order.
	PermitCalls   []caudal.PermitCall
	Concurrencies []*Concurrency
	// Rejected is the key whose absence a rule answers with a refusal (missing:
	// reject), and empty when there is none. The call must not pass, whatever the
	// limits say; HTTP answers 401.
	Rejected string
	// Unlimited says that a rule with unlimited: true matched. It exempts its own
	// branch; limits of other branches are in Calls all the same.
	Unlimited bool
	// Exempt is that rule, the last of several; nil when there is none.
	Exempt *Limit
	// Priority is the request's: in each branch that of the deepest descriptor that
	// says one, and of all branches the highest; 0 when none says one. Only matching
	// by attributes tells it.
	Priority Priority

	keys     []byte // the calls' keys one after another
	scratch  [64]byte
	suppress []string // names that matched limits replace
}

// maxKept bounds the memory for keys that a Match keeps between requests.
const maxKept = 64 << 10

// Reset empties the match and keeps its memory.
func (m *Match) Reset() {
	clear(m.Calls) // keep no limit of rules that are gone
	clear(m.Limits)
	clear(m.suppress)
	clear(m.PermitCalls)
	clear(m.Concurrencies)
	m.PermitCalls, m.Concurrencies = m.PermitCalls[:0], m.Concurrencies[:0]
	m.Calls, m.Limits, m.suppress = m.Calls[:0], m.Limits[:0], m.suppress[:0]
	m.Rejected, m.Unlimited, m.Exempt, m.Priority = "", false, nil, 0
	if m.keys = m.keys[:0]; cap(m.keys) > maxKept {
		m.keys = nil
	}
}

// Match fills m with all limits that apply to the request. What m held before is
// gone. It allocates nothing once m has grown to the rules' size.
func (d *Domain) Match(req Request, m *Match) {
	m.Reset()
	w := walker{domain: d, req: req, m: m}
	m.Priority = w.level(&d.root, span{})
	if d.replaces {
		m.Replace()
	}
}

// walker matches one request by attributes.
type walker struct {
	domain *Domain
	req    Request
	m      *Match

	addr    netip.Addr // of the client, once asked for
	hasAddr bool
}

// span is a part of Match.keys: the key of the path walked so far.
type span struct{ start, end int }

// level walks all branches below one node, and gives the highest priority that
// they say.
func (w *walker) level(ix *index, path span) (priority Priority) {
	for _, g := range ix.groups {
		if g.address {
			priority = max(priority, w.address(g, path))
			continue
		}
		v, ok := w.req.Attribute(g.key)
		if !ok || v == "" && g.emptyIsAbsent() {
			priority = max(priority, w.absent(g, path))
			continue
		}
		if n := g.pick(v); n != nil {
			priority = max(priority, w.enter(n, w.m.extend(path, n, n.sharedByAttribute, v)))
		}
	}
	return priority
}

// emptyIsAbsent reports whether an empty value counts as none. Where an absent
// value is skipped an empty one must still count, or sending it would be a way
// around the rule.
func (g *group) emptyIsAbsent() bool {
	return g.identity || g.any != nil && g.any.missing != MissingSkip
}

func (w *walker) address(g *group, path span) Priority {
	a := w.client()
	if !a.IsValid() {
		return w.absent(g, path)
	}
	n := g.pickAddr(a, w.m.scratch[:0])
	switch {
	case n == nil:
		return 0
	case n.kind == exactValue:
		return w.enter(n, path)
	case n.sharedByAttribute:
		return w.enter(n, w.m.extend(path, n, true, ""))
	}
	return w.enter(n, w.m.extendAddr(path, keyValue, w.domain.group(a)))
}

// absent walks on with a request that lacks the attribute.
func (w *walker) absent(g *group, path span) Priority {
	n := g.any
	if n == nil {
		return 0
	}
	switch n.missing {
	case MissingReject:
		if w.m.Rejected == "" {
			w.m.Rejected = g.key
		}
	case MissingIP:
		if a := w.client(); a.IsValid() {
			return w.enter(n, w.m.extendAddr(path, keyByAddress, w.domain.group(a)))
		}
		return w.enter(n, w.m.extendTag(path, keyMissing))
	case MissingShared:
		return w.enter(n, w.m.extendTag(path, keyMissing))
	}
	return 0
}

// enter takes a node's limits and walks on below it. What is said below it
// outdoes what it says itself.
func (w *walker) enter(n *node, path span) Priority {
	cost := uint32(1)
	if n.cost != nil && len(n.limits) > 0 {
		cost = n.cost.charge(w.req)
	}
	first := len(w.m.Calls)
	w.m.add(n, path, cost)
	if n.fair {
		w.share(first)
	}
	if below := w.level(&n.below, path); below != 0 {
		return below
	}
	return n.priority
}

func (w *walker) client() netip.Addr {
	if !w.hasAddr {
		w.addr, w.hasAddr = cleanAddr(w.req.Address()), true
	}
	return w.addr
}

// group gives the prefix of an address that makes one counter.
func (d *Domain) group(a netip.Addr) netip.Prefix {
	bits := d.v6
	if a.Is4() {
		bits = d.v4
	}
	p, _ := a.Prefix(bits) // the bits were checked at load
	return p
}

// Each level of a path that does not stand in the rule itself adds a tag and
// what follows from it to the key. The tags keep a client from choosing a value
// that reads like another kind.
const (
	keyValue     = 'v' // the value, preceded by its length; V: its hash
	keyKey       = 'k' // the key that a wildcard key matched; K: its hash
	keyShared    = 's' // one counter for all values
	keyByAddress = 'a' // the attribute is absent: the client's address
	keyMissing   = 'm' // the attribute is absent: one counter for all such
)

// maxValue is the longest text that goes into a key as it is. Longer ones are
// hashed with SHA-256, under the tag in capitals, and never cut: two values that
// begin alike must not share a counter.
const maxValue = 4096

// extend gives the path's key with one more level.
func (m *Match) extend(path span, n *node, shared bool, v string) span {
	if n.kind == exactValue {
		return path // the value stands in the rule
	}
	if shared {
		return m.extendTag(path, keyShared)
	}
	return m.extendText(path, keyValue, v)
}

// extendText adds a text that the client chose, or its hash.
func (m *Match) extendText(path span, tag byte, v string) span {
	next := m.extendTag(path, tag)
	if len(v) <= maxValue {
		m.keys = caudal.AppendPart(m.keys, v)
		return span{next.start, len(m.keys)}
	}
	m.keys[next.end-1] = tag - 'a' + 'A'
	m.keys = append(m.keys, v...)
	sum := sha256.Sum256(m.keys[next.end:])
	m.keys = append(m.keys[:next.end], sum[:]...)
	return span{next.start, len(m.keys)}
}

// extendAddr adds an address or the prefix that it is grouped by. Its text is
// what is counted, so that an IPv4 client has the same counter when the address
// comes as a descriptor's value.
func (m *Match) extendAddr(path span, tag byte, p netip.Prefix) span {
	next := m.extendTag(path, tag)
	text := m.scratch[:0]
	if p.IsSingleIP() {
		text = p.Addr().AppendTo(text)
	} else {
		text = p.AppendTo(text)
	}
	m.keys = caudal.AppendPart(m.keys, text)
	return span{next.start, len(m.keys)}
}

// extendTag copies the path's key to the end and adds a tag. Copies are short,
// and let the keys of all branches stay valid in one buffer.
func (m *Match) extendTag(path span, tag byte) span {
	start := len(m.keys)
	m.keys = append(m.keys, m.keys[path.start:path.end]...)
	m.keys = append(m.keys, tag)
	return span{start, len(m.keys)}
}

// add takes the limits of a node that was reached.
func (m *Match) add(n *node, path span, cost uint32) {
	if n.concurrency != nil {
		m.addConcurrency(n, path)
	}
	for _, l := range n.limits {
		m.suppress = append(m.suppress, l.replaces...)
		if l.Unlimited {
			m.Unlimited, m.Exempt = true, l
			continue
		}
		key, mode := m.keys[path.start:path.end:path.end], l.Mode
		if l.EnforcePercent < 100 && percentile(key) >= l.EnforcePercent {
			mode = caudal.Shadow
		}
		m.Limits = append(m.Limits, l)
		m.Calls = append(m.Calls, caudal.Call{Limit: l.Compiled, Key: key, Cost: cost, Mode: mode})
	}
}

// percentile puts a key into one of a hundred parts, the same on every node and
// after a restart: FNV-1a, mixed once more.
func percentile(key []byte) int {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15 // FNV alone leaves the last byte in the low bits
	hi, _ := bits.Mul64(h, 100)
	return int(hi)
}

// Replace leaves out the limits that another limit of the same request replaces
// by name. Match does it; after MatchDescriptor it is for the caller to do, once
// all descriptors of the request are in.
func (m *Match) Replace() {
	if len(m.suppress) == 0 {
		return
	}
	kept := 0
	for i, l := range m.Limits {
		if l.Label != "" && slices.Contains(m.suppress, l.Label) {
			continue
		}
		m.Limits[kept], m.Calls[kept] = l, m.Calls[i]
		kept++
	}
	clear(m.Limits[kept:])
	clear(m.Calls[kept:])
	m.Limits, m.Calls = m.Limits[:kept], m.Calls[:kept]
}
