package rule_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func simple(domain, key string) string {
	return "domain: " + domain + "\ndescriptors:\n  - key: " + key + "\n    rate_limit: {unit: minute, requests_per_unit: 5}\n"
}

func names(s *rule.Set) string {
	var out []string
	for _, d := range s.Domains() {
		out = append(out, d.Name())
	}
	return strings.Join(out, " ")
}

// TestC48FilesOfADirectory: what editors and Kubernetes leave beside the rules
// is not read; files behind the ConfigMap's links are, once each.
func TestC48FilesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "..2026_01", "a.yaml"), simple("a", "k"))
	for link, to := range map[string]string{"..data": "..2026_01", "a.yaml": filepath.Join("..data", "a.yaml")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "b.yml"), simple("b", "k"))
	for _, other := range []string{".a.yaml.swp", "a.yaml~", ".#a.yaml", "#a.yaml", "~a.yaml", "README.md", "notes", ".hidden.yaml"} {
		write(t, filepath.Join(dir, other), simple("a", "k"))
	}
	write(t, filepath.Join(dir, "empty.yaml"), "")
	write(t, filepath.Join(dir, "sub.yaml", "c.yaml"), simple("c", "k"))

	set, warnings, err := rule.Load(dir, filepath.Join(dir, "b.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(set); got != "a b" {
		t.Errorf("Load gave the domains %q, want %q", got, "a b")
	}
	warnings = slices.DeleteFunc(warnings, func(w rule.Warning) bool { return w.Level == rule.LevelNote })
	if len(warnings) != 1 || warnings[0].Code != "empty-file" {
		t.Errorf("Load warns %v, want one empty-file", warnings)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one", "a.yaml"), simple("a", "k"))
	write(t, filepath.Join(dir, "two", "a.yaml"), simple("a", "k2"))
	write(t, filepath.Join(dir, "bad", "good.yaml"), simple("good", "k"))
	write(t, filepath.Join(dir, "bad", "bad.yaml"), "domain: bad\nrules: []\n")
	write(t, filepath.Join(dir, "none", "README.md"), "no rules")
	write(t, filepath.Join(dir, "empty", "a.yaml"), "# nothing\n")
	write(t, filepath.Join(dir, "large.yaml"), simple("a", "k")+strings.Repeat("# filler\n", 1<<20))
	path := func(names ...string) []string {
		for i, n := range names {
			names[i] = filepath.Join(dir, n)
		}
		return names
	}
	for _, c := range []struct {
		name  string
		paths []string
		want  string
	}{
		{"no path", nil, "no path"},
		{"an absent path", path("absent"), "no such file"},
		{"a directory without rules", path("none"), "no file that ends in .yaml or .yml"},
		{"only empty files", path("empty"), "no file holds rules"},
		{"one bad file among good", path("bad"), `bad.yaml:2:1: rules: unknown key "rules"`},
		{"one domain in two files", path("one", "two"), `two/a.yaml:1:9: domain: domain "a" stands in two files; first in `},
		{"a file over the bound", path("large.yaml"), "over 8388608"},
	} {
		set, _, err := rule.Load(c.paths...)
		if err == nil || set != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Load of %s = %v, %v, want no set and an error with %q", c.name, set, err, c.want)
		}
	}
}

// TestMergeDomains: both files' rules act, in any order of files; a descriptor in
// both is an error.
func TestMergeDomains(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml"), filepath.Join(dir, "c.yaml")
	write(t, a, simple("d", "key1"))
	write(t, b, simple("d", "key2"))
	write(t, c, simple("d", "key1"))
	opts := rule.Options{MergeDomains: true}
	for _, paths := range [][]string{{a, b}, {b, a}} {
		set, _, err := opts.Load(paths...)
		if err != nil {
			t.Fatal(err)
		}
		d, err := set.Default()
		if err != nil {
			t.Fatal(err)
		}
		if got := matched(d, request{"key1": "x", "key2": "x"}); got != "key1 | key2" {
			t.Errorf("Load(%v) then Match = %q, want both", paths, got)
		}
	}
	_, _, err := opts.Load(a, b, c)
	if err == nil || !strings.Contains(err.Error(), `c.yaml:3:5: descriptors[0]: key "key1" without value stands twice among its siblings; first at `+a+":3:5") {
		t.Errorf("Load of one descriptor in two files = %v", err)
	}
}

func TestDefaultDomain(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), simple("zebra", "k"))
	set, _, err := rule.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := set.Default(); err != nil || d.Name() != "zebra" {
		t.Errorf("Default of one domain = %v, %v", d, err)
	}
	write(t, filepath.Join(dir, "b.yaml"), simple("ant", "k"))
	if set, _, err = rule.Load(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Default(); err == nil || !strings.Contains(err.Error(), "ant, zebra") {
		t.Errorf("Default of two domains = %v, want an error that lists them", err)
	}
	if d, ok := set.Domain("ant"); !ok || d.Name() != "ant" {
		t.Errorf("Domain(ant) = %v, %v", d, ok)
	}
	if d, ok := set.Domain("bee"); ok || d != nil {
		t.Errorf("Domain(bee) = %v, %v, want none", d, ok)
	}
	if _, err := new(rule.Set).Default(); err == nil {
		t.Error("Default of the zero Set = no error, want one")
	}
}

// TestFlags: templates write True, and files of the reference may say yes and on.
func TestFlags(t *testing.T) {
	for word, want := range map[string]string{"true": "both", "True": "both", "TRUE": "both", "False": "both", "yes": "compat", "On": "compat",
		"off": "compat", "tRue": "none", `"true"`: "none", "1": "none", "null": "none"} {
		text := "domain: d\ndescriptors:\n- {key: k, shadow_mode: " + word + ", rate_limit: {unit: day, requests_per_unit: 1}}\n"
		for _, compat := range []bool{false, true} {
			set, _, err := rule.Options{CompatEnvoy: compat}.Parse("f.yaml", []byte(text))
			if ok := want == "both" || want == "compat" && compat; ok != (err == nil) {
				t.Errorf("shadow_mode: %s, compat %t: %v, want loaded %t", word, compat, err, ok)
				continue
			}
			on := strings.ContainsAny(word, "tTyn") && !strings.HasPrefix(word, "F") // true, yes, On
			if err == nil && (set.Limits()[0].Mode == caudal.Shadow) != on {
				t.Errorf("shadow_mode: %s is %v, want on %t", word, set.Limits()[0].Mode, on)
			}
		}
	}
}
