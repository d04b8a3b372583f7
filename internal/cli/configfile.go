package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal/rule"
)

// maxConfigBytes bounds the file of settings; a real one has some hundred bytes.
const maxConfigBytes = 1 << 20

// readConfig reads caudal.yaml into s. It is strict as rule files are, and its
// errors are theirs: file:line:column, the key, what is wrong and a hint. Paths
// in it are relative to it.
func readConfig(file string, s *settings) error {
	data, err := readBounded(file)
	if err != nil {
		return err
	}
	r := &configReader{file: file, settings: s}
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // empty, or comments only
	case err != nil:
		return rule.Errors{r.syntax(err)}
	}
	r.document(doc.Content[0])
	if !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		r.fail(doc.Content[0], "", "keep one document, without ---", "the file holds more than one document")
	}
	if len(r.errs) > 0 {
		return r.errs
	}
	return nil
}

func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read settings: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read settings: %w", err)
	}
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("cannot read settings: %s is over %d bytes", file, maxConfigBytes)
	}
	return data, nil
}

type configReader struct {
	file     string
	settings *settings
	errs     rule.Errors
	prefix   string // the path of what is being read, where it is not at the top
}

func (r *configReader) fail(n *yaml.Node, path, hint, format string, args ...any) {
	if r.prefix != "" {
		path = strings.TrimSuffix(r.prefix+"."+path, ".")
	}
	if len(r.errs) < rule.MaxErrors {
		r.errs = append(r.errs, &rule.Error{Position: rule.Position{File: r.file, Line: n.Line, Column: n.Column},
			Path: path, What: fmt.Sprintf(format, args...), Hint: hint})
	}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax makes an error of what the parser says, which names the line alone.
func (r *configReader) syntax(err error) *rule.Error {
	e := &rule.Error{Position: rule.Position{File: r.file}, What: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		e.Position.Line, _ = strconv.Atoi(m[1])
		e.Position.Column = 1
		e.What = strings.TrimPrefix(err.Error(), m[0])
	}
	e.Hint = "the file must be YAML: one name: value per line"
	return e
}

func (r *configReader) document(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "", "write one name: value per line", "the file must hold names with values")
		return
	}
	r.mapping(n, findSetting)
	if up := valueOf(n, "upstream"); up != nil && valueOf(n, "routes") != nil {
		r.fail(up, "upstream", "make it a route without host and path, which takes what the others leave", "cannot stand beside routes")
	}
}

// mapping reads names with values, each by what find gives for the name.
func (r *configReader) mapping(n *yaml.Node, find func(string) *setting) {
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if first, twice := seen[key.Value]; twice {
			r.fail(key, key.Value, "keep one of them", "stands twice; first at line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		s := find(key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fail(key, "", "write one name: value per line", "a setting's name must be a word")
		case s == nil:
			r.unknown(key)
		case s.tree:
			r.routes(value)
		default:
			r.value(s, key, value)
		}
	}
}

// unknown says what is wrong with a name that is no setting.
func (r *configReader) unknown(key *yaml.Node) {
	name, names := key.Value, settingNames()
	if r.settings.route != nil {
		names = namesOf(routeSettings)
	}
	hint := "caudal serve --help lists the settings"
	switch near := nearest(settingName(name), names); {
	case near != "":
		hint = "did you mean " + near + "?"
	case name == "tls":
		hint = "write tls_cert and tls_key"
	case name == "descriptors":
		hint = "this is a file of rules: give it to --rules"
	case r.settings.route != nil:
		hint = "a route has " + strings.Join(names, ", ")
	}
	r.fail(key, name, hint, "is no setting")
}

func (r *configReader) value(s *setting, key, value *yaml.Node) {
	texts, ok := r.texts(s, value)
	if !ok {
		return
	}
	if s.path {
		for i, path := range texts {
			if path != "" && !filepath.IsAbs(path) {
				texts[i] = filepath.Join(filepath.Dir(r.file), path)
			}
		}
	}
	if err := s.set(r.settings, texts); err != nil {
		what, hint, _ := strings.Cut(err.Error(), ": ")
		if unread := new(fs.PathError); errors.As(err, &unread) {
			what, hint = err.Error(), "name a file that this user may read"
		}
		r.fail(value, key.Value, hint, "%s", what)
	}
}

// texts gives the values of a setting as written.
func (r *configReader) texts(s *setting, n *yaml.Node) ([]string, bool) {
	switch {
	case n.Kind == yaml.MappingNode && s.pairs && len(n.Content) > 0:
		var all []string
		for i := 0; i < len(n.Content); i += 2 {
			name, value := n.Content[i], n.Content[i+1]
			if name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
				r.fail(name, s.name, "write name: value for each", "holds something that is no plain value")
				return nil, false
			}
			all = append(all, name.Value+"="+value.Value)
		}
		return all, true
	case n.Kind == yaml.SequenceNode && s.list && len(n.Content) > 0:
		var all []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				r.fail(item, s.name, "write a list of plain values", "holds something that is no plain value")
				return nil, false
			}
			all = append(all, item.Value)
		}
		return all, true
	case n.Kind != yaml.ScalarNode:
		hint := "write one plain value behind the colon"
		if s.list {
			hint = "write one plain value, or a list of them"
		}
		r.fail(n, s.name, hint, "must be a plain value")
		return nil, false
	case n.Tag == "!!null":
		r.fail(n, s.name, "write a value behind the colon, or leave the line out", "has no value")
		return nil, false
	}
	if s.path {
		return []string{n.Value}, true
	}
	texts := s.split(n.Value)
	if len(texts) == 0 {
		r.fail(n, s.name, "write a value behind the colon, or leave the line out", "has no value")
	}
	return texts, len(texts) > 0
}
