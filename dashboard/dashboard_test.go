package dashboard

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// TestPageAsksNoOtherHost looks for addresses in all that is served, and for scripts
// in the page itself, which its policy forbids.
func TestPageAsksNoOtherHost(t *testing.T) {
	address := regexp.MustCompile(`(?:src|href|url\(|import|fetch\()\s*[=(]?\s*["'(]?(?:https?:)?//`)
	err := fs.WalkDir(files, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if found := address.Find(text); found != nil {
			t.Errorf("%s asks another host: %s", name, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page := get(t, "/").Body.String()
	if regexp.MustCompile(`<script>|<style| style=| on[a-z]+=`).MatchString(page) {
		t.Error("the page holds scripts or styles, which its policy forbids")
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/dashboard/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		w := get(t, m[1])
		if w.Code != http.StatusOK || w.Header().Get("Content-Security-Policy") != policy || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s = %d, %v", m[1], w.Code, w.Header())
		}
	}
}

func TestHandlerServesNothingElse(t *testing.T) {
	for path, want := range map[string]int{"/": 200, "/dashboard/page.js": 200, "/dashboard/uplot/LICENSE": 200, "/dashboard/": 404,
		"/dashboard/handler.go": 404, "/dashboard/uplot/": 404, "/page/index.html": 404} {
		if got := get(t, path).Code; got != want {
			t.Errorf("GET %s = %d, want %d", path, got, want)
		}
	}
}

// TestPageReadsWhatSnapshotsHave looks for the fields that the page's script uses.
func TestPageReadsWhatSnapshotsHave(t *testing.T) {
	text, err := json.Marshal(Snapshot{Rules: []Rule{{}}, Offenders: []Offender{{}}, Concurrencies: []Concurrency{{}}, Store: Store{Instances: 1},
		State: State{Why: "x"}, Version: "x", Enforcement: Enforcement{DryRun: true}, Config: Config{Refused: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	script, err := fs.ReadFile(files, "page/page.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\bs\.([a-z_]+)(?:\.([a-z_0-9]+))?`).FindAllStringSubmatch(string(script), -1) {
		if !strings.Contains(string(text), `"`+m[1]+`":`) {
			t.Errorf("page.js reads %s, which a snapshot does not have", m[0])
		}
	}
}

// TestPageShowsCallsUnderWay: the table is named to those who hear it, and each of
// its rows has a cell for each heading and only what a snapshot has.
func TestPageShowsCallsUnderWay(t *testing.T) {
	table := regexp.MustCompile(`(?s)<table id="at-once".*?</table>`).FindString(get(t, "/").Body.String())
	if !strings.Contains(table, `role="table" aria-labelledby="at-once-title"`) {
		t.Errorf("the table has no role or no name: %s", table)
	}
	headings := strings.Count(table, `<th role="columnheader" scope="col"`)
	script := get(t, "/dashboard/page.js").Body.String()
	body := regexp.MustCompile(`(?s)function showAtOnce\(.*?\n}`).FindString(script)
	if last := strings.Count(body, "tr.cells["); headings != 4 || last != 2 || !strings.Contains(script, "showAtOnce(s.concurrencies") {
		t.Errorf("%d headings, and the script fills %d cells with numbers, want 4 and 2", headings, last)
	}
	text, err := json.Marshal(Concurrency{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\bc\.([a-z_]+)`).FindAllStringSubmatch(body, -1) {
		if !strings.Contains(string(text), `"`+m[1]+`":`) {
			t.Errorf("page.js reads %s, which a limit of calls under way does not have", m[0])
		}
	}
}
