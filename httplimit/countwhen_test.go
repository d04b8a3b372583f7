package httplimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

const failureRules = `
domain: d
descriptors:
  - key: path
    value: /login
    count_when: { status: [401, 403, 5xx] }
    descriptors:
      - key: remote_address
        rate_limit: { name: failures, unit: day, requests_per_unit: 3, algorithm: fixed_window }
`

// answering answers as the request's X-Do says.
var answering = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch do := r.Header.Get("X-Do"); do {
	case "nothing":
	case "write":
		_, _ = w.Write([]byte("x"))
	case "string":
		_, _ = io.WriteString(w, "x")
	case "copy":
		_, _ = io.Copy(w, strings.NewReader("x"))
	case "copy nothing, then 401":
		_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("")})
		w.WriteHeader(401)
	case "flush":
		w.(http.Flusher).Flush()
	case "hints, then 401":
		w.WriteHeader(103)
		w.WriteHeader(401)
	case "401, then 200":
		w.WriteHeader(401)
		w.WriteHeader(200)
	case "panic":
		panic(http.ErrAbortHandler)
	case "200, then panic":
		w.WriteHeader(200)
		panic(http.ErrAbortHandler)
	default:
		status := 0
		for _, c := range do {
			status = status*10 + int(c-'0')
		}
		w.WriteHeader(status)
	}
})

// TestCountWhen: what each way of answering leaves of 3, and that the client is
// told so.
func TestCountWhen(t *testing.T) {
	for _, c := range []struct {
		do      string
		counted bool
	}{
		{"200", false}, {"204", false}, {"302", false}, {"404", false}, {"429", false},
		{"401", true}, {"403", true}, {"500", true}, {"503", true},
		{"nothing", false}, {"write", false}, {"string", false}, {"copy", false}, {"flush", false},
		{"copy nothing, then 401", true}, {"hints, then 401", true}, {"401, then 200", true},
		{"panic", true}, {"200, then panic", false},
	} {
		d := rules(t, failureRules, nil, Options{Clock: newClock()})
		h := d.Wrap(answering)
		left := "3"
		if c.counted {
			left = "2"
		}
		func() {
			defer func() { _ = recover() }()
			r := call(h, "POST", "/login", "X-Do", c.do)
			if strings.HasPrefix(c.do, "hints") {
				return // the recorder takes 103 for the response
			}
			wantHeaders(t, c.do, r.Header, map[string]string{"X-Ratelimit-Remaining": left, "Ratelimit": `"failures";r=` + left + ";t=43200"})
		}()
		if got := leftAt(t, d, "/login"); got != left {
			t.Errorf("after %q %s of 3 are left, want %s", c.do, got, left)
		}
	}
}

// leftAt asks what the nearest limit has left and charges nothing.
func leftAt(t *testing.T, d *Decider, path string) string {
	t.Helper()
	r := httptest.NewRequest("POST", path, nil)
	r.RemoteAddr = "203.0.113.7:1"
	o := d.Decide(r)
	defer o.Release()
	o.Settle(t.Context(), 200, nil)
	h := http.Header{}
	o.SetHeaders(h)
	return h.Get("X-Ratelimit-Remaining")
}

// TestCountWhenDenies: failures deny, successes between them do not.
func TestCountWhenDenies(t *testing.T) {
	clock := newClock()
	h := rules(t, failureRules, nil, Options{Clock: clock}).Wrap(answering)
	for i, do := range []string{"200", "401", "200", "200", "401", "200", "403"} {
		r := call(h, "POST", "/login", "X-Do", do)
		if r.StatusCode == 429 {
			t.Fatalf("call %d (%s) = 429, want it passed on", i, do)
		}
	}
	wantStatus(t, "a login after three failures, right or wrong", call(h, "POST", "/login", "X-Do", "200"), 429)
	wantStatus(t, "another path", call(h, "POST", "/", "X-Do", "401"), 401)
	clock.advance(12 * time.Hour)
	wantStatus(t, "the day after", call(h, "POST", "/login", "X-Do", "200"), 200)
}

