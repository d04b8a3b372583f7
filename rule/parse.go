package rule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// readFile reads one file's text. It gives nil when there is nothing in it, or
// when errors make it useless; those are in errs.
func readFile(name string, data []byte, opts *Options, errs *Errors) (*ruleFile, []Warning) {
	r := &reader{file: name, opts: opts, errs: errs}
	root := r.document(data)
	if root == nil {
		return nil, nil
	}
	return r.ruleFile(root), r.warnings
}

// document parses the YAML and gives the root of the one document, or nil.
func (r *reader) document(data []byte) *yaml.Node {
	whole := &yaml.Node{}
	if len(data) > maxFileSize {
		r.fail(whole, "", "split it by domain", "the file has %d bytes, over %d", len(data), maxFileSize)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := decoder.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			r.syntax(err, data)
		}
		return nil
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		r.fail(&second, "", "write one domain per file", "a second YAML document begins here")
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err, data)
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil
	}
	root := deref(doc.Content[0])
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil // only comments
	}
	return root
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?`)

// syntax reports what the YAML parser says, which tells a line at most.
func (r *reader) syntax(err error, data []byte) {
	text := err.Error()
	found := yamlLine.FindStringSubmatch(text)
	line, _ := strconv.Atoi(found[1])
	if at := tabNear(data, line); at != nil {
		r.fail(at, "", "use spaces", "this is not YAML: it does not allow tabs for indentation")
		return
	}
	at := &yaml.Node{Line: max(line, 1), Column: 1}
	r.fail(at, "", "check quotes, brackets and indentation above", "this is not YAML: %s", strings.TrimPrefix(text, found[0]))
}

// tabNear finds a tab in the indentation of a line, or of those beside it, as the
// parser may notice it late; nil when there is none.
func tabNear(data []byte, line int) *yaml.Node {
	n := 0
	for text := range bytes.Lines(data) {
		if n++; n > line+1 {
			break
		}
		rest := bytes.TrimLeft(text, " \t\r\n")
		indent := text[:len(text)-len(rest)]
		if tab := bytes.IndexByte(indent, '\t'); n >= line-1 && tab >= 0 && len(rest) > 0 {
			return &yaml.Node{Line: n, Column: tab + 1}
		}
	}
	return nil
}

func (r *reader) ruleFile(root *yaml.Node) *ruleFile {
	f := &ruleFile{name: r.file, algorithm: r.opts.defaultAlgorithm()}
	fs, good := r.mapping(root, "", fileKeys)
	f.ours = fs.anyOf("algorithm", "on_store_error", "local_factor", "on_deny", "accuracy")
	if domain, ok := fs.get("domain"); ok {
		f.domain, _ = r.word(domain)
		f.domainPos = r.position(domain.value)
	} else if good { // else it may be the key that was misspelt
		r.fail(root, "", "write domain: NAME at the top", "the file has no domain")
	}
	if algorithm, ok := fs.get("algorithm"); ok {
		f.algorithm, f.hasAlgorithm = r.algorithm(algorithm, f.algorithm), true
	}
	f.failure = r.failurePolicy(fs, f.failure)
	f.accuracy, _ = r.accuracy(fs, caudal.Exact)
	if deny, ok := fs.get("on_deny"); ok {
		f.deny = r.denial(deny)
	}
	if list, ok := fs.get("descriptors"); ok && !isNull(list.value) {
		f.descriptors = r.descriptors(list, f, 1)
	}
	if len(f.descriptors) == 0 && len(*r.errs) == 0 {
		r.warn(root, "", Warning{Code: "no-rules",
			What: "the file has no descriptors", Why: "its domain limits nothing", Mend: "add a descriptor with a rate_limit"})
	}
	return f
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func (r *reader) algorithm(f field, otherwise caudal.Algorithm) caudal.Algorithm {
	s, ok := r.word(f)
	if !ok {
		return otherwise
	}
	a, known := caudal.ParseAlgorithm(s)
	if !known {
		hint := "use one of " + strings.Join(caudal.Algorithms(), ", ")
		if near := nearest(s, caudal.Algorithms()); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.fail(f.value, f.path, hint, "algorithm %q is not known", clip(s))
		return otherwise
	}
	return a
}

func (r *reader) descriptors(f field, file *ruleFile, depth int) []*descriptor {
	if depth > maxDepth {
		r.fail(f.value, f.path, "flatten the rules; look for an alias that holds itself", "descriptors are nested over %d deep", maxDepth)
		r.stopped = true
		return nil
	}
	var all []*descriptor
	r.list(f, "descriptors", func(n *yaml.Node, path string) {
		if d := r.descriptor(n, path, file, depth); d != nil {
			all = append(all, d)
		}
	})
	return all
}

func (r *reader) descriptor(n *yaml.Node, path string, file *ruleFile, depth int) *descriptor {
	fs, good := r.mapping(n, path, descriptorKeys)
	file.ours = file.ours || fs.anyOf("rate_limits", "missing", "cost", "count_when", "priority", "on_deny", "concurrency")
	if !good && len(fs) == 0 {
		return nil
	}
	d := &descriptor{pos: r.position(n), path: path}
	if key, ok := fs.get("key"); ok {
		d.key, _ = r.word(key)
		d.key = normalKey(d.key)
	} else if good {
		r.fail(n, path, "write key: NAME, such as key: remote_address", "the descriptor has no key")
	}
	if value, ok := fs.get("value"); ok {
		r.value(d, value)
	}
	if f, ok := fs.get("shadow_mode"); ok {
		d.shadow, _ = r.flag(f)
	}
	if f, ok := fs.get("quota_mode"); ok {
		d.quota, _ = r.flag(f)
	}
	if f, ok := fs.get("share_threshold"); ok {
		if on, good := r.flag(f); good {
			d.share = triOf(on)
			r.checkShare(d, f)
		}
	}
	if f, ok := fs.get("missing"); ok {
		r.missing(d, f)
	}
	r.answers(d, fs)
	r.limits(d, fs, file)
	if f, ok := fs.get("concurrency"); ok {
		r.concurrency(d, f)
	}
	if f, ok := fs.get("descriptors"); ok && !isNull(f.value) {
		d.children = r.descriptors(f, file, depth+1)
	}
	return d
}

// value reads a descriptor's value. An empty one means any value, as in the
// reference, but is far more often a template that rendered nothing (C55).
func (r *reader) value(d *descriptor, f field) {
	s, ok := r.text(f)
	if !ok {
		return
	}
	if s == "" {
		r.warn(f.value, f.path, Warning{Code: "empty-value",
			What: `value: "" matches any value of ` + d.key,
			Why:  "a rule meant for one value then holds for all",
			Mend: "leave value out if any value is meant"})
		return
	}
	d.value, d.hasValue = s, true
	if d.key == remoteAddress && !isPattern(s) {
		r.addressValue(f, s)
	}
}

// addressValue checks a value that is compared with addresses.
func (r *reader) addressValue(f field, s string) {
	if strings.Contains(s, "/") {
		if hint, what := checkCIDR(s); what != "" {
			r.fail(f.value, f.path, hint, "%s", what)
		}
		return
	}
	if _, ok := parseAddr(s); !ok {
		r.warn(f.value, f.path, Warning{Code: "not-an-address",
			What: fmt.Sprintf("remote_address %q is not an address", clip(s)),
			Why:  "no client has it, so the rule never matches one",
			Mend: "write an address such as 203.0.113.7, or a prefix such as 203.0.113.0/24"})
	}
}

func (r *reader) checkShare(d *descriptor, f field) {
	star := isPattern(d.value) || isPattern(d.key)
	if d.share != yes || star || d.key == remoteAddress && isCIDR(d.value) {
		return
	}
	hint := `add value: "*" to count all values together`
	if d.hasValue {
		hint = "one value has one counter anyway: leave it out"
	}
	r.fail(f.value, f.path, hint, "share_threshold goes only with a value that holds * (or a CIDR prefix)")
}

func (r *reader) missing(d *descriptor, f field) {
	s, ok := r.word(f)
	if !ok {
		return
	}
	m, known := parseMissing(s)
	switch {
	case !known:
		r.fail(f.value, f.path, "use one of "+strings.Join(missingNames[1:], ", "), "%q is not known", clip(s))
	case d.hasValue:
		r.fail(f.value, f.path, "put it on a descriptor of the same key without value", "missing goes only with a descriptor without value")
	case m == MissingIP && d.key == remoteAddress:
		r.fail(f.value, f.path, "use skip, shared or reject", "an absent address cannot be replaced by the address")
	default:
		d.missing = m
	}
}

// limits reads rate_limit or rate_limits.
func (r *reader) limits(d *descriptor, fs fields, file *ruleFile) {
	one, hasOne := fs.get("rate_limit")
	list, hasList := fs.get("rate_limits")
	switch {
	case hasOne && hasList:
		r.fail(list.key, list.path, "put all limits in rate_limits", "rate_limit and rate_limits on one descriptor")
	case hasOne:
		if l := r.rateLimit(one.value, one.path, file, false); l != nil {
			d.limits = []*rateLimit{l}
		}
	case hasList:
		d.listed = true
		r.list(list, "rate limits", func(n *yaml.Node, path string) {
			if l := r.rateLimit(n, path, file, true); l != nil {
				d.limits = append(d.limits, l)
			}
		})
		if len(d.limits) == 0 && list.value.Kind == yaml.SequenceNode && len(list.value.Content) == 0 {
			r.fail(list.value, list.path, "leave it out for no limit", "rate_limits is empty")
		}
		r.checkDistinct(d)
	}
}

// checkDistinct refuses limits of one descriptor that would share a counter.
func (r *reader) checkDistinct(d *descriptor) {
	for i, a := range d.limits {
		for _, b := range d.limits[:i] {
			if a.name == b.name && samePeriod(a.limit, b.limit) {
				r.errs.add(&Error{Position: a.pos, Path: a.path,
					What: "agrees in algorithm, period and name with " + b.path + ", so both would share one counter",
					Hint: "give each a name"})
				break
			}
		}
	}
}

func samePeriod(a, b caudal.Limit) bool {
	return a.Algorithm == b.Algorithm && a.Unit == b.Unit && max(a.Multiplier, 1) == max(b.Multiplier, 1) &&
		a.Timezone == b.Timezone && a.Epoch == b.Epoch
}
