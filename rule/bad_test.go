package rule_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

var update = flag.Bool("update", false, "write what the bad files get as what they should get")

// TestBadFiles reads one small file per mistake and compares every line of the
// answer with the file beside it. It covers C53 (nothing falls back silently)
// and C55 (an empty value beside none).
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 80 {
		t.Fatalf("found %d bad files (%v)", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set, _, err := rule.Parse(name, data)
			if err == nil || set != nil {
				t.Fatalf("Parse(%s) = %v, %v, want an error and no set", name, set, err)
			}
			var list rule.Errors
			if !errors.As(err, &list) || len(list) == 0 || len(list) > rule.MaxErrors {
				t.Errorf("Parse(%s) gave %T of %d errors, want rule.Errors of 1 to %d", name, err, len(list), rule.MaxErrors)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".err"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("Parse(%s) says\n%swant\n%s", name, got, want)
			}
		})
	}
}
