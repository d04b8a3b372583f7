package caudal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
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
			_, warnings, err := rule.Options{ForAttributes: true}.Load(file)
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
	if found < 4 {
		t.Errorf("found %d rule files on pages, want at least 4: the search is broken", found)
	}
}
