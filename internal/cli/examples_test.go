package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamplesHold: the rules of every example load without a warning and do what
// their tests say.
func TestExamplesHold(t *testing.T) {
	dirs, err := filepath.Glob("../../examples/*/rules")
	if err != nil || len(dirs) < 2 {
		t.Fatalf("found %d examples with rules (%v), want at least 2", len(dirs), err)
	}
	for _, dir := range append(dirs, "starter/rules") {
		for _, args := range [][]string{{"check", "--strict", dir}, {"test", dir}} {
			var out, errs bytes.Buffer
			if code := Main(args, Streams{Out: &out, Err: &errs}); code != 0 {
				t.Errorf("caudal %s exits with %d:\n%s%s", strings.Join(args, " "), code, &out, &errs)
			}
		}
	}
}

// TestGitOpsBeginsWithInit: the example's rules are those that init writes.
func TestGitOpsBeginsWithInit(t *testing.T) {
	for _, name := range []string{"public-api.yaml", "public-api_test.yaml"} {
		a, err := os.ReadFile(filepath.Join("starter/rules", name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join("../../examples/gitops/rules", name))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("examples/gitops/rules/%s is not what init writes (%v)", name, err)
		}
	}
}

// TestStarterSettingsAreRead: the caudal.yaml that init writes, as it is and with
// all that it holds in comments.
func TestStarterSettingsAreRead(t *testing.T) {
	data, err := os.ReadFile("starter/caudal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(data), strings.ReplaceAll(string(data), "\n# ", "\n")} {
		_, body, _ := strings.Cut(text, "\n\n") // the head is prose
		file := filepath.Join(t.TempDir(), "caudal.yaml")
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		var s settings
		if err := readConfig(file, &s); err != nil {
			t.Errorf("%v\n%s", err, body)
		}
		if s.Upstream == nil || len(s.Rules) != 1 {
			t.Errorf("upstream %v and rules %q, want one of each", s.Upstream, s.Rules)
		}
	}
}
