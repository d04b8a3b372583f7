package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

func TestReloadKeepsCounts(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	c := client(t, "127.0.0.1")
	for range 5 {
		f.ask(c, http.MethodPost, "/login")
	}
	before := f.rules.Load().hash

	// The same rules in another order, and one number changed.
	rewrite(t, f.config.Rules[0], strings.Replace(shopRules, "requests_per_unit: 100", "requests_per_unit: 50", 1))
	if err := f.Reload(); err != nil {
		t.Fatalf("Reload = %v", err)
	}
	f.ask(c, http.MethodPost, "/login").want(t, "the 6th POST /login, after a reload", http.StatusTooManyRequests)
	f.ask(c, http.MethodGet, "/").want(t, "GET after the reload", http.StatusOK,
		"X-RateLimit-Limit", "50", "X-RateLimit-Remaining", "44") // 5 of the new 50 were consumed before
	f.wantCount(`caudal_decisions_total{domain="shop",outcome="allowed",rule="login"} 5`)
	f.wantCount(`caudal_config_loads_total{result="success"} 2`)
	if after := f.rules.Load().hash; after == before || !f.counts(fmt.Sprintf("caudal_config_info{hash=%q} 1", after)) {
		t.Errorf("hash after a reload of other rules = %s (before %s), or the metrics do not show it", after, before)
	}
}

func TestReloadDropsTheSeriesOfRulesThatAreGone(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	rewrite(t, f.config.Rules[0], publicAPI)
	if err := f.Reload(); err != nil {
		t.Fatalf("Reload = %v", err)
	}
	f.wantCount(`caudal_decisions_total{domain="public-api",outcome="denied",rule="path=/login"} 0`)
	if body := f.readAdmin("/metrics").body; strings.Contains(body, `domain="shop"`) {
		t.Errorf("metrics after a reload still hold domain shop")
	}
}

func TestBadReloadKeepsTheLastGoodRules(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	c := client(t, "127.0.0.1")
	good := f.rules.Load().hash
	rewrite(t, f.config.Rules[0], strings.Replace(shopRules, "unit: minute", "unit: fortnight", 1))
	var errs rule.Errors
	if err := f.Reload(); !errors.As(err, &errs) {
		t.Fatalf("Reload of a bad file = %v, want rule.Errors", err)
	}
	for range 5 {
		f.ask(c, http.MethodPost, "/login").want(t, "POST /login", http.StatusOK)
	}
	f.ask(c, http.MethodPost, "/login").want(t, "the 6th POST /login", http.StatusTooManyRequests)
	f.wantCount(`caudal_config_loads_total{result="failure"} 1`)
	f.wantCount(fmt.Sprintf("caudal_config_info{hash=%q} 1", good))
	if log := f.log.String(); !strings.Contains(log, "rules not reloaded") || !strings.Contains(log, "rules.yaml:5:") || !strings.Contains(log, "fortnight") {
		t.Errorf("the log does not say what is wrong and where:\n%s", log)
	}
	var h health
	if err := json.Unmarshal([]byte(f.readAdmin("/healthz").body), &h); err != nil || h.Reload == nil || h.Reload.OK || !strings.Contains(h.Reload.Error, "fortnight") {
		t.Errorf("/healthz after a bad reload = %+v, %v, want last_reload with its error", h.Reload, err)
	}
	rewrite(t, f.config.Rules[0], shopRules)
	if err := f.Reload(); err != nil {
		t.Errorf("Reload of the mended file = %v", err)
	}
}

