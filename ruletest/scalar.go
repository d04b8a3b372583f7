package ruletest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal/internal/spell"
)

func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias // an alias points at a node that is not an alias
	}
	return n
}

// mapping reads a mapping whose keys are known, each once.
func (r *reader) mapping(n *yaml.Node, path string, known ...string) map[string]*yaml.Node {
	fs := map[string]*yaml.Node{}
	if n = deref(n); n.Kind != yaml.MappingNode || strings.Count(path, ".") > maxDepth {
		r.fail(n, path, "use "+strings.Join(known, ", "), "a mapping is wanted here")
		return fs
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case !slices.Contains(known, key.Value):
			hint := "use " + strings.Join(known, ", ")
			if near := spell.Nearest(key.Value, known); near != "" {
				hint = "did you mean " + near + "?"
			} else if key.Value == "descriptors" {
				hint = "this is a file of rules: give it to caudal check; its tests are in a file that ends in _test.yaml"
			}
			r.fail(key, path, hint, "unknown key %q", key.Value)
		case fs[key.Value] != nil:
			r.fail(key, path, "keep one of them", "key %s stands twice; first at line %d", key.Value, fs[key.Value].Line)
		default:
			fs[key.Value] = deref(n.Content[i+1])
		}
	}
	return fs
}

func (r *reader) list(n *yaml.Node, path string, each func(n *yaml.Node, path string)) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, path, "write each entry after a dash", "a list is wanted here")
		return
	}
	for i, entry := range n.Content {
		each(deref(entry), fmt.Sprintf("%s[%d]", path, i))
	}
}

// text takes a scalar as the text written.
func (r *reader) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" && n.Style == 0 {
		r.fail(n, path, "write text", "text is wanted here")
	}
	return n.Value
}

// texts takes one text or a list of them.
func (r *reader) texts(n *yaml.Node, path string) []string {
	if n.Kind == yaml.ScalarNode {
		return []string{r.text(n, path)}
	}
	var all []string
	r.list(n, path, func(n *yaml.Node, path string) { all = append(all, r.text(n, path)) })
	return all
}

func (r *reader) number(n *yaml.Node, path string, least, most uint64) uint64 {
	v, err := strconv.ParseUint(n.Value, 10, 64)
	if err != nil || n.Kind != yaml.ScalarNode || v < least || v > most {
		r.fail(n, path, fmt.Sprintf("write a whole number from %d to %d", least, most), "%q where a number is wanted", n.Value)
	}
	return v
}

func (r *reader) duration(n *yaml.Node, path string) time.Duration {
	d, err := time.ParseDuration(n.Value)
	if n.Value == "0" {
		d, err = 0, nil
	}
	if err != nil || n.Kind != yaml.ScalarNode || d < 0 || d%time.Microsecond != 0 {
		r.fail(n, path, "write a number with its unit, such as 1500ms, 30s or 24h", "%q where a time is wanted", n.Value)
	}
	return d
}
