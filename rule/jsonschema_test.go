package rule_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal/rule"
)

const schemaFile = "../docs/rules.schema.json"

// TestSchemaFileIsCurrent: the file for editors is what the reader's table says.
// go test ./rule -run Schema -update writes it.
func TestSchemaFileIsCurrent(t *testing.T) {
	got := rule.JSONSchema()
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not current (%v): go test ./rule -run Schema -update", schemaFile, err)
	}
}

// TestSchemaAgreesWithReader: what the reader takes the schema takes, and keys
// that the reader does not know the schema does not know.
func TestSchemaAgreesWithReader(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(rule.JSONSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	good, _ := filepath.Glob("testdata/good/*.yaml")
	more, _ := filepath.Glob("../examples/*/rules/*[a-z].yaml")
	files := slices.DeleteFunc(append(good, more...), func(s string) bool { return strings.HasSuffix(s, "_test.yaml") })
	if len(files) < 8 {
		t.Fatalf("found %d good files", len(files))
	}
	for _, file := range files {
		if err := validate(schema, schema, decode(t, file), ""); err != nil {
			t.Errorf("%s loads, and the schema says %v", file, err)
		}
	}
	for _, name := range []string{"unknown_key", "misspelt_unit", "misspelt_requests_per_unit", "concurrency_misspelt",
		"key_missing", "domain_missing", "enforce_percent_over_100", "number_negative", "flag_number", "on_deny_status", "descriptors_of_text"} {
		file := "testdata/bad/" + name + ".yaml"
		if err := validate(schema, schema, decode(t, file), ""); err == nil {
			t.Errorf("%s is refused, and the schema takes it", file)
		}
	}
}

func decode(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

// validate knows the words of JSON Schema that ours uses.
func validate(root, s map[string]any, v any, path string) error {
	if ref, ok := s["$ref"].(string); ok {
		s = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if want, ok := s["type"]; ok && !typed(want, v) {
		return fmt.Errorf("%s: %v is not %v", path, v, want)
	}
	if words, ok := s["enum"].([]any); ok && !slices.Contains(words, v) {
		return fmt.Errorf("%s: %v is none of %v", path, v, words)
	}
	switch v := v.(type) {
	case map[string]any:
		return validateMapping(root, s, v, path)
	case []any:
		for i, entry := range v {
			if err := validate(root, s["items"].(map[string]any), entry, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case string:
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return fmt.Errorf("%s: %q does not match %s", path, v, p)
		}
	case int:
		least, _ := s["minimum"].(float64)
		if most, ok := s["maximum"].(float64); ok && (float64(v) < least || float64(v) > most) {
			return fmt.Errorf("%s: %d is out of range", path, v)
		}
	}
	return nil
}

func validateMapping(root, s, v map[string]any, path string) error {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s: %s is missing", path, name)
		}
	}
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		return nil
	}
	for name, value := range v {
		p, known := properties[name].(map[string]any)
		if !known {
			return fmt.Errorf("%s: %s is unknown", path, name)
		}
		if err := validate(root, p, value, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func typed(want, v any) bool {
	names, ok := want.([]any)
	if !ok {
		names = []any{want}
	}
	name := ""
	switch v.(type) {
	case map[string]any:
		name = "object"
	case []any:
		name = "array"
	case string:
		name = "string"
	case int:
		name = "integer"
	case float64:
		name = "number"
	case bool:
		name = "boolean"
	case nil:
		name = "null"
	}
	return slices.Contains(names, any(name)) || name == "integer" && slices.Contains(names, any("number"))
}
