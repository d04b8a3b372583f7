package ruletest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal/rule"
)

// file is a test file as written.
type file struct {
	rules  []string
	domain string
	start  time.Time
	tests  []test
}

type test struct {
	name  string
	pos   rule.Position
	steps []step
}

// unset is the at of a step that has none.
const unset = -1

type step struct {
	pos         rule.Position
	at          time.Duration
	request     map[string]string // by attributes; nil by descriptor
	names       []attributeName   // of the request, as written
	descriptors [][]rule.Entry
	times       int
	response    *response // nil when nobody sees one
	want        expectation
}

// attributeName is where a request names an attribute.
type attributeName struct {
	name, path string
	pos        rule.Position
}

// response is what the API answers a call that passes.
type response struct {
	status int
	header http.Header
}

// expectation holds what a step expects; what is not set is not looked at.
type expectation struct {
	outcome         string // allowed, denied, rejected
	allowed, denied *int   // of all calls of the step
	remaining       *uint64
	rule            string
	limits          []string
	hasLimits       bool
	retryAfter      *time.Duration
	delay           *time.Duration
}

// The bounds of a test file, far above what people write.
const (
	maxFile  = 4 << 20
	maxTimes = 1_000_000
	maxDepth = 8
)

// reader reads a test file strictly.
type reader struct {
	name string
	errs rule.Errors
}

// parse reads a test file's text. The error is of type rule.Errors.
func parse(name string, data []byte) (*file, error) {
	r := &reader{name: name}
	f := r.document(data)
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	return f, nil
}

func (r *reader) fail(n *yaml.Node, path, hint, format string, args ...any) {
	if len(r.errs) < rule.MaxErrors {
		r.errs = append(r.errs, &rule.Error{Position: r.position(n), Path: path, What: fmt.Sprintf(format, args...), Hint: hint})
	}
}

