package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

const processRules = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 5 }
`

// TestSignalsReloadAndEnd drives the program as a service manager does: SIGHUP
// with good rules, with bad ones, and SIGTERM.
func TestSignalsReloadAndEnd(t *testing.T) {
	server, upstream, err := startEcho()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(processRules)
	p := launch(t, "serve", "--upstream", upstream.String(), "--rules", file)
	address := p.waitFor(t, `msg=listening listener=gateway address=(\S+)`)
	admin := p.waitFor(t, `msg=listening listener=admin address=(\S+)`)
	hangUp := func() {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus := func(url string, want int) {
		t.Helper()
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", url, res.StatusCode, want)
		}
	}

	wantStatus("http://"+address+"/", http.StatusOK)
	wantStatus("http://"+admin+"/readyz", http.StatusOK)
	write(processRules + "    rate_limt: {}\n")
	hangUp()
	p.waitFor(t, `level=ERROR msg="rule error" at=\S*rules\.yaml:5:5 .*rate_limt`)
	wantStatus("http://"+address+"/", http.StatusOK)
	write(processRules + "  - key: path\n    value: /closed\n    rate_limit: { unit: minute, requests_per_unit: 0 }\n")
	hangUp()
	p.waitFor(t, `level=INFO msg="rules reloaded" domain=shop limits=2`)
	wantStatus("http://"+address+"/closed", http.StatusTooManyRequests)
	wantStatus("http://"+address+"/open", http.StatusOK)
	p.end(t)
}
