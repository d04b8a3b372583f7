package rule

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// What one file may hold. The bounds are far above any rule set that people
// keep, and keep a hostile or broken file from taking all memory or time.
const (
	// maxFileSize bounds the text; the parser needs some 20 times as much memory.
	// 100 000 overrides of one line each fit.
	maxFileSize = 8 << 20
	// maxDepth bounds how deep descriptors nest. It also ends an alias that holds
	// itself.
	maxDepth = 32
	// maxNodes bounds the keys and list entries of one file with every alias
	// written out, so that aliases of aliases cannot multiply without end.
	maxNodes = 1_000_000
)

// reader walks the YAML of one file and collects what is wrong with it.
type reader struct {
	file     string
	opts     *Options
	errs     *Errors
	warnings []Warning
	nodes    int
	stopped  bool // a bound was hit; nothing more is read
}

// field is one key of a mapping with its value, aliases resolved.
type field struct {
	name  string
	path  string // of the value in the file
	key   *yaml.Node
	value *yaml.Node
	spec  valueSpec
}

// fields is a mapping in the order written.
type fields []field

func (fs fields) get(name string) (field, bool) {
	for _, f := range fs {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// anyOf reports whether one of the keys is there.
func (fs fields) anyOf(names ...string) bool {
	return slices.ContainsFunc(fs, func(f field) bool { return slices.Contains(names, f.name) })
}

func (r *reader) position(n *yaml.Node) Position {
	return Position{File: r.file, Line: n.Line, Column: n.Column}
}

func (r *reader) fail(n *yaml.Node, path, hint, format string, args ...any) {
	r.errs.add(&Error{Position: r.position(n), Path: path, What: fmt.Sprintf(format, args...), Hint: hint})
}

func (r *reader) warn(n *yaml.Node, path string, w Warning) {
	w.Position, w.Path = r.position(n), path
	r.warnings = append(r.warnings, w)
}

// count charges one key or entry to the file's bound and reports whether reading
// goes on.
func (r *reader) count(n *yaml.Node) bool {
	if r.stopped || r.errs.full() {
		return false
	}
	if r.nodes++; r.nodes > maxNodes {
		r.fail(n, "", "split the file, and check its aliases", "the file holds over %d keys and entries with its aliases written out", maxNodes)
		r.stopped = true
	}
	return !r.stopped
}

func deref(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias // an alias points at a node that is not an alias
	}
	return n
}

// mapping reads a mapping whose keys are known, each once. Keys that are unknown
// or do not act yet are reported and left out.
func (r *reader) mapping(n *yaml.Node, path string, specs *keySpecs) (fields, bool) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "write its keys and values", "%s where %s is wanted", nodeWords(n), specs.of)
		return nil, false
	}
	var fs fields
	return fs, r.collect(&fs, n, path, specs, 0)
}

// collect appends the fields of a mapping. Those of a merge key (<<) come after
// and give way to those written out, as YAML has it.
func (r *reader) collect(fs *fields, n *yaml.Node, path string, specs *keySpecs, merged int) bool {
	if merged > maxDepth {
		r.fail(n, path, "", "merge keys nested over %d deep", maxDepth)
		r.stopped = true
		return false
	}
	own := map[string]*yaml.Node{}
	var merges []*yaml.Node
	ok := true
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := deref(n.Content[i]), deref(n.Content[i+1])
		if !r.count(key) {
			return false
		}
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		f, good := r.field(key, value, path, specs)
		if !good {
			ok = false
			continue
		}
		if first, dup := own[f.name]; dup {
			r.fail(key, f.path, "keep one of them", "key %s stands twice; first at line %d", f.name, first.Line)
			ok = false
			continue
		}
		own[f.name] = key
		if _, given := fs.get(f.name); !given {
			*fs = append(*fs, f)
		}
	}
	for _, m := range merges {
		ok = r.merge(fs, m, path, specs, merged+1) && ok
	}
	return ok
}

// merge reads the value of a merge key: a mapping, or a list of them of which
// the first wins.
func (r *reader) merge(fs *fields, n *yaml.Node, path string, specs *keySpecs, merged int) bool {
	switch n.Kind {
	case yaml.MappingNode:
		return r.collect(fs, n, path, specs, merged)
	case yaml.SequenceNode:
		ok := true
		for _, m := range n.Content {
			m = deref(m)
			if !r.count(m) {
				return false
			}
			if m.Kind != yaml.MappingNode {
				r.fail(m, join(path, "<<"), "", "%s where a mapping is wanted", nodeWords(m))
				ok = false
				continue
			}
			ok = r.collect(fs, m, path, specs, merged) && ok
		}
		return ok
	}
	r.fail(n, join(path, "<<"), "", "%s where a mapping is wanted", nodeWords(n))
	return false
}

// field checks one key of a mapping.
func (r *reader) field(key, value *yaml.Node, path string, specs *keySpecs) (field, bool) {
	if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
		r.fail(key, path, specs.hint(""), "the key %s is not text", nodeWords(key))
		return field{}, false
	}
	spec, known := specs.find(key.Value)
	f := field{name: key.Value, path: join(path, clip(key.Value)), key: key, value: value, spec: spec.value}
	switch {
	case !known:
		r.fail(key, f.path, specs.hint(key.Value), "unknown key %q in %s", clip(key.Value), specs.of)
	case !spec.acts:
		r.fail(key, f.path, "leave it out until then", "%s is known but does not act in this version yet", key.Value)
	default:
		return f, true
	}
	return field{}, false
}

// list reads a list and hands each entry, with its path, to the function.
func (r *reader) list(f field, of string, each func(n *yaml.Node, path string)) {
	if f.value.Kind != yaml.SequenceNode {
		r.fail(f.value, f.path, "write each entry after a dash", "%s where a list of %s is wanted", nodeWords(f.value), of)
		return
	}
	for i, n := range f.value.Content {
		n = deref(n)
		if !r.count(n) {
			return
		}
		each(n, fmt.Sprintf("%s[%d]", f.path, i))
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