func (r *reader) position(n *yaml.Node) rule.Position {
	return rule.Position{File: r.name, Line: n.Line, Column: n.Column}
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?`)

func (r *reader) document(data []byte) *file {
	if len(data) > maxFile {
		r.fail(&yaml.Node{}, "", "split it", "the file is over %d bytes", maxFile)
		return nil
	}
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&doc); err != nil {
		found := yamlLine.FindStringSubmatch(err.Error())
		line, _ := strconv.Atoi(found[1])
		what := strings.TrimPrefix(err.Error(), found[0])
		if errors.Is(err, io.EOF) {
			what = "the file is empty"
		}
		r.fail(&yaml.Node{Line: max(line, 1), Column: 1}, "", "write tests: and a list", "this is not YAML: %s", what)
		return nil
	}
	if !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		r.fail(doc.Content[0], "", "write one per file", "the file holds more than one document")
	}
	return r.file(doc.Content[0])
}

// defaultStart is a Thursday, the first instant of a year, a month and a day.
var defaultStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (r *reader) file(n *yaml.Node) *file {
	f := &file{start: defaultStart}
	fs := r.mapping(n, "", "rules", "domain", "start", "tests")
	if v := fs["rules"]; v != nil {
		f.rules = r.texts(v, "rules")
	}
	if v := fs["domain"]; v != nil {
		f.domain = r.text(v, "domain")
	}
	if v := fs["start"]; v != nil {
		t, err := time.Parse(time.RFC3339, v.Value)
		if err != nil {
			r.fail(v, "start", "write it as 2026-03-10T12:00:00Z", "%q is no instant", v.Value)
		}
		f.start = t
	}
	tests := fs["tests"]
	if tests == nil {
		r.fail(n, "", "write tests: and a list", "the file has no tests")
		return f
	}
	r.list(tests, "tests", func(n *yaml.Node, path string) { f.tests = append(f.tests, r.test(n, path)) })
	if len(f.tests) == 0 {
		r.fail(tests, "tests", "write - name: NAME and steps", "the list is empty")
	}
	return f
}

func (r *reader) test(n *yaml.Node, path string) test {
	t := test{pos: r.position(n)}
	fs := r.mapping(n, path, "name", "steps")
	if v := fs["name"]; v != nil {
		t.name = r.text(v, path+".name")
	} else {
		r.fail(n, path, "write name: what it shows", "the test has no name")
	}
	if v := fs["steps"]; v != nil {
		r.list(v, path+".steps", func(n *yaml.Node, path string) { t.steps = append(t.steps, r.step(n, path)) })
	}
	if len(t.steps) == 0 {
		r.fail(n, path, "write steps: and a list of requests", "the test has no steps")
	}
	before := time.Duration(0)
	for i := range t.steps {
		v := &t.steps[i]
		if v.at == unset {
			v.at = before // the instant of the step before
		}
		if v.at < before {
			r.errs = append(r.errs, &rule.Error{Position: v.pos, Path: fmt.Sprintf("%s.steps[%d].at", path, i),
				What: fmt.Sprintf("%s is before the step above", v.at), Hint: "steps go forward; at counts from the start of the test"})
		}
		before = v.at
	}
	return t
}

func (r *reader) step(n *yaml.Node, path string) step {
	s := step{pos: r.position(n), at: unset, times: 1}
	fs := r.mapping(n, path, "at", "request", "descriptors", "times", "response", "expect")
	if v := fs["at"]; v != nil {
		s.at = r.duration(v, path+".at")
	}
	if v := fs["times"]; v != nil {
		s.times = int(r.number(v, path+".times", 1, maxTimes))
	}
	request, descriptors := fs["request"], fs["descriptors"]
	switch {
	case (request == nil) == (descriptors == nil):
		r.fail(n, path, "write request: {path: /x, ...}, or descriptors: [\"k=v,k2=v2\"]", "a step needs one request")
	case request != nil:
		s.request, s.names = r.attributes(request, path+".request")
	default:
		for _, text := range r.texts(descriptors, path+".descriptors") {
			s.descriptors = append(s.descriptors, rule.ParseDescriptor(text))
		}
	}
	if v := fs["response"]; v != nil {
		s.response = r.response(v, path+".response")
		if descriptors != nil {
			r.fail(v, path+".response", "leave it out", "nobody sees a response where rules are matched by descriptor")
		}
	}
	if v := fs["expect"]; v != nil {
		s.want = r.expect(v, path+".expect")
	} else {
		r.fail(n, path, "write expect: allowed, denied or rejected", "the step expects nothing")
	}
	return s
}

// response reads a status, or a mapping of status and headers.
func (r *reader) response(n *yaml.Node, path string) *response {
	p := &response{status: http.StatusOK, header: http.Header{}}
	if n.Kind == yaml.ScalarNode {
		p.status = int(r.number(n, path, 100, 599))
		return p
	}
	fs := r.mapping(n, path, "status", "headers")
	if v := fs["status"]; v != nil {
		p.status = int(r.number(v, path+".status", 100, 599))
	}
	if v := fs["headers"]; v != nil {
		if v.Kind != yaml.MappingNode {
			r.fail(v, path+".headers", "write NAME: value for each", "headers with values are wanted")
			return p
		}
		for i := 0; i+1 < len(v.Content); i += 2 {
			p.header.Add(v.Content[i].Value, r.text(deref(v.Content[i+1]), path+".headers."+v.Content[i].Value))
		}
	}
	return p
}

// attributes reads a request. Header names are compared without regard to letter
// case, as everywhere.
func (r *reader) attributes(n *yaml.Node, path string) (all map[string]string, names []attributeName) {
	all = map[string]string{}
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, "write {path: /x, remote_address: 203.0.113.7}", "attributes with values are wanted")
		return all, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], deref(n.Content[i+1])
		name := key.Value
		if header, ok := strings.CutPrefix(name, "header:"); ok {
			name = "header:" + textproto.CanonicalMIMEHeaderKey(header)
		}
		if _, twice := all[name]; twice || key.Kind != yaml.ScalarNode {
			r.fail(key, path, "write each attribute once", "%q stands twice or is no name", key.Value)
			continue
		}
		all[name] = r.text(value, path+"."+key.Value)
		names = append(names, attributeName{name, path + "." + key.Value, r.position(key)})
	}
	if v, ok := all["remote_address"]; ok {
		if _, err := netip.ParseAddr(v); err != nil {
			r.fail(n, path+".remote_address", "write an address such as 203.0.113.7", "%q is not an address", v)
		}
	}
	return all, names
}

var outcomes = []string{"allowed", "denied", "rejected"}

func (r *reader) expect(n *yaml.Node, path string) expectation {
	var e expectation
	if n.Kind == yaml.ScalarNode {
		e.outcome = r.outcome(n, path)
		return e
	}
	fs := r.mapping(n, path, "outcome", "allowed", "denied", "remaining", "rule", "limits", "retry_after", "delay")
	if v := fs["outcome"]; v != nil {
		e.outcome = r.outcome(v, path+".outcome")
	}
	count := func(name string) *int {
		if v := fs[name]; v != nil {
			k := int(r.number(v, path+"."+name, 0, maxTimes))
			return &k
		}
		return nil
	}
	e.allowed, e.denied = count("allowed"), count("denied")
	if v := fs["remaining"]; v != nil {
		k := r.number(v, path+".remaining", 0, 1<<40)
		e.remaining = &k
	}
	if v := fs["rule"]; v != nil {
		e.rule = r.text(v, path+".rule")
	}
	if v := fs["limits"]; v != nil {
		e.limits, e.hasLimits = r.texts(v, path+".limits"), true
	}
	length := func(name string) *time.Duration {
		if v := fs[name]; v != nil {
			d := r.duration(v, path+"."+name)
			return &d
		}
		return nil
	}
	e.retryAfter, e.delay = length("retry_after"), length("delay")
	if len(fs) == 0 {
		r.fail(n, path, "write expect: allowed", "nothing is expected")
	}
	return e
}

func (r *reader) outcome(n *yaml.Node, path string) string {
	if !slices.Contains(outcomes, n.Value) {
		r.fail(n, path, "use allowed, denied or rejected (401)", "%q is no outcome", n.Value)
	}
	return n.Value
}
