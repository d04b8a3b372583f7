package serve

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const dailyQuota = `domain: shop
algorithm: fixed_window
descriptors:
  - key: api_key
    rate_limit: { unit: day, requests_per_unit: 3 }
`

// spend asks n times with one key and gives how many calls passed.
func (f *fixture) spend(n int) (passed int) {
	f.t.Helper()
	c := client(f.t, "127.0.0.1")
	for range n {
		if f.ask(c, http.MethodGet, "/", "X-API-Key", "k").status == http.StatusOK {
			passed++
		}
	}
	return passed
}

// TestAQuotaSurvivesARestart, and without a state file it does not.
func TestAQuotaSurvivesARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	for _, c := range []struct {
		file  string
		again int
	}{{file, 1}, {"", 3}} {
		first := start(t, dailyQuota, Config{StateFile: c.file}, Deps{})
		if n := first.spend(2); n != 2 {
			t.Fatalf("%d of 2 calls passed", n)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		second := start(t, dailyQuota, Config{StateFile: c.file}, Deps{})
		if n := second.spend(5); n != c.again {
			t.Errorf("state file %q: after the restart %d calls passed, want %d", c.file, n, c.again)
		}
		if got := second.counts("caudal_state_errors_total 0"); got != (c.file != "") {
			t.Errorf("state file %q: the metrics of a state file are there: %v", c.file, got)
		}
	}
}

// TestADamagedStateFileIsKeptAndTold: the gateway starts all the same.
func TestADamagedStateFileIsKeptAndTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(file, []byte(strings.Repeat("damaged ", 50)), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, dailyQuota, Config{StateFile: file}, Deps{})
	if n := f.spend(5); n != 3 {
		t.Errorf("%d calls passed, want 3", n)
	}
	f.wantCount("caudal_state_errors_total 1")
	kept, err := filepath.Glob(file + ".damaged-*")
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept files: %v, %v, want one", kept, err)
	}
	if text := f.log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, kept[0]) {
		t.Errorf("the log does not say where the file is kept:\n%s", text)
	}
}

func TestStateFilesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	used := start(t, dailyQuota, Config{StateFile: filepath.Join(dir, "used")}, Deps{})
	for name, c := range map[string]Config{
		"state_file: state file " + used.config.StateFile + ": another process uses it": {StateFile: used.config.StateFile},
		"no such file": {StateFile: filepath.Join(dir, "no", "state")},
		"state_file is for what is counted in memory": {StateFile: filepath.Join(dir, "x"), Store: "redis://127.0.0.1:1"},
	} {
		c.Upstream, c.Rules = used.config.Upstream, used.config.Rules
		c.Listen, c.AdminListen = "127.0.0.1:0", Off
		s, err := Start(c, Deps{Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Start = %v, want an error with %q", err, name)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}
