package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caudal-dev/caudal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock stands still until it is moved, in the middle of a minute.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, 3, 4, 10, 5, 30, 0, time.UTC)}
}

func (c *clock) Now() caudal.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return caudal.At(c.now)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// logs is a log that tests can read while it is written.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// fixture is a server in front of an upstream that answers 200.
type fixture struct {
	*Server
	t     *testing.T
	clock *clock
	log   *logs
}

func localNetworks() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// start runs a server on free ports. Rules are written to a file, unless the
// config names some source itself.
func start(t *testing.T, rules string, c Config, deps Deps) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: newClock(), log: new(logs)}
	if !c.HasGateway() {
		c.Upstream = upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}))
	}
	if rules != "" {
		c.Rules = []string{writeRules(t, rules)}
	}
	c.Listen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	deps.Logger = slog.New(slog.NewTextHandler(f.log, nil))
	if deps.Clock == nil {
		deps.Clock = f.clock
	}
	var err error
	if f.Server, err = Start(c, deps); err != nil {
		t.Fatalf("Start = %v", err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return f
}

func upstream(t *testing.T, h http.Handler) *url.URL {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func writeRules(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	rewrite(t, file, text)
	return file
}

func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	body   string
}

// client gives a client that asks from an address of this machine, with
// connections of its own.
func client(t *testing.T, from string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (f *fixture) ask(c *http.Client, method, path string, headers ...string) answer {
	f.t.Helper()
	return do(f.t, c, method, "http://"+f.Addr()+path, headers...)
}

func (f *fixture) readAdmin(path string) answer {
	f.t.Helper()
	return do(f.t, client(f.t, "127.0.0.1"), http.MethodGet, "http://"+f.AdminAddr()+path)
}

// do asks; headers are name, value, name, value.
func do(t *testing.T, c *http.Client, method, url string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return send(t, c, r)
}

// send sends a request and reads the answer.
func send(t *testing.T, c *http.Client, r *http.Request) answer {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatalf("%s %s = %v", r.Method, r.URL, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

func (a answer) want(t *testing.T, what string, status int, headers ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s = %d, want %d; body %s", what, a.status, status, a.body)
	}
	for i := 0; i < len(headers); i += 2 {
		if got := a.header.Get(headers[i]); got != headers[i+1] {
			t.Errorf("%s: %s = %q, want %q", what, headers[i], got, headers[i+1])
		}
	}
}

// counts reports whether the metrics have a line.
func (f *fixture) counts(line string) bool {
	return strings.Contains("\n"+f.readAdmin("/metrics").body, "\n"+line+"\n")
}

func (f *fixture) wantCount(line string) {
	f.t.Helper()
	if !f.counts(line) {
		var near []string
		for _, l := range strings.Split(f.readAdmin("/metrics").body, "\n") {
			if strings.HasPrefix(l, "caudal_decisions") || strings.HasPrefix(l, "caudal_config") || strings.HasPrefix(l, "caudal_store") {
				near = append(near, l)
			}
		}
		f.t.Errorf("metrics have no line\n%s\nthey have\n%s", line, strings.Join(near, "\n"))
	}
}
