package proxytest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// each runs a test with each proxy, side by side.
func each(t *testing.T, test func(t *testing.T, p Proxy)) {
	for _, p := range Proxies {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// setup is caudal, a proxy and an API.
type setup struct {
	caudal        *Program
	caudalAddress string
	api           *api
	front         string
}

func start(t *testing.T, p Proxy, patient bool) *setup {
	s := &setup{caudalAddress: FreeAddress(t), api: startAPI(t)}
	s.caudal = startCaudal(t, s.caudalAddress)
	s.front = p.Start(t, deploy, s.caudalAddress, s.api.address(), patient)
	return s
}

func TestProxiesDenyWhatCaudalDenies(t *testing.T) {
	each(t, func(t *testing.T, p Proxy) {
		s := start(t, p, true)
		for i := range 3 {
			a := ask(t, s.front, "POST", "/api/login?try="+strconv.Itoa(i), "name=ana")
			a.want(t, fmt.Sprintf("login %d", i+1), http.StatusOK)
			if a.body != "name=ana" {
				t.Errorf("login %d: the body came back as %q", i+1, a.body)
			}
			if got, want := a.header.Get("X-RateLimit-Remaining"), strconv.Itoa(2-i); got != want {
				t.Errorf("login %d: X-RateLimit-Remaining = %q, want %q", i+1, got, want)
			}
		}
		if got := s.api.took(); len(got) != 3 || got[0] != "POST /api/login?try=0" {
			t.Errorf("the API got %q, want three logins, each once", got)
		}
		a := ask(t, s.front, "POST", "/api/login", "name=ana")
		a.want(t, "login 4", http.StatusTooManyRequests)
		if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 1 || n > 86400 {
			t.Errorf("login 4: Retry-After = %q, want 1 to 86400", a.header.Get("Retry-After"))
		}
		if a.header.Get("X-RateLimit-Limit") != "3" || a.header.Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("login 4: headers = %v, want limit 3, remaining 0", a.header)
		}
		if a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("login 4: Content-Type = %q", a.header.Get("Content-Type"))
		}
		never := ask(t, s.front, "GET", "/never", "")
		never.want(t, "what is never allowed", http.StatusTooManyRequests)
		if after, ok := never.header["Retry-After"]; ok {
			t.Errorf("what is never allowed: Retry-After = %q, want none", after)
		}
		if got := s.api.took(); len(got) != 0 {
			t.Errorf("the API got %q, which was denied", got)
		}
	})
}

func TestProxiesPassOnWhoAsks(t *testing.T) {
	each(t, func(t *testing.T, p Proxy) {
		s := start(t, p, true)
		ask(t, s.front, "GET", "/keyed", "").want(t, "without a key", http.StatusUnauthorized)
		for i := range 2 {
			ask(t, s.front, "GET", "/keyed", "", "X-API-Key", "alice").want(t, fmt.Sprintf("alice %d", i+1), http.StatusOK)
			ask(t, s.front, "PUT", "/items", "", "Content-Type", "application/grpc").want(t, fmt.Sprintf("PUT %d", i+1), http.StatusOK)
		}
		ask(t, s.front, "GET", "/keyed", "", "X-API-Key", "alice").want(t, "alice 3", http.StatusTooManyRequests)
		ask(t, s.front, "GET", "/keyed", "", "X-API-Key", "bob").want(t, "bob 1", http.StatusOK)
		ask(t, s.front, "PUT", "/items", "", "Content-Type", "application/grpc").want(t, "PUT 3", http.StatusTooManyRequests)
		ask(t, s.front, "GET", "/items", "", "X-Answer", "403").want(t, "a 403 of the API", http.StatusForbidden)
	})
}

// TestProxiesTakeOldAndOddRequests: what a proxy accepts must not fail because of
// caudal.
func TestProxiesTakeOldAndOddRequests(t *testing.T) {
	each(t, func(t *testing.T, p Proxy) {
		s := start(t, p, true)
		for _, request := range []string{
			"GET /items HTTP/1.0\r\n\r\n",
			"GET /items?a=%zz&b=%00 HTTP/1.1\r\nHost: shop.example:80\r\nConnection: close\r\n\r\n",
			"HEAD /items HTTP/1.1\r\nHost: SHOP.example\r\nConnection: close\r\n\r\n",
			"OPTIONS /items HTTP/1.1\r\nHost: a\r\nConnection: close\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n",
			"POST /items HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nname\r\n0\r\n\r\n",
			"POST /items HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
			"GET /items HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Api-Key: \xff\xfe caf\xc3\xa9\r\nCookie: a=b; c\r\nCookie: d\r\n\r\n",
			"GET /items HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: " + strings.Repeat("a", 6000) + "\r\n\r\n",
		} {
			status := send(t, s.front, request)
			if got := len(s.api.took()); status != http.StatusOK || got != 1 {
				t.Errorf("%.60q = %d, and the API got %d; want 200 and one", request, status, got)
			}
		}
	})
}

