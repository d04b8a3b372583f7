package serve

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/identity"
)

// requestLines gives the lines of the request log.
func (f *fixture) requestLines() (lines []string) {
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "msg=request ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestRequestLog(t *testing.T) {
	cleanEnvironment(t)
	f := start(t, perAddress, Config{RequestLog: RequestLog{Which: LogAll}}, Deps{})
	c := client(t, "127.0.0.1")
	f.ask(c, http.MethodGet, "/a/../b//c?token=t", "X-API-Key", "k-secret", "Traceparent", traceparent).want(t, "the first", http.StatusOK)
	f.ask(c, http.MethodDelete, "/x").want(t, "the second", http.StatusTooManyRequests)
	f.ask(c, http.MethodGet, "/healthz").want(t, "a probe", http.StatusOK)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	lines := f.requestLines()
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3: %q", len(lines), lines)
	}
	hash := func(v string) string { return `"#` + identity.HashKey(v).String()[:12] + `"` }
	host := f.front.ln.Addr().String()
	for i, want := range [][]string{
		{"level=INFO", "method=GET", "host=" + host, "path=/b/c ", "status=200", "outcome=allowed", "domain=shop", "rule=per_address", "seconds=0.",
			"remote_address=" + hash("127.0.0.1"), "api_key=" + hash("k-secret"), "trace_id=" + traceID},
		{"method=DELETE", "path=/x ", "status=429", "outcome=denied", "rule=per_address"},
		{"path=/healthz ", "status=200", "outcome=unlimited"},
	} {
		for _, w := range want {
			w = strings.ReplaceAll(w, `"`, "")
			if !strings.Contains(strings.ReplaceAll(lines[i], `"`, ""), w) {
				t.Errorf("line %d = %s\nwant %s in it", i+1, lines[i], w)
			}
		}
	}
	if strings.Contains(lines[1], "trace_id") || strings.Contains(lines[1], "api_key") {
		t.Errorf("line 2 = %s, want neither a trace nor a key: there are none", lines[1])
	}
}

// TestRequestLogOfDenials holds what the limiter did not let pass, and nothing else,
// also where a limit is in shadow mode.
func TestRequestLogOfDenials(t *testing.T) {
	shadow := `- key: path
  shadow_mode: true
  rate_limit: {name: per_path, unit: hour, requests_per_unit: 1}
`
	f := start(t, perAddress+shadow, Config{ShowKeys: true, RequestLog: RequestLog{Which: LogDenied}}, Deps{})
	for i, from := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.2"} {
		want := http.StatusOK
		if i == 2 {
			want = http.StatusTooManyRequests
		}
		f.ask(client(t, from), http.MethodGet, "/").want(t, from, want)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	lines := f.requestLines()
	if len(lines) != 1 || !strings.Contains(lines[0], "outcome=denied") || !strings.Contains(lines[0], "remote_address=127.0.0.2") {
		t.Errorf("lines = %q, want that of the denial, with the address in the clear", lines)
	}
}

// TestRequestLogIsOff by default.
func TestRequestLogIsOff(t *testing.T) {
	f := start(t, perAddress, Config{}, Deps{})
	f.ask(client(t, "127.0.0.1"), http.MethodGet, "/").want(t, "a request", http.StatusOK)
	if f.requestLog != nil || len(f.requestLines()) > 0 {
		t.Errorf("lines = %q, want none", f.requestLines())
	}
}

// TestRequestLogIsBounded: a flood makes no flood of lines, and the next line says
// what is missing.
func TestRequestLogIsBounded(t *testing.T) {
	l := &requestLog{RequestLog: RequestLog{Rate: 2}}
	written := 0
	for range 10 {
		if _, ok := l.admit(7); ok {
			written++
		}
	}
	if left, ok := l.admit(8); written != 2 || !ok || left != 8 {
		t.Errorf("%d lines of 10 in a second, then (%d, %t); want 2, then (8, true)", written, left, ok)
	}
	if left, ok := l.admit(8); !ok || left != 0 {
		t.Errorf("the line after = (%d, %t), want (0, true): what is missing is told once", left, ok)
	}
}

func TestRequestLogIsSampled(t *testing.T) {
	var text bytes.Buffer
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := &requestLog{RequestLog: RequestLog{Which: LogAll, Sample: 0.5, Rate: 1 << 20}, who: who, log: slog.New(slog.NewTextHandler(&text, nil))}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:1"
	for range 2000 {
		l.write(r, new(seen), 0)
	}
	if n := strings.Count(text.String(), "\n"); n < 600 || n > 1400 { // 18 standard deviations
		t.Errorf("%d lines of 2000 at a share of a half", n)
	}
}

func TestRequestLogSettingsAreChecked(t *testing.T) {
	for _, l := range []RequestLog{{Which: "some"}, {Sample: -1}, {Sample: 1.5}, {Rate: -1}} {
		if l.check() == nil {
			t.Errorf("%+v is taken, want an error", l)
		}
	}
	for _, l := range []RequestLog{{}, {Which: Off}, {Which: LogAll, Sample: 1, Rate: 1}} {
		if err := l.check(); err != nil {
			t.Errorf("%+v = %v, want none", l, err)
		}
	}
}

// The secrets of TestLogsHoldNoSecrets.
const (
	secretKey      = "k-3b1f-secret"
	secretJWT      = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtYWxsb3J5In0.c2lnbmF0dXJl"
	secretCookie   = "session-7731"
	secretQuery    = "reset-9915"
	secretPassword = "pw-redis-4477"
	secretBasic    = "dXNlcjpwYXNz"
	secretAddress  = "203.0.113.77"
	secretIPv6     = "2001:db8:77::1"
)