// TestEmptiedFileTakesNoRulesAway: a file that a full disk cut to nothing is no wish
// to be rid of its limits; one that was removed is.
func TestEmptiedFileTakesNoRulesAway(t *testing.T) {
	dir := t.TempDir()
	shop, second := filepath.Join(dir, "shop.yaml"), filepath.Join(dir, "second.yaml")
	rewrite(t, shop, shopRules)
	rewrite(t, second, "domain: second\ndescriptors:\n- {key: path, rate_limit: {unit: minute, requests_per_unit: 3}}\n")
	f := start(t, "", Config{Rules: []string{dir}, Domain: "shop"}, Deps{})
	rewrite(t, second, "")
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "second.yaml") {
		t.Errorf("Reload with an emptied file = %v, want an error that names it", err)
	}
	if _, ok := f.rules.Load().set.Domain("second"); !ok {
		t.Error("the limits of a file that was emptied are gone, want them in force")
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err != nil {
		t.Errorf("Reload without the file = %v, want nil", err)
	}
	if _, ok := f.rules.Load().set.Domain("second"); ok {
		t.Error("the limits of a file that was removed are in force, want them gone")
	}
}

// TestRunReloadsAndEnds drives Run as signals do.
func TestRunReloadsAndEnds(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	ctx, cancel := context.WithCancel(t.Context())
	hangup, ended := make(chan os.Signal), make(chan error, 1)
	go func() { ended <- f.Run(ctx, hangup) }()
	rewrite(t, f.config.Rules[0], publicAPI)
	hangup <- syscall.SIGHUP
	hangup <- syscall.SIGHUP // taken only when the first is done
	f.wantCount(`caudal_decisions_total{domain="public-api",outcome="allowed",rule="api_key"} 0`)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v after its context ended, want nil", err)
	}
	if _, err := net.Dial("tcp", f.Addr()); err == nil {
		t.Error("the gateway still accepts after Run")
	}
}

const queueRules = `
domain: legacy
descriptors:
  - key: path
    value: /legacy
    rate_limit: { name: queue, unit: %s, requests_per_unit: %d, algorithm: leaky_bucket, queue: 5 }
`

// watched tells what a store was asked.
type watched struct {
	caudal.Store
	taken chan struct{}
	given chan caudal.Refund
}

func newWatched() *watched {
	return &watched{taken: make(chan struct{}, 10), given: make(chan caudal.Refund, 10)}
}

func (s *watched) wrap(store caudal.Store) caudal.Store {
	s.Store = store
	return s
}

func (s *watched) Take(ctx context.Context, at caudal.Instant, calls []caudal.Call, out []caudal.Decision) error {
	err := s.Store.Take(ctx, at, calls, out)
	s.taken <- struct{}{}
	return err
}

func (s *watched) Refund(ctx context.Context, at caudal.Instant, list []caudal.Refund) error {
	for _, r := range list {
		s.given <- r
	}
	return s.Store.(caudal.Refunder).Refund(ctx, at, list)
}

// holdOne sends two calls, of which the second is held, and gives the channel on
// which its answer comes.
func holdOne(t *testing.T, f *fixture, s *watched) <-chan answer {
	t.Helper()
	c := client(t, "127.0.0.1")
	f.ask(c, http.MethodGet, "/legacy").want(t, "the first call", http.StatusOK)
	held := make(chan answer, 1)
	go func() { held <- f.ask(c, http.MethodGet, "/legacy") }()
	<-s.taken
	<-s.taken // the second call has its turn
	return held
}

func TestShutdownLetsAHeldCallFinish(t *testing.T) {
	s := newWatched()
	f := start(t, fmt.Sprintf(queueRules, "second", 2), Config{}, Deps{WrapStore: s.wrap})
	held := holdOne(t, f, s)
	if err := f.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	(<-held).want(t, "the call that was held while the server drained", http.StatusOK)
	if len(s.given) != 0 {
		t.Errorf("given back = %+v, want nothing: the call had its turn", <-s.given)
	}
}