// TestCountWhenWindows: what is given back goes to the window that was charged,
// and nothing when that counts no more; the new window is not touched.
func TestCountWhenWindows(t *testing.T) {
	for _, c := range []struct{ limit, left string }{
		{"algorithm: fixed_window", "3"},   // 4 if the refund met the new window
		{"algorithm: sliding_window", "3"}, // the previous window still counts, and is emptied
		{"algorithm: sliding_log", "3"},
		{"burst: 4", "3"}, // the bucket has its tokens back, and never more than it holds
	} {
		clock := newClock() // 12:00:00.25
		const rule = "domain: d\ndescriptors:\n  - key: remote_address\n    count_when: { status: [401] }\n    rate_limit: { unit: minute, requests_per_unit: 4, "
		d := rules(t, rule+c.limit+" }\n", nil, Options{Clock: clock})
		clock.advance(59*time.Second + 500*time.Millisecond)
		h := d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			clock.advance(time.Second) // into the next minute
			r.Header.Set("X-Do", "401")
			if r.Header.Get("X-Nested") == "" {
				// One call that counts in the new window, while the first is under way.
				inner := httptest.NewRequest("GET", "/", nil)
				inner.RemoteAddr = r.RemoteAddr
				d.Wrap(answering).ServeHTTP(httptest.NewRecorder(), with(inner, "X-Do", "401"))
			}
			w.WriteHeader(200)
		}))
		wantStatus(t, c.limit, call(h, "GET", "/"), 200)
		if got := leftAt(t, d, "/"); got != c.left {
			t.Errorf("%s: %s of 4 are left after one that counts and one that does not, want %s", c.limit, got, c.left)
		}
	}
}

func with(r *http.Request, header ...string) *http.Request {
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// TestCostSettledInItsWindow: a cost in the response header is credited to the
// window that was charged.
func TestCostSettledInItsWindow(t *testing.T) {
	const rule = "domain: d\ndescriptors:\n  - key: remote_address\n    cost: { response_header: X-Spent, max: 10 }\n    rate_limit: { unit: minute, requests_per_unit: 20, "
	for _, c := range []struct {
		limit string
		left  uint64
	}{
		{"algorithm: fixed_window", 20}, // a new window, which nobody has used
		// 4 of the minute before still count, but for the quarter second that has gone.
		{"algorithm: sliding_window", 17},
		{"algorithm: sliding_log", 16},
	} {
		clock := newClock()
		d := rules(t, rule+c.limit+" }\n", nil, Options{Clock: clock})
		clock.advance(59*time.Second + 500*time.Millisecond)
		h := d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			clock.advance(500 * time.Millisecond)
			w.Header().Set("X-Spent", "4")
		}))
		wantStatus(t, c.limit, call(h, "GET", "/"), 200)
		if got := remainingNow(t, d); got != c.left {
			t.Errorf("%s: %d of 20 are left a quarter second into the next window, want %d", c.limit, got, c.left)
		}
	}
}

// TestCountWhenAndCost: a call that does not count costs nothing, one that does
// what its header says, also when the header comes last.
func TestCountWhenAndCost(t *testing.T) {
	d := rules(t, `
domain: d
descriptors:
  - key: remote_address
    count_when: { status: [2xx] }
    cost: { response_header: X-Spent, default: 2, max: 10 }
    rate_limit: { unit: day, requests_per_unit: 100, algorithm: fixed_window }
`, nil, Options{Clock: newClock()})
	left := uint64(100)
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		cost    uint64
	}{
		{"4 of a success", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Spent", "4"); w.WriteHeader(200) }, 4},
		{"no header", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }, 2},
		{"after the body", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("x"))
			w.Header().Set("X-Spent", "7")
		}, 7},
		{"4 of a failure", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Spent", "4"); w.WriteHeader(500) }, 0},
		{"no status", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 2},
	} {
		func() {
			defer func() { _ = recover() }()
			call(d.Wrap(c.handler), "GET", "/")
		}()
		left -= c.cost
		if got := remainingNow(t, d); got != left {
			t.Errorf("%s: %d are left, want %d", c.name, got, left)
		}
	}
}

// TestCountWhenWithOthers: only the limit that does not count gives back; shadow
// limits count what they would; a queue gives nothing.
func TestCountWhenWithOthers(t *testing.T) {
	seen := &recorder{}
	clock := newClock()
	d := rules(t, `
domain: d
descriptors:
  - key: remote_address
    rate_limit: { name: ceiling, unit: day, requests_per_unit: 10, algorithm: fixed_window }
  - key: method
    shadow_mode: true
    count_when: { status: [401] }
    rate_limit: { name: shadow, unit: day, requests_per_unit: 1, algorithm: fixed_window }
  - key: host
    count_when: { status: [401] }
    rate_limit: { name: queue, unit: second, requests_per_unit: 1, algorithm: leaky_bucket, queue: 1 }
`, nil, Options{Clock: clock, Observer: seen})
	h := d.Wrap(answering)
	for range 3 {
		r := call(h, "GET", "/", "X-Do", "200")
		wantStatus(t, "a success", r, 200)
		clock.advance(time.Second)
	}
	if n := seen.counts["shadow shadow_denied"]; n != 0 {
		t.Errorf("successes were over the shadow limit %d times, want 0", n)
	}
	call(h, "GET", "/", "X-Do", "401")
	clock.advance(time.Second)
	r := call(h, "GET", "/", "X-Do", "401")
	if n := seen.counts["shadow shadow_denied"]; n != 1 {
		t.Errorf("two failures were over the shadow limit of 1 %d times, want 1", n)
	}
	if got := r.Header.Get("Ratelimit"); !strings.Contains(got, `"ceiling";r=5;`) {
		t.Errorf("after 5 calls RateLimit = %s, want 5 left of the ceiling", got)
	}
}

