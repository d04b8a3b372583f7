package rule_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

// TestGoodFiles runs each line of testdata/good/*.want on the rules beside it. A
// line is one of
//
//	[k=v,k2=v2] [k3=v3] NAMES   the limits of these descriptors, in one request
//	k=v,k2=v2 NAMES             the limits of a request with these attributes
//	same [..] [..]              both descriptors have one counter
//	differ [..] [..]            they have two
//
// The files have the shapes of the reference's own examples (F02 to F07).
func TestGoodFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.want")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			set, _, err := rule.Load(strings.TrimSuffix(file, ".want") + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			d, err := set.Default()
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(want)) {
				checkLine(t, d, strings.TrimSpace(line))
			}
		})
	}
}

func checkLine(t *testing.T, d *rule.Domain, line string) {
	t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	if verb == "same" || verb == "differ" {
		list, _ := cutDescriptors(rest)
		a, b := entryCounter(t, d, list[0]), entryCounter(t, d, list[1])
		if (a == b) != (verb == "same") {
			t.Errorf("%s: the counters are %s and %s", line, a, b)
		}
		return
	}
	if strings.HasPrefix(line, "[") {
		list, want := cutDescriptors(line)
		if got := described(d, list...); got != want {
			t.Errorf("%v match %q, want %q", list, got, want)
		}
		return
	}
	req := request{}
	for _, e := range entries(verb) {
		req[e.Key] = e.Value
	}
	if got := matched(d, req); got != rest {
		t.Errorf("Match(%v) = %q, want %q", req, got, rest)
	}
}

// cutDescriptors splits "[a] [b] rest".
func cutDescriptors(line string) (list []string, rest string) {
	for strings.HasPrefix(line, "[") {
		var d string
		d, line, _ = strings.Cut(line[1:], "]")
		list = append(list, d)
		line = strings.TrimPrefix(line, " ")
	}
	return list, line
}