// TestLogsHoldNoSecrets: a busy run with a store that cannot be reached, upstreams that
// fail, bad requests and every line of log there is.
func TestLogsHoldNoSecrets(t *testing.T) {
	cleanEnvironment(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:"+secretPassword+"@"+deadAddress(t))
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization="+secretBasic+",broken%zz="+secretCookie)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	f := &fixture{t: t, log: new(logs)}
	c := Config{Rules: []string{writeRules(t, strings.Replace(perAddress, "requests_per_unit: 1", "requests_per_unit: 2", 1))},
		Upstream: upstream(t, http.HandlerFunc(brokenUpstream)), Listen: "127.0.0.1:0", HTTPListen: []string{"127.0.0.1:0"}, AdminListen: "127.0.0.1:0",
		Store: "redis://caudal:" + secretPassword + "@" + deadAddress(t) + "/0", TrustedProxies: localNetworks(), BearerAPIKey: true,
		RequestLog: RequestLog{Which: LogAll, Rate: 1 << 20}}
	var err error
	f.Server, err = Start(c, Deps{Logger: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	clear := client(t, "127.0.0.1")
	for _, address := range []string{secretAddress, secretIPv6, "not an address " + secretCookie} {
		for _, credentials := range []string{"Bearer " + secretJWT, "Basic " + secretBasic} {
			for _, path := range []string{"/", "/fails", "/cut", "/..%2fx"} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.Addr()+path+"?token="+secretQuery, strings.NewReader(secretCookie))
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range map[string]string{"X-API-Key": secretKey, "Authorization": credentials, "Cookie": "session=" + secretCookie,
					"X-Forwarded-For": address, "Forwarded": "for=" + secretAddress, "Traceparent": secretKey, "Tracestate": secretKey} {
					r.Header.Set(name, value)
				}
				if res, err := clear.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}
		}
	}
	api := "http://" + f.APIAddrs()[0]
	do(t, clear, http.MethodGet, api+"/v1/authorize", "X-Forwarded-Uri", "/x?token="+secretQuery, "X-Forwarded-For", secretAddress, "X-API-Key", secretKey)
	do(t, clear, http.MethodGet, api+"/v1/authorize", "Authorization", secretBasic)
	f.askAPI("/v1/check", `{"attributes": {"remote_address": "`+secretAddress+`", "api_key": "`+secretKey+`", "`+secretCookie+`": 1}}`)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if n := len(f.requestLines()); n != 24 {
		t.Errorf("%d lines of the request log, want 24: nothing was looked at", n)
	}
	for _, line := range []string{"the store is slow or gone", "upstream failed", "outcome=allowed", "outcome=denied", "traces cannot be sent"} {
		if !strings.Contains(f.log.String(), line) {
			t.Errorf("the log has no line %q: it was not as busy as it should be\n%s", line, f.log)
		}
	}
	wantNoneOf(t, "the log", f.log.String())
}

func wantNoneOf(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range []string{secretKey, secretJWT, strings.Split(secretJWT, ".")[1], secretCookie, secretQuery, secretPassword, secretBasic,
		secretAddress, secretIPv6} {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s holds %q: ...%s", what, secret, text[max(0, i-200):min(len(text), i+100)])
		}
	}
}

// brokenUpstream fails in several ways.
func brokenUpstream(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/fails":
		panic(http.ErrAbortHandler)
	case "/cut":
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "cut")
		panic(http.ErrAbortHandler)
	}
}

// deadAddress gives an address where nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestErrorsOfStoresHoldNoPassword: whatever is wrong with the URL of a store, its
// password is not shown.
func TestErrorsOfStoresHoldNoPassword(t *testing.T) {
	userinfo := "caudal:" + secretPassword + "@"
	for _, url := range []string{
		"redis://" + userinfo, "redis://" + userinfo + "host:port", "redis://" + userinfo + "host:99999/0", "redis://" + userinfo + "host/database",
		"redis://" + userinfo + "ho st", "redis://%zz" + userinfo + "host", "redis://" + userinfo + "host/0?x=%zz", "redis://" + userinfo + "host/0?timeout=" + secretPassword,
		"rediss://" + userinfo + "host/0?ca=/missing", "redis-sentinel://" + userinfo + "host", "redis-cluster://" + userinfo + "host,,",
		"mongo://" + userinfo + "host", "memory://" + userinfo + "host", "redis:" + userinfo, "redis//" + userinfo + "host", userinfo + "host",
	} {
		if err := CheckStore(url); err != nil && strings.Contains(err.Error(), secretPassword) {
			t.Errorf("CheckStore(%q) = %v, which shows the password", url, err)
		}
		config := Config{Limit: "1/s", Upstream: upstream(t, http.NotFoundHandler()), Listen: "127.0.0.1:0", AdminListen: Off, Store: url, StoreTimeout: 1}
		if regexp.MustCompile(`^redis[^/]*://[^%]*host(/0)?$`).MatchString(url) {
			continue // well formed: it would be asked for
		}
		var text logs
		s, err := Start(config, Deps{Logger: slog.New(slog.NewTextHandler(&text, nil))})
		if err == nil {
			_ = s.Close()
		}
		if all := fmt.Sprint(err, text.String()); strings.Contains(all, secretPassword) {
			t.Errorf("Start with store %q: %s, which shows the password", url, all)
		}
	}
}
