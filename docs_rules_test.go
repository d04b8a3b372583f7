package caudal_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
	"github.com/caudal-dev/caudal/ruletest"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(domain: .*?)^```")

// TestRuleFilesOnPagesLoad reads every rule file that a page shows, alone and
// without a warning.
func TestRuleFilesOnPagesLoad(t *testing.T) {
	found := 0
	walkModule(t, func(page string) {
		if filepath.Ext(page) != ".md" {
			return
		}
		text := string(read(t, page))
		for _, b := range yamlBlock.FindAllStringSubmatchIndex(text, -1) {
			found++
			line := 1 + strings.Count(text[:b[2]], "\n")
			file := filepath.Join(t.TempDir(), "rules.yaml")
			if err := os.WriteFile(file, []byte(text[b[2]:b[3]]), 0o600); err != nil {
				t.Fatal(err)
			}
			_, warnings, err := rule.Options{ForAttributes: true, AllRegions: true}.Load(file)
			if err != nil {
				t.Errorf("%s:%d: %v", page, line, err)
			}
			for _, w := range warnings {
				if w.Level == rule.LevelNote {
					continue
				}
				t.Errorf("%s:%d: a page should show rules without a warning: %v", page, line, w)
			}
		}
	})
	if found < 7 {
		t.Errorf("found %d rule files on pages, want at least 7: the search is broken", found)
	}
}

var listBlock = regexp.MustCompile("(?ms)^```yaml\n(- key: .*?)^```")

// TestDescriptorsOnPagesLoad reads the parts of rule files that a page shows. Alone
// they may deserve a warning.
func TestDescriptorsOnPagesLoad(t *testing.T) {
	found := 0
	walkModule(t, func(page string) {
		if filepath.Ext(page) != ".md" {
			return
		}
		text := string(read(t, page))
		for _, b := range listBlock.FindAllStringSubmatchIndex(text, -1) {
			found++
			file := filepath.Join(t.TempDir(), "rules.yaml")
			if err := os.WriteFile(file, []byte("domain: page\ndescriptors:\n"+text[b[2]:b[3]]), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := (rule.Options{ForAttributes: true, AllRegions: true}).Load(file); err != nil {
				t.Errorf("%s:%d: %v", page, 1+strings.Count(text[:b[2]], "\n"), err)
			}
		}
	})
	if found == 0 {
		t.Error("found no descriptors on pages: the search is broken")
	}
}

var testBlock = regexp.MustCompile("(?ms)^```yaml\n(rules: (\\S+).*?)^```")

// TestTestFilesOnPagesPass runs every test file that a page shows against the
// rules shown last before it.
func TestTestFilesOnPagesPass(t *testing.T) {
	found := 0
	walkModule(t, func(page string) {
		if filepath.Ext(page) != ".md" {
			return
		}
		text := string(read(t, page))
		rules := yamlBlock.FindAllStringSubmatchIndex(text, -1)
		for _, b := range testBlock.FindAllStringSubmatchIndex(text, -1) {
			found++
			dir, shown := t.TempDir(), ""
			for _, r := range rules {
				if r[0] < b[0] {
					shown = text[r[2]:r[3]]
				}
			}
			tests := filepath.Join(dir, "page_test.yaml")
			for file, content := range map[string]string{tests: text[b[2]:b[3]], filepath.Join(dir, text[b[4]:b[5]]): shown} {
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			report, err := ruletest.Run(tests, rule.Options{AllRegions: true})
			if err != nil {
				t.Errorf("%s:%d: %v", page, 1+strings.Count(text[:b[2]], "\n"), err)
			} else if report.Failed() > 0 {
				t.Errorf("%s:%d:\n%s", page, 1+strings.Count(text[:b[2]], "\n"), report)
			}
		}
	})
	if found < 1 {
		t.Error("found no test file on pages: the search is broken")
	}
}

// TestRulesPageIsComplete: docs/rules.md, also in Spanish, names every key of the
// format, and every code that check prints.
func TestRulesPageIsComplete(t *testing.T) {
	page, spanish := string(read(t, "docs/rules.md")), string(read(t, "docs/es/reglas.md"))
	var schema struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(rule.JSONSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	keys := 0
	check := func(properties map[string]any) {
		for key := range properties {
			if keys++; !strings.Contains(page, "`"+key+"`") {
				t.Errorf("docs/rules.md does not name the key %s", key)
			}
			if !strings.Contains(spanish, "`"+key+"`") {
				t.Errorf("docs/es/reglas.md does not name the key %s", key)
			}
		}
	}
	check(schema.Properties)
	for _, def := range schema.Defs {
		check(def.Properties)
	}
	codes := 0
	walkModule(t, func(path string) {
		if filepath.Dir(path) != "rule" || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, m := range regexp.MustCompile(`Code: +"([a-z-]+)"`).FindAllStringSubmatch(string(read(t, path)), -1) {
			if codes++; !strings.Contains(page, "`"+m[1]+"`") {
				t.Errorf("docs/rules.md does not name the warning %s", m[1])
			}
		}
	})
	if keys < 40 || codes < 15 {
		t.Errorf("found %d keys and %d codes: the search is broken", keys, codes)
	}
}