// TestCountWhenHeld: a call that waited in a queue and then failed counts; one
// whose client left before its turn does not.
func TestCountWhenHeld(t *testing.T) {
	d := rules(t, `
domain: d
descriptors:
  - key: host
    rate_limit: { name: queue, unit: second, requests_per_unit: 100, algorithm: leaky_bucket, queue: 5 }
  - key: remote_address
    count_when: { status: [401] }
    rate_limit: { name: failures, unit: day, requests_per_unit: 5, algorithm: fixed_window }
`, nil, Options{Clock: newClock()})
	h := d.Wrap(answering)
	for _, do := range []string{"401", "200", "401"} { // the second and third are held
		call(h, "GET", "/", "X-Do", do)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.7:1"
	o := d.Decide(r)
	o.Cancel(t.Context())
	o.Release()
	w := call(h, "GET", "/", "X-Do", "200")
	if got := w.Header.Get("Ratelimit"); !strings.Contains(got, `"failures";r=3;`) {
		t.Errorf("RateLimit = %s, want 3 left: two failures count", got)
	}
}

// TestCountWhenLostRefund: a store that takes nothing back is reported, and the
// response goes out.
func TestCountWhenLostRefund(t *testing.T) {
	seen := &recorder{}
	clock := newClock()
	store := onlyTake{memstore.New(memstore.Options{Clock: clock, MaxKeys: 10})}
	h := rules(t, failureRules, store, Options{Clock: clock, Observer: seen}).Wrap(answering)
	wantStatus(t, "a success", call(h, "POST", "/login", "X-Do", "200"), 200)
	if len(seen.errs) != 1 || !errors.Is(seen.errs[0], caudal.ErrUnsupported) {
		t.Errorf("reported %v, want one ErrUnsupported", seen.errs)
	}
}

type onlyTake struct{ caudal.Store }

// TestC75CountWhenWrapper: over real sockets the handler can do all that it can
// without the middleware, and an upgrade is status 101.
func TestC75CountWhenWrapper(t *testing.T) {
	const any = "domain: d\ndescriptors:\n  - key: remote_address\n    count_when: { status: [401] }\n    rate_limit: { unit: day, requests_per_unit: 3, algorithm: fixed_window }\n"
	d := rules(t, any, nil, Options{Clock: newClock()})
	ok := make(chan string, 8)
	srv := httptest.NewServer(d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		switch r.URL.Path {
		case "/stream":
			if err := control.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				ok <- err.Error()
			}
			_, _ = io.WriteString(w, "first")
			if err := control.Flush(); err != nil {
				ok <- err.Error()
			}
			<-r.Context().Done()
		case "/upgrade":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				ok <- err.Error()
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello")
			_ = conn.Close()
		}
	})))
	defer srv.Close()
	for _, path := range []string{"/stream", "/upgrade"} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if path == "/stream" {
			first := make([]byte, 5)
			if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "first" {
				t.Errorf("the stream begins with %q, %v", first, err)
			}
			// While the stream runs its call is settled already.
			wantHeaders(t, path, res.Header, map[string]string{"X-Ratelimit-Remaining": "3"})
		} else if rest, _ := io.ReadAll(in); res.StatusCode != 101 || string(rest) != "hello" {
			t.Errorf("the upgrade gives %d and %q", res.StatusCode, rest)
		}
		_ = conn.Close()
	}
	srv.Close()
	close(ok)
	for what := range ok {
		t.Error(what)
	}
	// Both were the middleware's to give back; the address here is that of the socket.
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "127.0.0.1:1"
	o := d.Decide(r)
	defer o.Release()
	if got := o.Decisions[0].Remaining; got != 2 {
		t.Errorf("%d are left after the next call, want 2", got)
	}
}

// plainWriter can do nothing but write.
type plainWriter struct{ http.ResponseWriter }

// TestCountWhenPlainWriter: a writer below that cannot flush is not said to, and
// trying begins no response.
func TestCountWhenPlainWriter(t *testing.T) {
	d := rules(t, failureRules, nil, Options{Clock: newClock()})
	h := d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(http.Flusher); ok {
			t.Error("the writer is a Flusher, and the one below is not")
		}
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Flush() = %v, want ErrNotSupported", err)
		}
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack() = %v, want ErrNotSupported", err)
		}
		w.WriteHeader(401)
	}))
	r := httptest.NewRequest("POST", "/login", nil)
	r.RemoteAddr = "203.0.113.7:1"
	h.ServeHTTP(plainWriter{httptest.NewRecorder()}, r)
	if got := leftAt(t, d, "/login"); got != "2" {
		t.Errorf("%s are left after a failure, want 2", got)
	}
}
