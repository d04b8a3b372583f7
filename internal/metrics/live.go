package metrics

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/topk"
	"github.com/caudal-dev/caudal/rule"
)

// Live is what is going on with one rule.
type Live struct {
	Domain, Rule string
	// Limit is the rule itself; nil for limits that requests bring.
	Limit *rule.Limit
	// Watched is false for rules beyond the 512 that are watched; of those only
	// Total is known.
	Watched bool
	// Total is by outcome since the rule was loaded.
	Total map[string]uint64
	// Rates are means per second over the last ten seconds.
	Allowed, Denied, ShadowDenied float64
	// Waiting is how many calls are held here until their turn in a leaky bucket.
	Waiting int64
	// NearLimit is about how many keys had less than a fifth of the limit left, in
	// the last one to two minutes.
	NearLimit int
	// TopShare is the share of calls that the busiest key makes, from 0 to 1, by a
	// sample; 0 when there are too few calls to say.
	TopShare float64
	// FalsePositives are likely ones by kind; see docs/operating.md.
	FalsePositives map[string]uint64
}

// rateSeconds is how long the rates of Live look back.
const rateSeconds = 10

// Live tells what is going on with every rule, in the order of the rules.
func (m *Metrics) Live() []Live {
	m.ticking.Lock()
	defer m.ticking.Unlock()
	all := m.table.Load().all
	lives := make([]Live, 0, len(all))
	for _, c := range all {
		l := Live{Domain: c.domain, Rule: c.rule, Limit: c.limit, Total: make(map[string]uint64, len(outcomes)), Waiting: m.queues.waiting(series{c.domain, c.rule})}
		for i, outcome := range outcomes {
			l.Total[outcome] = c.all(i)
		}
		if w := c.watched; w != nil {
			l.watched(w)
		}
		lives = append(lives, l)
	}
	return lives
}

func (l *Live) watched(w *watched) {
	l.Watched, l.NearLimit, l.TopShare = true, w.near.estimate(), w.share
	l.FalsePositives = make(map[string]uint64, len(suspectKinds))
	for kind, name := range suspectKinds {
		l.FalsePositives[name] = w.suspects[kind].Load()
	}
	seconds := w.seconds(rateSeconds)
	for _, s := range seconds {
		l.Allowed += float64(s.Allowed)
		l.Denied += float64(s.Denied)
		l.ShadowDenied += float64(s.ShadowDenied)
	}
	if n := float64(len(seconds)); n > 0 {
		l.Allowed, l.Denied, l.ShadowDenied = l.Allowed/n, l.Denied/n, l.ShadowDenied/n
	}
}

// History gives what was decided about a rule in each of the last n seconds (at
// most 900), the oldest first; with fewer when it is not known for so long. The last
// one ended at the time that is given too. With no rule it is of all rules.
func (m *Metrics) History(domain, name string, n int) ([]Second, time.Time) {
	m.ticking.Lock()
	defer m.ticking.Unlock()
	t := m.table.Load()
	if name != "" || domain != "" {
		c := t.named[series{domain, name}]
		if c == nil || c.watched == nil {
			return nil, m.ticked
		}
		return c.watched.seconds(n), m.ticked
	}
	var sum []Second
	for _, c := range t.all {
		if c.watched == nil {
			continue
		}
		seconds := c.watched.seconds(n)
		if more := len(seconds) - len(sum); more > 0 {
			sum = append(make([]Second, more), sum...)
		}
		for i, s := range seconds {
			into := &sum[len(sum)-len(seconds)+i]
			into.Allowed += s.Allowed
			into.Denied += s.Denied
			into.ShadowDenied += s.ShadowDenied
		}
	}
	return sum, m.ticked
}

