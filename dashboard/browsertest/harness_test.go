package browsertest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/caudal-dev/caudal/internal/serve"
)

// patience is how long anything may take: machines that test are slow and busy.
const patience = 90 * time.Second

// rules are those of the pages that are looked at.
const rules = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { name: address, unit: minute, requests_per_unit: 60000 }
  - key: api_key
    rate_limit: { name: per-key, unit: hour, requests_per_unit: 3, algorithm: fixed_window }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { name: login, unit: minute, requests_per_unit: 5, algorithm: sliding_log }
  - key: path
    value: /search
    shadow_mode: true
    rate_limit: { name: search, unit: minute, requests_per_unit: 120, burst: 10 }
`

// caudal is a server under test with an upstream behind it.
type caudal struct {
	*serve.Server
	t *testing.T
}

func start(t *testing.T, c serve.Config) *caudal {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(upstream.Close)
	var err error
	if c.Upstream, err = url.Parse(upstream.URL); err != nil {
		t.Fatal(err)
	}
	c.Text, c.TextName, c.Listen, c.AdminListen = rules, "rules.yaml", "127.0.0.1:0", "127.0.0.1:0"
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} // one machine plays many
	server, err := serve.Start(c, serve.Deps{Logger: slog.New(slog.DiscardHandler), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	return &caudal{server, t}
}

// call sends one request as some client.
func (c *caudal) call(path, key, address string) error {
	r, err := http.NewRequest(http.MethodGet, "http://"+c.Addr()+path, nil)
	if err != nil {
		return err
	}
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	r.Header.Set("X-Forwarded-For", address)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// load sends calls of many clients until the test ends.
func (c *caudal) load() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			// One key hammers, others come and go.
			key, path := "greedy", "/items"
			if i%3 > 0 {
				key = fmt.Sprintf("k-%d", i)
			}
			if i%10 == 5 {
				path = "/search"
			}
			if i%40 == 7 {
				path, key = "/login", ""
			}
			if err := c.call(path, key, fmt.Sprintf("203.0.113.%d", 1+i%20)); err != nil && ctx.Err() == nil {
				c.t.Errorf("call: %v", err)
				return
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	c.t.Cleanup(func() { cancel(); wg.Wait() })
}

// page is a tab of the browser. What it must never do fails the test at its end.
type page struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	errors   []string
	expected []string // parts of errors that a test provokes
	requests []string
}

// chromium finds the browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Fatal("no Chromium: scripts/install-deps.sh installs it, or name one in CHROMIUM")
	return ""
}

// open shows the dashboard of a server in a browser of its own.
func open(t *testing.T, c *caudal, width, height int64) *page {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(int(width), int(height)),
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.WSURLReadTimeout(patience),
	}
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it waits for the browser, whose folder goes next
		cancel()
		cancelAllocator()
	})
	p := &page{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, p.hear); err != nil { // it starts the browser
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(width, height), chromedp.Navigate("http://"+c.AdminAddr()+"/"))
	t.Cleanup(func() { p.check(c.AdminAddr()) })
	return p
}

// hear notes what the page asks for, and what goes wrong in it.
func (p *page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, fmt.Sprintf("%+v", e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.errors = append(p.errors, fmt.Sprint(e.Type, " ", e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.errors = append(p.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// check fails the test when the page asked another host, or an error showed.
func (p *page) check(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) < 5 {
		p.t.Errorf("the page asked for %v only: nobody listened", p.requests)
	}
	for _, asked := range p.requests {
		if u, err := url.Parse(asked); err != nil || u.Host != host && u.Scheme != "data" {
			p.t.Errorf("the page asked for %s, which is not on %s", asked, host)
		}
	}
	for _, e := range p.errors {
		if slices.ContainsFunc(p.expected, func(text string) bool { return strings.Contains(e, text) }) {
			continue
		}
		p.t.Errorf("the console says: %s", e)
	}
}

// expects says that a test provokes errors that hold some text.
func (p *page) expects(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, text)
}

// do runs actions, which must succeed in time.
func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("the browser: %v", err)
	}
}

// eval runs JavaScript and gives its value.
func eval[T any](p *page, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](js))
	if err != nil {
		p.t.Fatalf("%.200s: %v", js, err)
	}
	return value
}

// prefers sets the theme that the system asks for.
func (p *page) prefers(theme string) {
	p.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits until an expression is true.
func (p *page) wait(what, js string) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for !eval[bool](p, "Boolean("+js+")") {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s did not come about in %s (%s); the page says:\n%s", what, patience, js, eval[string](p, "document.body.innerText"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}
