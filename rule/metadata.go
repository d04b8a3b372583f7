package rule

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// answers reads what a descriptor says beside its limits: what a call costs,
// when it counts, what a denied one is answered, and what metrics and callers are told.
func (r *reader) answers(d *descriptor, fs fields) {
	if f, ok := fs.get("cost"); ok {
		d.cost = r.cost(f)
	}
	if f, ok := fs.get("count_when"); ok {
		d.count = r.countWhen(f)
	}
	if f, ok := fs.get("on_deny"); ok {
		d.deny = r.denial(f)
	}
	if f, ok := fs.get("priority"); ok {
		d.priority = r.priority(f)
	}
	if f, ok := fs.get("detailed_metric"); ok {
		d.detailedMetric, _ = r.flag(f)
	}
	if f, ok := fs.get("value_to_metric"); ok {
		d.valueToMetric, _ = r.flag(f)
	}
	if f, ok := fs.get("metadata"); ok && !isNull(f.value) {
		if f.value.Kind != yaml.MappingNode {
			r.fail(f.value, f.path, "write its keys and values", "%s where a mapping is wanted", nodeWords(f.value))
			return
		}
		d.metadata, _ = r.free(f.value, f.path, 0).(map[string]any)
	}
}

// failurePolicy reads on_store_error and local_factor.
func (r *reader) failurePolicy(fs fields, otherwise failurePolicy) failurePolicy {
	p := otherwise
	f, written := fs.get("on_store_error")
	if written {
		if s, ok := r.word(f); ok {
			if p.action, ok = caudal.ParseFailure(s); !ok {
				r.fail(f.value, f.path, "use local, allow or deny", "%q is not known", clip(s))
			}
		}
	}
	if g, ok := fs.get("local_factor"); ok {
		p.factor, _ = r.factor(g)
		if p.action != caudal.FailLocal {
			r.fail(g.key, g.path, "leave it out, or write on_store_error: local", "local_factor does nothing with on_store_error: %s", p.action)
		}
	}
	if p.action != caudal.FailLocal {
		p.factor = 0 // a file's factor is for its other limits
	}
	return p
}

// free reads a value of any shape. Numbers are numbers only when they are
// written plainly; everything else that is not true, false or null is the text
// written.
func (r *reader) free(n *yaml.Node, path string, depth int) any {
	n = deref(n)
	if !r.count(n) {
		return nil
	}
	if depth > maxDepth {
		r.fail(n, path, "flatten it; look for an alias that holds itself", "metadata is nested over %d deep", maxDepth)
		r.stopped = true
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content) && !r.stopped; i += 2 {
			key := deref(n.Content[i])
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
				r.fail(key, path, "write text", "%s as a key of metadata", nodeWords(key))
				continue
			}
			if _, twice := m[key.Value]; twice {
				r.fail(key, path, "keep one of them", "key %s stands twice", clip(key.Value))
				continue
			}
			m[key.Value] = r.free(n.Content[i+1], join(path, clip(key.Value)), depth+1)
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, entry := range n.Content {
			list = append(list, r.free(entry, path, depth+1))
		}
		return list
	}
	return freeScalar(n)
}

// maxExact is the largest whole number that every reader of JSON keeps.
const maxExact = 1 << 53

func freeScalar(n *yaml.Node) any {
	if n.Style != 0 {
		return n.Value
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		switch n.Value {
		case "true", "false":
			return n.Value == "true"
		}
	case "!!int", "!!float":
		whole, fraction, dotted := strings.Cut(strings.TrimPrefix(n.Value, "-"), ".")
		if !plainDigits(whole) || dotted && (fraction == "" || strings.Trim(fraction, "0123456789") != "") {
			break
		}
		v, err := strconv.ParseFloat(n.Value, 64)
		if err == nil && v > -maxExact && v < maxExact {
			return v
		}
	}
	return n.Value
}

// printFree gives a value of any shape as YAML, keys sorted.
func printFree(v any) *yaml.Node {
	switch v := v.(type) {
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatBool(v)}
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatFloat(v, 'f', -1, 64)}
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, entry := range v {
			n.Content = append(n.Content, printFree(entry))
		}
		return n
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range sortedKeys(v) {
			n.Content = append(n.Content, quoted(key), printFree(v[key]))
		}
		return n
	case string:
		return quoted(v)
	}
	return quoted("")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
