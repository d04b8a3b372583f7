package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// modified is when the upstream's file was written.
var modified = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// file is what the upstream serves whole, in parts and not at all.
var file = bytes.Repeat([]byte("0123456789abcdef"), 256)

// manyKinds is an upstream whose paths are the kinds of response that there are.
var manyKinds = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Date", modified.Format(http.TimeFormat))
	h["X-Twice"] = []string{"a", "b"}
	h["Set-Cookie"] = []string{"a=1; Path=/", "b=2"}
	h.Set("Etag", `"v1"`)
	switch r.URL.Path {
	case "/file": // ranges, conditions, HEAD
		http.ServeContent(w, r, "file.bin", modified, bytes.NewReader(file))
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/moved":
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	case "/broken":
		http.Error(w, "broken", http.StatusInternalServerError)
	case "/limited":
		h.Set("Retry-After", "17")
		http.Error(w, "the upstream's own limit", http.StatusTooManyRequests)
	case "/gzip":
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(file)
		_ = z.Close()
	case "/chunks":
		for range 3 {
			_, _ = io.WriteString(w, "a chunk\n")
			_ = http.NewResponseController(w).Flush()
		}
	case "/hints":
		for _, link := range []string{"</a.css>; rel=preload", "</b.js>; rel=preload"} {
			h.Set("Link", link)
			w.WriteHeader(http.StatusEarlyHints)
		}
		_, _ = io.WriteString(w, "after the hints")
	case "/processing":
		w.WriteHeader(http.StatusProcessing)
		_, _ = io.WriteString(w, "after the processing")
	case "/trailers", "/trailers/flushed":
		h.Set("Trailer", "X-Sum, X-Sent")
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
		if r.URL.Path == "/trailers/flushed" { // and so of unknown length
			_ = http.NewResponseController(w).Flush()
		}
		h.Set("X-Sum", fmt.Sprint(len(body)))
		h.Set("X-Sent", r.Trailer.Get("X-Sent"))
		h.Set(http.TrailerPrefix+"X-Late", "yes")
	case "/refused": // without a look at the body
		http.Error(w, "no", http.StatusUnauthorized)
	default:
		body, err := io.ReadAll(r.Body)
		h.Set("X-Saw", fmt.Sprintf("%s %s %s %d %x %v", r.Method, r.Host, r.RequestURI, len(body), sha256.Sum256(body), err))
		_, _ = w.Write(body)
	}
})

// exchange is all that a client sees of a call.
type exchange struct {
	interim         []string
	continued       bool
	status          int
	length          int64
	chunked         bool
	header, trailer string
	body            string
	err             error
}

func (e exchange) String() string {
	return fmt.Sprintf("%q 100: %v\n%d length %d chunked %v\n%s\n%d bytes %x, %v\ntrailer %s", e.interim, e.continued, e.status, e.length, e.chunked,
		e.header, len(e.body), sha256.Sum256([]byte(e.body)), e.err, e.trailer)
}

// ours are the headers that the gateway adds; all others must be the upstream's.
var ours = []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy"}

func sorted(h http.Header) string {
	var lines []string
	for name, values := range h {
		if !slices.Contains(ours, name) {
			lines = append(lines, fmt.Sprintf("%s: %q", name, values))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// see makes a call and writes down what comes back.
func see(t *testing.T, c *http.Client, base string, call kindOfCall) exchange {
	t.Helper()
	var e exchange
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			e.interim = append(e.interim, fmt.Sprintf("%d %q", code, h["Link"]))
			return nil
		},
		Got100Continue: func() { e.continued = true },
	})
	var body io.Reader
	if call.body != nil {
		body = call.body()
	}
	r, err := http.NewRequestWithContext(ctx, call.method, base+call.path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "api.example"
	for i := 0; i < len(call.header); i += 2 {
		r.Header.Add(call.header[i], call.header[i+1])
	}
	if call.trailer {
		r.Trailer = http.Header{"X-Sent": {"by the client"}}
	}
	res, err := c.Do(r)
	if err != nil {
		e.err = err
		return e
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	e.status, e.length, e.chunked, e.header, e.body, e.err = res.StatusCode, res.ContentLength, len(res.TransferEncoding) > 0, sorted(res.Header), string(b), err
	e.trailer = sorted(res.Trailer)
	return e
}

// kindOfCall is one way to use HTTP.
type kindOfCall struct {
	what, method, path string
	body               func() io.Reader
	header             []string
	trailer            bool
	not                func(client, upstream string) bool // where it cannot be the same, and need not
}

// net/http takes Expect away from requests by HTTP/2, so that nobody can wait for
// the upstream's word; it is rare there, and the answer is the same.
func byHTTP2(client, _ string) bool { return client == "HTTP/2" }

// HTTP/1.1 has no length beside trailers, HTTP/2 has.
func downgraded(client, upstream string) bool { return client == "HTTP/2" && upstream == "http" }

func known(n int) func() io.Reader {
	return func() io.Reader { return strings.NewReader(strings.Repeat("x", n)) }
}

func unknown(n int) func() io.Reader {
	return func() io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("x", n))) }
}

