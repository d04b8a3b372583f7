package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/dashboard"
)

// operator runs commands against one caudal.
type operator struct {
	t       *testing.T
	environ []string
}

func (o operator) run(want int, args ...string) (out, errs string) {
	o.t.Helper()
	var stdout, stderr bytes.Buffer
	if got := Main(args, Streams{Out: &stdout, Err: &stderr, Environ: o.environ, Version: "test"}); got != want {
		o.t.Errorf("caudal %s exits with %d, want %d: %s", strings.Join(args, " "), got, want, stderr.String())
	}
	return stdout.String(), stderr.String()
}

func (o operator) says(want string, args ...string) {
	o.t.Helper()
	if out, _ := o.run(exitFine, args...); !strings.Contains(out, want) {
		o.t.Errorf("caudal %s prints\n%s\nwant %q in it", strings.Join(args, " "), out, want)
	}
}

// TestOperatorsCommands drives a program with a token by the commands of operators.
func TestOperatorsCommands(t *testing.T) {
	server, upstream, err := startEcho()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	file, token := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "token")
	for name, text := range map[string]string{
		file:  "domain: shop\ndescriptors:\n  - key: api_key\n    rate_limit: { name: per-key, unit: hour, requests_per_unit: 2, algorithm: fixed_window }\n    concurrency: { max: 5 }\n",
		token: "0123456789abcdef0123\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := launch(t, "serve", "--upstream", upstream.String(), "--rules", file, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--admin-token-file", token)
	gateway := p.waitFor(t, `msg=listening listener=gateway address=(\S+)`)
	admin := p.waitFor(t, `msg=listening listener=admin address=(\S+)`)
	call := func(want int) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+gateway+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", "k-1")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("call = %d, want %d", res.StatusCode, want)
		}
	}
	o := operator{t, []string{adminEnv + "=" + admin, adminTokenEnv + "=" + token}}
	call(200)
	call(200)
	call(429)
	o.says("denies: used up: 2 of 2; a call passes in", "status", "--key", "api_key=k-1")
	o.says("USED", "status", "--key", "api_key=k-1", "--refund", "1")
	call(200)
	o.says("passes", "status", "--key", "api_key=k-1", "--reset", "--rule", "per-key")
	call(200)
	o.says("api_key=sha256:", "block", "api_key=k-1", "--for", "15m")
	call(429)
	o.says("1 client blocked by hand", "status")
	o.says("blocked by hand by its api_key", "status", "--key", "api_key=k-1")
	o.says("enforcement is off until", "enforcement", "off", "--for", "1h")
	call(200)
	o.says("enforcement is off", "status")
	o.says("enforcement is on", "enforcement", "on")
	o.says("enforcement is on", "enforcement")
	call(429)
	out, _ := o.run(exitFine, "status")
	if !strings.Contains(out, "api_key=#") || !strings.Contains(out, "\n# begins the hash of a value: caudal hash VALUE prints one") {
		t.Errorf("status prints\n%s\nwant the most denied keys as hashes, and what these are", out)
	}
	for _, want := range []string{", 2 limits\n", "\nAT ONCE ", "\napi_key concurrency  5 at once, lease 1m0s "} {
		if !strings.Contains(out, want) {
			t.Errorf("status prints\n%s\nwant %q in it: the limit of calls under way", out, want)
		}
	}
	o.says("nobody is blocked", "unblock", "api_key=k-1")
	in := time.Now()
	out, _ = o.run(exitFine, "block", "user=eve", "--for", "7d12h", "--json")
	var blocks struct{ Blocks []struct{ Until time.Time } }
	if err := json.Unmarshal([]byte(out), &blocks); err != nil || len(blocks.Blocks) != 1 || blocks.Blocks[0].Until.Sub(in) < 180*time.Hour-time.Minute || blocks.Blocks[0].Until.Sub(in) > 181*time.Hour {
		t.Errorf("block --for 7d12h --json = %s, %v, want an end in 180 hours", out, err)
	}
	out, _ = o.run(exitFine, "status", "--json")
	var shot dashboard.Snapshot
	if err := json.Unmarshal([]byte(out), &shot); err != nil || len(shot.Rules) != 1 || shot.Rules[0].Words == "" {
		t.Errorf("status --json = %s, %v, want a snapshot with its rule", out, err)
	}

	stranger := operator{t, []string{adminEnv + "=" + admin}}
	for _, args := range [][]string{{"status"}, {"block", "user=eve", "--for", "1m"}, {"block"}, {"enforcement", "off"}, {"status", "--key", "user=eve"}} {
		if _, errs := stranger.run(exitFailed, args...); !strings.Contains(errs, "needs the admin token") {
			t.Errorf("caudal %v without the token says %q", args, errs)
		}
	}
}

func TestOperatorsMistakes(t *testing.T) {
	o := operator{t, []string{adminEnv + "=127.0.0.1:1"}}
	for _, args := range [][]string{{"block", "eve", "--for", "1m"}, {"block", "user=eve"}, {"block", "--for", "1m"}, {"block", "a=b", "c=d"},
		{"unblock"}, {"enforcement", "maybe"}, {"enforcement", "on", "--for", "1h"}, {"status", "--reset"}, {"status", "--key", "a=b", "--descriptor", "a=b"},
		{"status", "--key", "a=b", "--rule", "x"}, {"status", "extra"}} {
		if _, errs := o.run(exitUsage, args...); !strings.Contains(errs, "hint: ") {
			t.Errorf("caudal %v says %q, want a hint", args, errs)
		}
	}
	for _, text := range []string{"1", "d", "7dd", "-1h", "-7d", "1.5d", "99999d", "7d1"} {
		if _, errs := o.run(exitUsage, "block", "user=eve", "--for", text); !strings.Contains(errs, "is no time: write it like 15m, 24h or 7d") {
			t.Errorf("caudal block --for %s says %q, want how to write it", text, errs)
		}
	}
	if _, errs := o.run(exitFailed, "status"); !strings.Contains(errs, "no caudal answers at 127.0.0.1:1") {
		t.Errorf("status of nobody says %q", errs)
	}
}
