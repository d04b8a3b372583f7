package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/internal/serve"
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

// TestGatewayExampleIsRead: the caudal.yaml with every setting of the gateway, as it
// is and with all that it holds in comments.
func TestGatewayExampleIsRead(t *testing.T) {
	data, err := os.ReadFile("../../examples/gateway/caudal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	commented := regexp.MustCompile(`(?m)^# ([a-z_]+: )`)
	for _, text := range []string{string(data), commented.ReplaceAllString(string(data), "$1")} {
		file := filepath.Join(t.TempDir(), "caudal.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var s settings
		if err := readConfig(file, &s); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(s.Routes) != 3 || s.Routes[1].Domain != "api" || s.Routes[2].Host != "*.files.example.com" {
			t.Errorf("routes = %+v, want the three of the example", s.Routes)
		}
		// The defaults in comments are the defaults.
		if uncommented := text != string(data); uncommented != (s.BodyTimeout == gateway.DefaultStall) || uncommented && !slices.Equal(s.ExemptPaths, serve.DefaultExempt()) {
			t.Errorf("body_timeout = %s, exempt_paths = %v, want what the comments say, and that to be the default", s.BodyTimeout, s.ExemptPaths)
		}
	}
}
