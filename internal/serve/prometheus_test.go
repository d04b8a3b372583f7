package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

const deployed = "../../deploy"

// need skips a test where a program of Debian's package prometheus is missing.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed: scripts/install-deps.sh installs it", program)
	}
	return path
}

func promtool(t *testing.T, stdin io.Reader, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need(t, "promtool"), args...)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s = %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolPassesMetrics(t *testing.T) {
	f := start(t, limited, Config{}, Deps{})
	f.ask(client(t, "127.0.0.1"), http.MethodGet, "/")
	promtool(t, strings.NewReader(f.readAdmin("/metrics").body), "check", "metrics")
}

func TestPromtoolPassesAlerts(t *testing.T) {
	dir := filepath.Join(deployed, "prometheus")
	promtool(t, nil, "check", "rules", filepath.Join(dir, "alerts.yaml"))
	promtool(t, nil, "test", "rules", filepath.Join(dir, "alerts_test.yaml"))
	promtool(t, nil, "check", "config", filepath.Join(dir, "prometheus.yaml"))
}

const limited = `
domain: shop
descriptors:
  - key: header:X-Key
    rate_limit: { name: by-key, unit: hour, requests_per_unit: 3 }
`

// prometheus runs one that scrapes a server again and again, with the alerts that
// are shipped, and gives its address.
func prometheus(t *testing.T, target string) string {
	t.Helper()
	program := need(t, "prometheus")
	dir := t.TempDir()
	alerts, err := filepath.Abs(filepath.Join(deployed, "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [%q]
scrape_configs:
  - job_name: caudal
    static_configs: [{ targets: [%q] }]
`, alerts, target)
	file := filepath.Join(dir, "prometheus.yaml")
	rewrite(t, file, config)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close() // the port is free for the moment that it takes to start
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return address
}

// soon waits for something that takes a while on a busy machine.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within a minute", what)
}

// query asks a Prometheus; it reports false while there is no answer.
func query(t *testing.T, address, path string, into any) bool {
	t.Helper()
	res, err := http.Get("http://" + address + path)
	if err != nil {
		return false // it is starting
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false
	}
	answer := struct{ Data any }{into}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatalf("%s = %v", path, err)
	}
	return true
}

// TestPrometheusScrapes: a real Prometheus counts what was decided, and every
// alert that is shipped can be evaluated.
func TestPrometheusScrapes(t *testing.T) {
	f := start(t, limited, Config{}, Deps{})
	address := prometheus(t, f.AdminAddr())
	defer http.DefaultClient.CloseIdleConnections()
	for range 5 {
		f.ask(client(t, "127.0.0.1"), http.MethodGet, "/", "X-Key", "k")
	}
	type vector struct {
		Result []struct{ Value [2]any }
	}
	value := func(expr string) string {
		var v vector
		if !query(t, address, "/api/v1/query?query="+url.QueryEscape(expr), &v) || len(v.Result) != 1 {
			return ""
		}
		return fmt.Sprint(v.Result[0].Value[1])
	}
	for expr, want := range map[string]string{
		`caudal_decisions_total{domain="shop",rule="by-key",outcome="allowed"}`: "3",
		`caudal_decisions_total{domain="shop",rule="by-key",outcome="denied"}`:  "2",
		`sum(caudal_decision_duration_seconds_bucket{le="+Inf"}) >= bool 0`:     "1",
		`caudal_degraded`:                 "0",
		`caudal_config_last_load_success`: "1",
		`caudal_likely_false_positives_total{rule="by-key",kind="barely_over"}`: "1",
	} {
		soon(t, expr+" = "+want, func() bool { return value(expr) == want })
	}

	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	soon(t, "rules that are evaluated", func() bool {
		if !query(t, address, "/api/v1/rules", &rules) || len(rules.Groups) == 0 {
			return false
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if r.Health == "err" {
					t.Fatalf("rule %s: %s", r.Name, r.LastError)
				}
				if r.Health != "ok" {
					return false
				}
			}
		}
		return true
	})
}

var (
	metricName = regexp.MustCompile(`\b(?:caudal|process|go)_[a-z_]+`)
	suffix     = regexp.MustCompile(`_bucket$`)
)

// TestDashboardAndAlertsNameMetricsThatExist reads every expression that is
// shipped, and every alert must be explained.
func TestDashboardAndAlertsNameMetricsThatExist(t *testing.T) {
	operating, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	known := string(operating) + " process_cpu_seconds_total process_resident_memory_bytes"
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(deployed, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	alerts, board := read("prometheus/alerts.yaml"), read("grafana/caudal.json")
	for _, name := range metricName.FindAllString(alerts+board, -1) {
		if !strings.Contains(known, "`"+suffix.ReplaceAllString(name, "")) && !strings.Contains(known, " "+name) {
			t.Errorf("%s is used in deploy/ and stands not in docs/operating.md", name)
		}
	}
	names := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1)
	if len(names) < 8 {
		t.Fatalf("found %d alerts: the search is broken", len(names))
	}
	for _, name := range names {
		if !strings.Contains(string(operating), "\n### "+name[1]+"\n") {
			t.Errorf("docs/operating.md has no section on the alert %s", name[1])
		}
		if !strings.Contains(alerts, "runbook: docs/operating.md#"+strings.ToLower(name[1])+"\n") {
			t.Errorf("the alert %s does not lead to its section", name[1])
		}
	}
}

func TestDashboardIsWhole(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deployed, "grafana", "caudal.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		UID    string
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 {
			t.Errorf("panel %d %q: an id of its own, a title and a place are needed", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
	}
	// Grafana puts its variables in; promtool reads what is left.
	dir := t.TempDir()
	var rules strings.Builder
	rules.WriteString("groups:\n- name: panels\n  rules:\n")
	for i, p := range board.Panels {
		for k, target := range p.Targets {
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			fmt.Fprintf(&rules, "  - {record: \"panel%d:target%d\", expr: %q}\n", i, k, expr)
		}
	}
	file := filepath.Join(dir, "rules.yaml")
	rewrite(t, file, rules.String())
	promtool(t, nil, "check", "rules", file)
}