// TestC60HeadersThatClientsMakeUpGainNothing: neither another address nor another
// path, by any header that some proxy uses.
func TestC60HeadersThatClientsMakeUpGainNothing(t *testing.T) {
	each(t, func(t *testing.T, p Proxy) {
		s := start(t, p, true)
		for i := range 8 {
			ip := "203.0.113." + strconv.Itoa(i)
			a := ask(t, s.front, "GET", "/api/login", "", "X-Forwarded-For", ip, "X-Real-IP", ip, "Forwarded", "for="+ip,
				"X-Forwarded-Uri", "/free", "X-Original-URI", "/free", "X-Original-URL", "/free",
				"X-Forwarded-Method", "OPTIONS", "X-Original-Method", "OPTIONS", "X-Forwarded-Host", "other.example", "Caudal-Status", "200")
			want := http.StatusOK
			if i >= 3 {
				want = http.StatusTooManyRequests
			}
			if a.status != want && a.status != http.StatusForbidden {
				t.Errorf("login %d with made-up headers = %d %s, want %d", i+1, a.status, a.body, want)
			}
		}
		if got := len(s.api.took()); got > 3 {
			t.Errorf("%d logins with made-up headers passed, want at most 3", got)
		}
	})
}

// TestC88PathSpellings: whatever the proxy lets through to the same place counts
// in one counter.
func TestC88PathSpellings(t *testing.T) {
	spellings := []string{"/api/login", "/api/login/", "//api/login", "/api//login", "/api/./login", "/api/x/../login",
		"/api/%6cogin", "/api/login;x=1", "/api/login?", "/api%2Flogin", "/api/login?x=/free", "/./api/login", "/api/%2e/login"}
	each(t, func(t *testing.T, p Proxy) {
		for _, rotate := range []int{0, 5} { // the first three differ
			s := start(t, p, true)
			var passed []string
			for i := range spellings {
				target := spellings[(i+rotate)%len(spellings)]
				switch a := ask(t, s.front, "GET", target, ""); a.status {
				case http.StatusOK:
					passed = append(passed, target)
				case http.StatusTooManyRequests, http.StatusBadRequest:
				default:
					t.Errorf("GET %s = %d %s", target, a.status, a.body)
				}
			}
			if len(passed) != 3 || len(s.api.took()) != 3 {
				t.Errorf("of %d spellings of one path %q passed, want 3", len(spellings), passed)
			}
		}
	})
}

func TestProxiesPassWhenCaudalIsGone(t *testing.T) {
	each(t, func(t *testing.T, p Proxy) {
		s := start(t, p, false)
		s.untilDenied(t)

		s.caudal.Freeze(t)
		s.passes(t, "frozen")
		s.caudal.Signal(t, syscall.SIGCONT)
		s.caudal.Kill()
		s.passes(t, "stopped")
		free := unreachable(t, s.caudalAddress)
		s.passes(t, "unreachable")
		free()
		failing := startFailing(t, s.caudalAddress)
		s.passes(t, "answering 500")
		_ = failing.Close()

		startCaudal(t, s.caudalAddress)
		s.untilDenied(t)
	})
}

// untilDenied asks until a call is denied: on a busy machine some may pass without
// a decision, because there was none in time.
func (s *setup) untilDenied(t *testing.T) {
	t.Helper()
	for start := time.Now(); time.Since(start) < patience; {
		if ask(t, s.front, "GET", "/api/login", "").status == http.StatusTooManyRequests {
			s.api.took()
			return
		}
	}
	t.Fatal("nothing is denied while caudal is well")
}

// unreachable makes connections to an address hang, as those to a machine that is
// gone do: the queue of a listener that accepts nobody is filled.
func unreachable(t *testing.T, address string) (free func()) {
	t.Helper()
	at := netip.MustParseAddrPort(address)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	free = sync.OnceFunc(func() { _ = syscall.Close(fd) })
	t.Cleanup(free)
	err = errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}), syscall.Listen(fd, 0))
	if err != nil {
		t.Fatal(err)
	}
	for range 16 {
		c, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return free
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("a listener that accepts nobody takes 16 connections")
	return nil
}

// startFailing answers 500 to all on an address.
func startFailing(t *testing.T, address string) *http.Server {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	failing := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})}
	go func() { _ = failing.Serve(ln) }()
	t.Cleanup(func() { _ = failing.Close() })
	return failing
}

// passes asks while caudal is of no use. Each request must come through, once and
// whole. How long that took is logged; a busy machine must not fail the test.
func (s *setup) passes(t *testing.T, how string) {
	t.Helper()
	best := patience
	body := strings.Repeat("name=ana&", 20_000)
	for range 5 {
		a := ask(t, s.front, "POST", "/api/login", body)
		a.want(t, "a login while caudal is "+how, http.StatusOK)
		if a.body != body {
			t.Errorf("while caudal is %s %d bytes of the body came back, want %d", how, len(a.body), len(body))
		}
		best = min(best, a.took)
	}
	want := slices.Repeat([]string{"POST /api/login"}, 5)
	if got := s.api.took(); !slices.Equal(got, want) {
		t.Errorf("while caudal is %s the API got %q, want %q", how, got, want)
	}
	t.Logf("caudal %s: a request passes in %s (best of 5)", how, best)
}
