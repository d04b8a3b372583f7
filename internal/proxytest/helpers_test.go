package proxytest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/internal/cli"
)

const (
	deploy = "../../deploy"
	asMain = "PROXYTEST_IS_CAUDAL"
)

// TestMain makes this test binary the command caudal, for a process of its own
// that can be stopped and frozen.
func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		os.Exit(cli.Main(os.Args[1:], cli.System("v1.2.3")))
	}
	os.Exit(m.Run())
}

// Every limit refills so slowly that a slow machine changes nothing.
const rules = `domain: shop
descriptors:
  - key: path
    value: /api/login
    descriptors:
      - key: remote_address
        rate_limit: { name: login, unit: day, requests_per_unit: 3, algorithm: sliding_log }
  - key: path
    value: /never
    rate_limit: { name: never, unit: day, requests_per_unit: 0 }
  - key: path
    value: /keyed
    descriptors:
      - key: api_key
        missing: reject
        rate_limit: { name: keyed, unit: day, requests_per_unit: 2, algorithm: sliding_log }
  - key: method
    value: PUT
    rate_limit: { name: writes, unit: day, requests_per_unit: 2, algorithm: sliding_log }
`

func startCaudal(t testing.TB, address string, args ...string) *Program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"serve", "--rules", file, "--http-listen", address, "--grpc-listen", "off", "--admin-listen", "off"}, args...)
	p := Start(t, []string{asMain + "=1"}, self, args...)
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	p.WaitListening(t, network, address)
	return p
}

// api is the API behind the proxy. It answers 200 with the request's body, and
// remembers what came.
type api struct {
	mu   sync.Mutex
	seen []string
	*httptest.Server
}

func startAPI(t testing.TB) *api {
	a := new(api)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.seen = append(a.seen, r.Method+" "+r.RequestURI)
		a.mu.Unlock()
		if status := r.Header.Get("X-Answer"); status != "" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *api) address() string { return a.Listener.Addr().String() }

// took gives what came since the last call.
func (a *api) took() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	a.seen = nil
	return seen
}

// answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// ask sends a request as it is written, on a connection of its own: clients tidy
// paths. headers are name, value, name, value.
func ask(t testing.TB, address, method, target, body string, headers ...string) answer {
	t.Helper()
	start := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(start.Add(patience))
	text := method + " " + target + " HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n"
	for i := 0; i < len(headers); i += 2 {
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if body != "" {
		text += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	if _, err := io.WriteString(c, text+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(data), time.Since(start)}
}

// send sends a request as it is and gives the last status.
func send(t testing.TB, address, request string) int {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	r := bufio.NewReader(c)
	for {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%.60q: %v", request, err)
		}
		if res.StatusCode != http.StatusContinue {
			_ = res.Body.Close()
			return res.StatusCode
		}
	}
}

func (a answer) want(t testing.TB, what string, status int) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s = %d %s, want %d", what, a.status, a.body, status)
	}
}
