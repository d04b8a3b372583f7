package caudal_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// TestLibraryPageShowsExamplesThatRun: each snippet on docs/library.md stands, word
// for word, in an example that the tests run.
func TestLibraryPageShowsExamplesThatRun(t *testing.T) {
	var examples []string
	walkModule(t, func(path string) {
		if name := filepath.Base(path); strings.HasPrefix(name, "example") && strings.HasSuffix(name, "_test.go") {
			examples = append(examples, unindented(string(read(t, path))))
		}
	})
	page := string(read(t, "docs/library.md"))
	blocks := goBlock.FindAllStringSubmatchIndex(page, -1)
	if len(blocks) < 7 || len(examples) < 15 {
		t.Fatalf("found %d snippets and %d files of examples: the search is broken", len(blocks), len(examples))
	}
	for _, b := range blocks {
		snippet, found := unindented(page[b[2]:b[3]]), false
		for _, e := range examples {
			found = found || strings.Contains(e, snippet)
		}
		if !found {
			t.Errorf("docs/library.md:%d: the snippet is in no example:\n%s", 1+strings.Count(page[:b[2]], "\n"), snippet)
		}
	}
}

// unindented takes the white space from the beginning of each line.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}