var kindsOfCall = []kindOfCall{
	{what: "GET", method: "GET", path: "/x?y=%20+&z&%zz;"},
	{what: "HEAD with a length", method: "HEAD", path: "/file"},
	{what: "HEAD of chunks", method: "HEAD", path: "/chunks"},
	{what: "POST", method: "POST", path: "/x", body: known(100)},
	{what: "POST of nothing", method: "POST", path: "/x"},
	{what: "POST in chunks", method: "POST", path: "/x", body: unknown(100)},
	{what: "PUT of 4 MiB", method: "PUT", path: "/x", body: known(4 << 20)},
	{what: "PUT of 4 MiB in chunks", method: "PUT", path: "/x", body: unknown(4 << 20)},
	{what: "PATCH", method: "PATCH", path: "/x", body: known(1)},
	{what: "DELETE", method: "DELETE", path: "/x"},
	{what: "DELETE with a body", method: "DELETE", path: "/x", body: known(5)},
	{what: "OPTIONS", method: "OPTIONS", path: "/x"},
	{what: "a preflight", method: "OPTIONS", path: "/x", header: []string{"Origin", "https://a.example", "Access-Control-Request-Method", "PUT"}},
	{what: "a method of its own", method: "PURGE", path: "/x"},
	{what: "no content", method: "GET", path: "/none"},
	{what: "a redirect", method: "GET", path: "/moved"},
	{what: "an error", method: "GET", path: "/broken"},
	{what: "the upstream's own 429", method: "GET", path: "/limited"},
	{what: "a file", method: "GET", path: "/file"},
	{what: "a range", method: "GET", path: "/file", header: []string{"Range", "bytes=100-199"}},
	{what: "two ranges", method: "GET", path: "/file", header: []string{"Range", "bytes=0-0", "If-Range", `"old"`}},
	{what: "a range beyond the end", method: "GET", path: "/file", header: []string{"Range", "bytes=99999-"}},
	{what: "not modified", method: "GET", path: "/file", header: []string{"If-None-Match", `"v1"`}},
	{what: "not modified since", method: "GET", path: "/file", header: []string{"If-Modified-Since", modified.Format(http.TimeFormat)}},
	{what: "a condition that fails", method: "GET", path: "/file", header: []string{"If-Match", `"v0"`}},
	{what: "packed", method: "GET", path: "/gzip", header: []string{"Accept-Encoding", "gzip"}},
	{what: "chunks", method: "GET", path: "/chunks"},
	{what: "early hints", method: "GET", path: "/hints"},
	{what: "processing", method: "GET", path: "/processing"},
	{what: "Expect: 100-continue", method: "POST", path: "/x", body: known(1000), header: []string{"Expect", "100-continue"}},
	{what: "Expect, refused", method: "POST", path: "/refused", body: known(1000), header: []string{"Expect", "100-continue"}, not: byHTTP2},
	{what: "trailers", method: "POST", path: "/trailers/flushed", body: unknown(1000), trailer: true},
	{what: "trailers that the client does not send", method: "POST", path: "/trailers/flushed", body: known(10)},
	{what: "trailers beside a length", method: "POST", path: "/trailers", body: unknown(1000), trailer: true, not: downgraded},
	{what: "a long header", method: "GET", path: "/x", header: []string{"X-Long", strings.Repeat("y", 32<<10)}},
}

// TestSameAsSentDirectly: a client gets through the gateway, with limits on, what it
// gets from the upstream: by both versions of HTTP, with both versions behind.
func TestSameAsSentDirectly(t *testing.T) {
	up := httptest.NewUnstartedServer(manyKinds)
	up.Config.Protocols = new(http.Protocols)
	up.Config.Protocols.SetHTTP1(true)
	up.Config.Protocols.SetUnencryptedHTTP2(true)
	up.Start()
	t.Cleanup(up.Close)
	for _, scheme := range []string{"http", "h2c"} {
		u, _ := url.Parse(up.URL)
		u.Scheme = scheme
		v := who(t, identity.Options{})
		gw := start(t, Options{Upstream: u, Identity: v, Limits: limits(t, plenty, v, httplimit.Options{}), Retries: Retries{Max: 1}})
		t.Run(scheme, func(t *testing.T) {
			speak(t, func(t *testing.T, c *http.Client) {
				client := "HTTP/2"
				if strings.HasSuffix(t.Name(), "HTTP/1.1") {
					client = "HTTP/1.1"
				}
				c.Timeout = 0
				c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				c.Transport.(*http.Transport).ExpectContinueTimeout = 5 * time.Second
				c.Transport.(*http.Transport).DisableCompression = true
				for _, call := range kindsOfCall {
					if call.not != nil && call.not(client, scheme) {
						continue
					}
					want, got := see(t, c, up.URL, call), see(t, c, gw, call)
					if want.err != nil {
						t.Fatalf("%s, sent directly: %v", call.what, want.err)
					}
					if got.String() != want.String() {
						t.Errorf("%s, to %s: through the gateway\n%s\ndirectly\n%s", call.what, scheme, got, want)
					}
				}
			})
		})
	}
}

