package caudal_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the listings in api/ as they should be")

// TestAPIListingIsCurrent: each file in api/ lists what one public package exports,
// so that a change of the API shows in a review as what it is. make api writes them.
func TestAPIListingIsCurrent(t *testing.T) {
	packages := readPackages(t)
	wanted := map[string]bool{}
	for dir, p := range packages {
		if p.name == "" || p.name == "main" || strings.HasPrefix(dir, "internal/") {
			continue
		}
		file := filepath.Join("api", strings.ReplaceAll(listingName(dir), "/", "_")+".txt")
		wanted[file] = true
		got := apiListing(t, dir)
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current (%v): look at the change with make api && git diff api", file, err)
		}
	}
	files, err := filepath.Glob("api/*.txt")
	if err != nil || len(wanted) < 15 {
		t.Fatalf("found %d public packages (%v): the search is broken", len(wanted), err)
	}
	for _, file := range files {
		if !wanted[file] {
			t.Errorf("%s lists a package that is not there: remove it", file)
		}
	}
}

func listingName(dir string) string {
	if dir == "." {
		return "caudal"
	}
	return dir
}

// apiListing prints what a package exports, without comments and in order of names.
func apiListing(t *testing.T, dir string) []byte {
	t.Helper()
	fset := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, modulePath+"/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "package %s\n", p.Name)
	add := func(decl ast.Decl) {
		if f, ok := decl.(*ast.FuncDecl); ok {
			f.Body = nil
		}
		b.WriteString("\n")
		if err := format.Node(&b, fset, decl); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			add(v.Decl)
		}
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			add(f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	slices.SortFunc(p.Types, func(a, b *doc.Type) int { return strings.Compare(a.Name, b.Name) })
	for _, typ := range p.Types {
		add(typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	return b.Bytes()
}

// TestCoreAndMemoryNeedOnlyTheStandardLibrary follows the imports of the core, the
// algorithms and the store in memory to their ends: who limits in memory takes over
// no dependency.
func TestCoreAndMemoryNeedOnlyTheStandardLibrary(t *testing.T) {
	packages := readPackages(t)
	seen := map[string]bool{}
	var follow func(dir string)
	follow = func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		p := packages[dir]
		if p == nil {
			t.Fatalf("package %s is imported and not there", dir)
		}
		for path, file := range p.code {
			if name, ours := inModule(path); ours {
				follow(name)
			} else if !isStandard(path) {
				t.Errorf("%s imports %s: the core and the store in memory stand on the standard library only", file, path)
			}
		}
	}
	for _, dir := range []string{".", "algorithm", "memstore"} {
		follow(dir)
	}
	if len(seen) < 4 {
		t.Errorf("followed %d packages: the search is broken", len(seen))
	}
}