// During the shutdown delay the server says that it is not ready, and takes new calls
// all the same.
func TestShutdownDelayStillTakesCalls(t *testing.T) {
	f := start(t, shopRules, Config{ShutdownDelay: time.Hour}, Deps{})
	c := client(t, "127.0.0.1")
	begun, over := make(chan time.Duration), make(chan struct{})
	f.pause = func(d time.Duration) {
		begun <- d
		<-over
	}
	addr, closed := f.Addr(), make(chan error, 1)
	go func() { closed <- f.Close() }()
	if d := <-begun; d != time.Hour {
		t.Errorf("the delay is %s, want the hour that was configured", d)
	}
	f.readAdmin("/readyz").want(t, "/readyz during the shutdown delay", http.StatusServiceUnavailable)
	f.ask(c, http.MethodGet, "/").want(t, "a new call during the shutdown delay", http.StatusOK)
	close(over)
	if err := <-closed; err != nil {
		t.Errorf("Close = %v", err)
	}
	if _, err := c.Get("http://" + addr + "/"); err == nil {
		t.Error("a new call after the end is answered, want no connection")
	}
}

func TestShutdownTimeoutGivesTurnsBack(t *testing.T) {
	s := newWatched()
	f := start(t, fmt.Sprintf(queueRules, "hour", 1), Config{ShutdownTimeout: 20 * time.Millisecond}, Deps{WrapStore: s.wrap})
	held := holdOne(t, f, s)
	if err := f.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	select {
	case r := <-s.given:
		if r.Receipt.Cost != 1 || r.Left {
			t.Errorf("given back = %+v, want cost 1 of a call that never left", r)
		}
	default:
		t.Error("nothing was given back for the call that was held at the end of the shutdown timeout")
	}
	(<-held).want(t, "the call that was held at the end", http.StatusServiceUnavailable)
}

// TestShutdownEndsUpgradedConnections also shows that they are waited for.
func TestShutdownEndsUpgradedConnections(t *testing.T) {
	up := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(conn, conn) // until the gateway hangs up
		_ = conn.Close()
	}))
	f := start(t, shopRules, Config{Upstream: up, ShutdownTimeout: 20 * time.Millisecond}, Deps{})
	conn, err := net.Dial("tcp", f.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "101") {
		t.Fatalf("upgrade = %q, %v", line, err)
	}
	if got := f.calls.Load(); got != 1 {
		t.Errorf("calls under way with one upgraded connection = %d, want 1", got)
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if got := f.calls.Load(); got != 0 {
		t.Errorf("calls under way after Close = %d, want 0", got)
	}
}

// broken panics when it is asked to decide.
type broken struct{ caudal.Store }

func (broken) Take(context.Context, caudal.Instant, []caudal.Call, []caudal.Decision) error {
	panic("the store is broken")
}

func TestPanicOfTheLimiterPassesTheRequestAndCounts(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{WrapStore: func(s caudal.Store) caudal.Store { return broken{s} }})
	f.ask(client(t, "127.0.0.1"), http.MethodPost, "/login").want(t, "POST /login while the limiter panics", http.StatusOK)
	f.wantCount(`caudal_store_errors_total{kind="panic"} 1`)
	f.wantCount(`caudal_decisions_total{domain="shop",outcome="error_allowed",rule="login"} 1`)
	if !strings.Contains(f.log.String(), "the store is broken") {
		t.Errorf("the log does not hold the panic:\n%s", f.log)
	}
}

func TestBusyPortIsOneClearLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	up := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	for _, tc := range []struct {
		config Config
		flag   string
	}{
		{Config{Listen: taken.Addr().String(), AdminListen: Off}, "--listen"},
		{Config{Listen: "127.0.0.1:0", AdminListen: taken.Addr().String()}, "--admin-listen"},
	} {
		tc.config.Limit, tc.config.Upstream = "100/m", up
		_, err := Start(tc.config, Deps{})
		if err == nil {
			t.Fatalf("Start on a busy port = nil error")
		}
		text := err.Error()
		if strings.Contains(text, "\n") || !strings.Contains(text, "port "+port+" is in use") || !strings.HasSuffix(text, tc.flag) {
			t.Errorf("Start on a busy port = %q, want one line with the port that ends in %s", text, tc.flag)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	up := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	two := t.TempDir()
	rewrite(t, two+"/a.yaml", shopRules)
	rewrite(t, two+"/b.yaml", publicAPI)
	for name, tc := range map[string]struct {
		config  Config
		what    string
		missing bool
	}{
		"nothing":         {Config{}, "no upstream is set", true},
		"no limit":        {Config{Upstream: up}, "no limit is set", true},
		"two sources":     {Config{Upstream: up, Limit: "1/s", Rules: []string{two}}, "both rules and limit", true},
		"several domains": {Config{Upstream: up, Rules: []string{two}}, "2 domains and none is named: public-api, shop", true},
		"unknown domain":  {Config{Upstream: up, Rules: []string{two}, Domain: "shops"}, `domain "shops" is not among the rules: they hold public-api, shop`, true},
		"no such file":    {Config{Upstream: up, Rules: []string{two + "/c.yaml"}}, "c.yaml", false},
		"unknown store":   {Config{Upstream: up, Limit: "1/s", Store: "mysql://user:secret@host"}, `store "mysql" is not known`, false},
		"bad address":     {Config{Upstream: up, Limit: "1/s", Listen: "8000"}, `listen: "8000" is no address`, false},
		"bad upstream":    {Config{Upstream: &url.URL{Scheme: "ftp", Host: "x"}, Limit: "1/s"}, "the scheme must be http", false},
		"by beside rules": {Config{Upstream: up, Rules: []string{two}, By: "api_key"}, "by says whose calls limit counts", true},
		"one address":     {Config{Upstream: up, Limit: "1/s", Listen: "127.0.0.1:7", HTTPListen: []string{"127.0.0.1:7"}}, "listen and http_listen are both 127.0.0.1:7", true},
		"bad header":      {Config{Upstream: up, Limit: "1/s", APIKeyHeader: "X Key"}, "X Key", false},
		"foreign address": {Config{Upstream: up, Limit: "1/s", Listen: "203.0.113.1:8000"}, "203.0.113.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.config.Listen == "" {
				tc.config.Listen = "127.0.0.1:0"
			}
			tc.config.AdminListen = Off
			s, err := Start(tc.config, Deps{})
			if err == nil {
				_ = s.Close()
				t.Fatal("Start = nil error")
			}
			if !strings.Contains(err.Error(), tc.what) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Start = %q, want %q and no secret", err, tc.what)
			}
			var e *Error
			if errors.As(err, &e); (e != nil && e.Missing) != tc.missing {
				t.Errorf("Start = %#v, want Missing %v", err, tc.missing)
			}
		})
	}
}

func TestDomainIsChosenByName(t *testing.T) {
	dir := t.TempDir()
	rewrite(t, dir+"/a.yaml", shopRules)
	rewrite(t, dir+"/b.yaml", publicAPI)
	f := start(t, "", Config{Rules: []string{dir}, Domain: "public-api"}, Deps{})
	f.ask(client(t, "127.0.0.1"), http.MethodGet, "/").want(t, "GET /", http.StatusOK, "RateLimit-Policy", `"api_key";q=100;w=60`)
}

// TestSweepGivesMemoryBack moves the time of a bubble by the interval of sweeps.
func TestSweepGivesMemoryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		s, err := openStore("memory", storeOptions{clock: c})
		if err != nil {
			t.Fatal(err)
		}
		limit, err := caudal.PerMinute(10).Compile("limit", "test")
		if err != nil {
			t.Fatal(err)
		}
		out := make([]caudal.Decision, 1)
		if err := s.Take(t.Context(), caudal.Instant{}, []caudal.Call{{Limit: limit, Key: []byte("a"), Cost: 1}}, out); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sweepEvery)
		synctest.Wait()
		if got := s.stats().Keys; got != 1 {
			t.Errorf("keys after a sweep = %d, want 1: the key is not fresh yet", got)
		}
		c.advance(time.Minute)
		time.Sleep(sweepEvery)
		synctest.Wait()
		if got := s.stats().Keys; got != 0 {
			t.Errorf("keys after a sweep a minute later = %d, want 0", got)
		}
		if err := s.close(); err != nil {
			t.Errorf("close = %v", err)
		}
	})
}
