package caudal_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines is how long a file of code may be: one idea fits.
const maxLines = 600

func TestFilesHoldOneIdea(t *testing.T) {
	code := []string{".go", ".lua", ".sh", ".js", ".css", ".html"}
	walkModule(t, func(path string) {
		if !slices.Contains(code, filepath.Ext(path)) {
			return
		}
		text := read(t, path)
		if lines := bytes.Count(text, []byte("\n")); lines > maxLines && !isGenerated(text) {
			t.Errorf("%s has %d lines, over %d: split it by idea", path, lines, maxLines)
		}
	})
}

var generated = regexp.MustCompile(`(?m)^(//|--) Code generated .* DO NOT EDIT\.$`)

func isGenerated(text []byte) bool { return generated.Match(text) }

// TestPackagesAndNamesAreDocumented finds packages without a comment, and
// exported names without one.
func TestPackagesAndNamesAreDocumented(t *testing.T) {
	packages := map[string]bool{}
	walkModule(t, func(path string) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(path)
		packages[dir] = packages[dir] || len(strings.TrimSpace(f.Doc.Text())) > 0
		if f.Name.Name == "main" || ast.IsGenerated(f) {
			return
		}
		for _, id := range undocumented(f) {
			t.Errorf("%s: exported %s has no doc comment", set.Position(id.Pos()), id.Name)
		}
	})
	for dir, documented := range packages {
		if !documented {
			t.Errorf("package %s has no package comment: say what it gives its user and which names to start with", dir)
		}
	}
}

// undocumented gives the exported names of a file's top level without a comment.
// A comment on a group of constants, variables or types counts for all in it.
func undocumented(f *ast.File) (names []*ast.Ident) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d))) && !obvious[d.Name.Name] {
				names = append(names, d.Name)
			}
		case *ast.GenDecl:
			if d.Doc != nil {
				continue
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && s.Doc == nil {
						names = append(names, s.Name)
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil {
						names = append(names, s.Names[0])
					}
				}
			}
		}
	}
	return names
}

// obvious are methods whose meaning the standard library fixes.
var obvious = map[string]bool{
	"Error": true, "Unwrap": true, "Is": true, "As": true,
	"Len": true, "Less": true, "Swap": true, "Push": true, "Pop": true,
	"Write": true, "WriteHeader": true, "Header": true, "Flush": true,
	"Describe": true, "Collect": true,
}

func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// unfinished are the words of work that is not done. They are split here so that
// this file does not hold them.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b|\b[Ff]or` + ` now\b`)

// nowLoop is a loop over instants, which is no promise of later work.
var nowLoop = regexp.MustCompile(`\bfor` + ` now(, \w+)? (:=|[<>=!])`)

func TestNothingIsLeftForLater(t *testing.T) {
	text := []string{".go", ".lua", ".md", ".sh", ".yaml", ".yml", ".html", ".css", ".js", ".conf", ""}
	walkModule(t, func(path string) {
		if !slices.Contains(text, filepath.Ext(path)) || path == "LICENSE" {
			return
		}
		for i, line := range strings.Split(string(read(t, path)), "\n") {
			line = nowLoop.ReplaceAllString(line, "")
			if word := unfinished.FindString(line); word != "" {
				t.Errorf("%s:%d: %q: finish it, or file an issue", path, i+1, word)
			}
		}
	})
}

var (
	markdownLink = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	fence        = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInSlug    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksResolve follows the links between the pages of the repository, to the
// heading.
func TestLinksResolve(t *testing.T) {
	found := 0
	walkModule(t, func(path string) {
		if filepath.Ext(path) != ".md" {
			return
		}
		text := inlineCode.ReplaceAllString(fence.ReplaceAllString(string(read(t, path)), ""), "")
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			found++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: there is no %s", path, m[1], target)
				continue
			}
			if anchor != "" && !slices.Contains(slugs(string(read(t, target))), anchor) {
				t.Errorf("%s links to %s: %s has no such heading", path, m[1], target)
			}
		}
	})
	if found == 0 {
		t.Error("found no link at all: the search is broken")
	}
}

// slugs gives the anchors that a Markdown page's headings get.
func slugs(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