// Entry is a key among the busiest or most denied.
type Entry struct {
	// Label says whose key it is, such as "user=alice" or "api_key=#3fa2b1c4"; the
	// digits are the beginning of Hash.
	Label string
	// Hash is the SHA-256 of the value that is hidden in Label, in hex: what `caudal
	// hash VALUE` prints. Where several values are hidden it is that of the last; it
	// is empty where none is.
	Hash string
	// Parts are the levels of the key.
	Parts []Part
	// Count is how many calls it was in the last five to ten minutes: at least the
	// true number, and more by at most ErrorBound. Those of Active are estimated from a
	// sample.
	Count, ErrorBound uint64
}

// Part is one level of a key: its name and either its value or the hash of it.
type Part struct{ Name, Value, Hash string }

// Top is an answer about keys.
type Top struct {
	Entries []Entry
	// Total is the count over all keys, and Missed how many calls were not looked at
	// since the start, because many came at the same moment.
	Total, Missed uint64
}

// Denied gives the n keys of a rule that were denied most often lately, those of
// rules that do not enforce included. The zero Top is of a rule that is not watched.
func (m *Metrics) Denied(domain, name string, n int) Top {
	return m.top(domain, name, n, func(w *watched) *topk.Window { return w.denied })
}

// Active gives the n keys of a rule that called most often lately, by a sample.
func (m *Metrics) Active(domain, name string, n int) Top {
	return m.top(domain, name, n, func(w *watched) *topk.Window { return w.active })
}

func (m *Metrics) top(domain, name string, n int, of func(*watched) *topk.Window) Top {
	c := m.table.Load().named[series{domain, name}]
	if c == nil || c.watched == nil {
		return Top{}
	}
	window := of(c.watched)
	top, total := window.Top(n)
	answer := Top{Entries: make([]Entry, 0, len(top)), Total: total, Missed: window.Missed()}
	for _, e := range top {
		answer.Entries = append(answer.Entries, m.entry(c, e))
	}
	return answer
}

// hashShown is how much of a hash stands in a label.
const hashShown = 12

// entry says whose key it is.
func (m *Metrics) entry(c *counters, e topk.Entry) Entry {
	entry := Entry{Count: e.Count, ErrorBound: e.ErrorBound}
	var parts []rule.KeyPart
	if c.limit != nil {
		parts = c.limit.KeyParts(e.Key)
	}
	if parts == nil { // of no rule, or cut
		parts = []rule.KeyPart{{Name: "key", Value: string(e.Key)}}
	}
	var words []string
	for _, p := range parts {
		part, word := m.part(p, c.watched.byDescriptor.Load())
		entry.Parts = append(entry.Parts, part)
		if part.Hash != "" {
			entry.Hash = part.Hash
		}
		words = append(words, word)
	}
	entry.Label = strings.Join(words, " ")
	return entry
}

// open are the names of levels whose values are the operator's own words, where
// they come from what was verified.
var open = []string{"user", "plan", "method"}

// maxShown bounds a value that is shown.
const maxShown = 100

// printable escapes what must not reach a terminal or a page as it is.
func printable(s string) string {
	q := strconv.QuoteToASCII(s[:min(len(s), maxShown)])
	return q[1 : len(q)-1]
}

func (m *Metrics) part(p rule.KeyPart, unverified bool) (part Part, word string) {
	part.Name = p.Name
	name := p.Name
	if p.ByAddress {
		name += " absent, remote_address"
	}
	switch {
	case p.Shared:
		part.Value = "*"
		if p.Value != "" {
			part.Value = p.Value
		}
	case p.Absent && !p.ByAddress:
		return part, name + " absent"
	case p.Hashed:
		part.Hash = p.Value
	case p.Rule, m.showKeys, !unverified && !p.ByAddress && slices.Contains(open, p.Name):
		part.Value = printable(p.Value)
	default:
		part.Hash = identity.HashKey(p.Value).String()
	}
	if part.Hash != "" {
		return part, name + "=#" + part.Hash[:hashShown]
	}
	return part, name + "=" + part.Value
}
