package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// Print writes the rules as YAML, one document per file, each under a comment
// with its name. What a document says loads as the same rules; comments and
// aliases of the original are gone.
func (s *Set) Print(w io.Writer) error {
	for i, f := range s.files {
		if i > 0 {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return err
			}
		}
		text, err := f.print()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "# %s\n%s", printable(f.name), text); err != nil {
			return err
		}
	}
	return nil
}

// String gives what Print writes.
func (s *Set) String() string {
	var b strings.Builder
	if err := s.Print(&b); err != nil {
		return "# " + err.Error() + "\n"
	}
	return b.String()
}

// Hash gives a short text that differs when the rules do: another algorithm,
// number or order of wildcards, but not comments, file names or layout.
func (s *Set) Hash() string {
	var texts []string
	for _, f := range s.files {
		text, err := f.print()
		if err != nil {
			text = f.name // cannot happen to what was loaded
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	h := sha256.New()
	for _, text := range texts {
		h.Write(caudal.AppendPart(nil, text))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func (f *ruleFile) print() (string, error) {
	m := &yamlMap{}
	m.text("domain", f.domain)
	m.word("algorithm", f.algorithm.String())
	m.failure(f.failure, failurePolicy{})
	m.accuracy(f.accuracy, caudal.Exact)
	m.denial(f.deny)
	m.list("descriptors", printDescriptors(f, f.descriptors))
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(m.node()); err != nil {
		return "", fmt.Errorf("rule: cannot print %s: %w", f.name, err)
	}
	return b.String(), nil
}

func printDescriptors(f *ruleFile, list []*descriptor) []*yaml.Node {
	var nodes []*yaml.Node
	for _, d := range list {
		nodes = append(nodes, d.print(f))
	}
	return nodes
}

func (d *descriptor) print(f *ruleFile) *yaml.Node {
	m := &yamlMap{}
	m.text("key", d.key)
	if d.hasValue {
		m.text("value", d.value)
	}
	if d.share != unset {
		m.word("share_threshold", strconv.FormatBool(d.share == yes))
	}
	m.flag("shadow_mode", d.shadow)
	m.flag("quota_mode", d.quota)
	if d.missing != 0 {
		m.word("missing", d.missing.String())
	}
	m.cost(d.cost)
	m.countWhen(d.count)
	if d.priority != 0 {
		m.word("priority", d.priority.String())
	}
	m.denial(d.deny)
	m.concurrency(d.concurrency)
	m.flag("detailed_metric", d.detailedMetric)
	m.flag("value_to_metric", d.valueToMetric)
	if d.metadata != nil {
		m.add("metadata", printFree(d.metadata))
	}
	var limits []*yaml.Node
	for _, l := range d.limits {
		limits = append(limits, l.print(f))
	}
	switch {
	case d.listed:
		m.list("rate_limits", limits)
	case len(limits) == 1:
		m.add("rate_limit", limits[0])
	}
	m.list("descriptors", printDescriptors(f, d.children))
	return m.node()
}

func (l *rateLimit) print(f *ruleFile) *yaml.Node {
	m := &yamlMap{}
	if l.name != "" {
		m.text("name", l.name)
	}
	var replaces []*yaml.Node
	for _, name := range l.replaces {
		entry := &yamlMap{}
		entry.text("name", name)
		replaces = append(replaces, entry.node())
	}
	m.list("replaces", replaces)
	if l.unlimited {
		m.flag("unlimited", true)
		return m.node()
	}
	m.word("unit", l.limit.Unit.String())
	m.number("unit_multiplier", l.limit.Multiplier, l.limit.Multiplier > 1)
	m.number("requests_per_unit", l.limit.Requests, true)
	if l.limit.Algorithm != f.algorithm {
		m.word("algorithm", l.limit.Algorithm.String())
	}
	m.number("burst", l.limit.Burst, l.limit.Burst > 0)
	m.number("queue", l.limit.Queue, l.limit.Algorithm == caudal.LeakyBucket)
	if l.limit.MaxWait > 0 {
		m.word("max_wait", l.limit.MaxWait.String())
	}
	if l.fair != "" {
		m.text("fair", l.fair)
	}
	if l.limit.Timezone != "" {
		m.text("timezone", l.limit.Timezone)
	}
	m.number("enforce_percent", l.percent, l.percent < 100)
	if l.scope != 0 {
		m.word("scope", l.scope.String())
	}
	if len(l.shares) > 0 {
		shares := &yaml.Node{Kind: yaml.MappingNode}
		for _, s := range l.shares {
			shares.Content = append(shares.Content, quoted(s.region), &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.Itoa(int(s.percent))})
		}
		m.add("share", shares)
	}
	m.failure(l.failure, f.failure)
	m.accuracy(l.accuracy, f.accuracy)
	return m.node()
}

// yamlMap builds a mapping key by key.
type yamlMap struct{ content []*yaml.Node }

func (m *yamlMap) node() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Content: m.content} }

func (m *yamlMap) add(key string, n *yaml.Node) {
	m.content = append(m.content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, n)
}

// word adds a scalar that YAML reads as it stands.
func (m *yamlMap) word(key, value string) {
	m.add(key, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
}

// text adds what came from outside, in quotes: no text can then be taken for
// anything else.
func (m *yamlMap) text(key, value string) {
	m.add(key, quoted(value))
}

func quoted(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: value}
}

// failure adds what differs from that of the file.
func (m *yamlMap) failure(p, of failurePolicy) {
	if p.action != of.action {
		m.word("on_store_error", p.action.String())
	}
	if p.factor > 0 && p.factor != of.factor {
		m.word("local_factor", strconv.FormatFloat(p.factor, 'f', -1, 64))
	}
}

// accuracy adds what differs from that of the file.
func (m *yamlMap) accuracy(a, of caudal.Accuracy) {
	if a != of {
		m.word("accuracy", a.String())
	}
}

func (m *yamlMap) cost(c *Cost) {
	if c == nil {
		return
	}
	n := &yamlMap{}
	n.text(c.Source.String(), c.Name)
	n.number("default", c.Default, c.Default != 1)
	n.number("max", c.Max, c.Max != maxUint32)
	m.add("cost", n.node())
}

func (m *yamlMap) denial(d *Denial) {
	if d == nil {
		return
	}
	n := &yamlMap{}
	n.number("status", uint32(d.Status), true)
	if !d.Body.Empty() {
		n.text("content_type", d.ContentType)
		n.text("body", d.Body.String())
	}
	if len(d.Headers) > 0 {
		headers := &yaml.Node{Kind: yaml.MappingNode}
		for _, h := range d.Headers {
			headers.Content = append(headers.Content, quoted(h.Name), quoted(h.Value.String()))
		}
		n.add("headers", headers)
	}
	m.add("on_deny", n.node())
}

func (m *yamlMap) flag(key string, on bool) {
	if on {
		m.word(key, "true")
	}
}

func (m *yamlMap) number(key string, n uint32, written bool) {
	if written {
		m.word(key, strconv.FormatUint(uint64(n), 10))
	}
}

func (m *yamlMap) list(key string, nodes []*yaml.Node) {
	if len(nodes) > 0 {
		m.add(key, &yaml.Node{Kind: yaml.SequenceNode, Content: nodes})
	}
}
