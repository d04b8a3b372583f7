package rule

import (
	"net/netip"
	"strings"
)

// StatPath gives the rule's path as the statistics of Envoy's reference service
// write it: one text for each level from the root, the key, with "_" and the
// value where the file has one. Values of the request stand there where
// value_to_metric asks for them on that level, or detailed_metric for all; values
// that share a counter stay the pattern. Without values of a request it is the
// rule's own path. The caller bounds how many such paths it keeps.
func (l *Limit) StatPath(values []Entry) []string {
	if l.node == nil { // not of a file
		return []string{statText(l.Path)}
	}
	nodes := l.node.path()
	detailed := l.node.source.detailedMetric
	path := make([]string, len(nodes))
	for i, n := range nodes {
		value := n.value
		asked := detailed || n.source.valueToMetric
		if asked && i < len(values) && !n.sharedByDescriptor {
			value = values[i].Value
		}
		path[i] = n.key
		if value != "" {
			path[i] += "_" + value
		}
		path[i] = statText(path[i])
	}
	return path
}

// ByValue reports whether the limit's statistics depend on the values of the
// request: its descriptor has detailed_metric, or one on its way value_to_metric.
func (l *Limit) ByValue() bool {
	if l.node == nil {
		return false
	}
	for _, n := range l.node.path() {
		if n.source.valueToMetric {
			return true
		}
	}
	return l.node.source.detailedMetric
}

// statText writes a level the way the reference does, ":" and "|" and the dots of
// an IPv4 address as "_", and bounds it.
func statText(s string) string {
	s = strings.NewReplacer(":", "_", "|", "_").Replace(printable(s))
	if i := strings.LastIndexByte(s, '_'); i >= 0 {
		if a, err := netip.ParseAddr(s[i+1:]); err == nil && a.Is4() {
			s = s[:i+1] + strings.ReplaceAll(s[i+1:], ".", "_")
		}
	}
	return s[:min(len(s), maxName)]
}