// TestEventsAreNotDelayed: each event is read before the next is written, for GET
// and POST, by both versions of HTTP.
func TestEventsAreNotDelayed(t *testing.T) {
	next := make(chan struct{})
	gw := limited(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d %s\n\n", i, question)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}))
	speak(t, func(t *testing.T, c *http.Client) {
		for method, question := range map[string]string{"GET": "", "POST": "question"} {
			r, _ := http.NewRequestWithContext(t.Context(), method, gw, strings.NewReader(question))
			res, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(res.Body)
			for i := range 3 {
				got, err := lines.ReadString('\n')
				if want := fmt.Sprintf("data: %d %s\n", i, question); err != nil || got != want {
					t.Fatalf("%s: event %d = %q, %v, want %q before the stream goes on", method, i, got, err, want)
				}
				_, _ = lines.ReadString('\n')
				next <- struct{}{}
			}
			if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
				t.Errorf("%s: the stream ends with %q, %v, want its end", method, rest, err)
			}
			res.Body.Close()
		}
	})
}

// TestWebSocketSameAsDirectly compares the handshake, messages of all sizes and the
// way that both sides close.
func TestWebSocketSameAsDirectly(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", modified.Format(http.TimeFormat))
		w.Header().Set("X-Upstream", "yes")
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}, CompressionMode: websocket.CompressionNoContextTakeover})
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(4 << 20)
		for {
			kind, msg, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if string(msg) == "close" {
				_ = c.Close(websocket.StatusCode(4001), "as asked")
				return
			}
			if c.Write(r.Context(), kind, msg) != nil {
				return
			}
		}
	}))
	t.Cleanup(up.Close)
	u, _ := url.Parse(up.URL)
	v := who(t, identity.Options{})
	gw := start(t, Options{Upstream: u, Identity: v, Limits: limits(t, plenty, v, httplimit.Options{})})
	talk := func(base string) string {
		var seen strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, res, err := websocket.Dial(ctx, base, &websocket.DialOptions{Subprotocols: []string{"chat"}, CompressionMode: websocket.CompressionNoContextTakeover})
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		c.SetReadLimit(4 << 20)
		res.Header.Del("Sec-Websocket-Accept") // of a random key
		fmt.Fprintln(&seen, res.StatusCode, sorted(res.Header))
		for _, n := range []int{0, 1, 125, 126, 65_535, 65_536, 1 << 20} {
			if err := c.Write(ctx, websocket.MessageBinary, bytes.Repeat([]byte{byte(n)}, n)); err != nil {
				t.Fatal(err)
			}
			kind, msg, err := c.Read(ctx)
			fmt.Fprintf(&seen, "%v %d %x %v\n", kind, len(msg), sha256.Sum256(msg), err)
		}
		if err := c.Write(ctx, websocket.MessageText, []byte("close")); err != nil {
			t.Fatal(err)
		}
		_, _, err = c.Read(ctx)
		fmt.Fprintln(&seen, err)
		return seen.String()
	}
	if want, got := talk(up.URL), talk(gw); got != want {
		t.Errorf("through the gateway\n%s\ndirectly\n%s", got, want)
	}
}

// TestNothingIsAddedToBareResponses: an upstream that names no type does not get one
// that was guessed, and one whose answer ends with its connection is passed whole.
func TestNothingIsAddedToBareResponses(t *testing.T) {
	const page = "<html>a guess would say text/html</html>"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"+page)
			conn.Close()
		}
	}()
	v := who(t, identity.Options{})
	gw := start(t, Options{Upstream: &url.URL{Scheme: "http", Host: l.Addr().String()}, Identity: v, Limits: limits(t, plenty, v, httplimit.Options{})})
	speak(t, func(t *testing.T, c *http.Client) {
		e := see(t, c, gw, kindOfCall{method: "GET", path: "/"})
		if e.body != page || strings.Contains(e.header, "Content-Type") {
			t.Errorf("body %q, %v with headers %s, want the page and no type", e.body, e.err, e.header)
		}
	})
}

// TestServersMayEndStreams: the end of a stream in both directions arrives while the
// client could still say more.
func TestServersMayEndStreams(t *testing.T) {
	gw := limited(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = r.Body.Read(make([]byte, 1))
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("Grpc-Status", "9")
	}))
	body, more := io.Pipe()
	go func() { _, _ = more.Write([]byte("x")) }()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", gw, body)
	r.Header.Set("Content-Type", "application/grpc")
	res, err := h2c(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(res.Body)
	_ = more.Close()
	if err != nil || res.Trailer.Get("Grpc-Status") != "9" {
		t.Errorf("the stream ends with %v, trailer %v, want Grpc-Status 9", err, res.Trailer)
	}
	res.Body.Close()
}
