package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// stall sends the header of a request and a part of its body, and no more. It gives
// the status of the answer, and whether the connection was closed then.
func stall(t *testing.T, gw, path, more string) (status int, closed bool) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(gw, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api.example\r\n%sContent-Length: 1000\r\n\r\npart", path, more)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err == io.EOF
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if _, end := r.ReadByte(); err == nil {
		err = end
	}
	return res.StatusCode, err == io.EOF
}

// TestAnsweredCallsDoNotWaitForTheirBodies: net/http takes in what is left of a body
// before it answers. A client that never sends it must not hold the connection, and
// whatever waits behind it, when the call is denied or the upstream has answered.
func TestAnsweredCallsDoNotWaitForTheirBodies(t *testing.T) {
	early := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		if r.URL.Path == "/large" {
			_, _ = w.Write(make([]byte, 100<<10))
		}
		if r.URL.Path == "/flush" {
			_, _ = w.Write(make([]byte, 10))
			_ = http.NewResponseController(w).Flush()
		}
	})
	gw := serve(t, early, Options{BodyTimeout: 100 * time.Millisecond, MaxBody: 2000, Limits: limits(t, login, who(t, identity.Options{}), httplimit.Options{})})
	for range 3 {
		if res := do(t, "GET", gw+"/api/login", nil); res.StatusCode != http.StatusForbidden {
			t.Fatalf("login = %d, want 403 of the upstream", res.StatusCode)
		}
	}
	dead := start(t, Options{BodyTimeout: 100 * time.Millisecond, MaxBody: 2000, Routes: []Route{
		{Path: "/short", Upstream: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, MaxBody: 10},
		{Path: "/dead", Upstream: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}}}})
	for _, test := range []struct {
		gw, path, header string
		want             []int
	}{
		{dead, "/dead", "", []int{408, 502}},
		{dead, "/short", "", []int{413}},
		{dead, "/nowhere", "", []int{404}},
		{gw, "/api/login", "", []int{429}},
		{gw, "/small", "", []int{403, 408}},
		{gw, "/large", "", []int{403, 408}},
		{gw, "/flush", "", []int{403, 408}},
		{gw, "/api/login", "Content-Type: application/grpc\r\n", []int{200}}, // a denial of gRPC
		{gw, "/small", "Content-Type: application/grpc\r\n", []int{200, 403}},
	} {
		t.Run(test.path, func(t *testing.T) {
			t.Parallel()
			status, closed := stall(t, test.gw, test.path, test.header)
			if !slices.Contains(test.want, status) || !closed {
				t.Errorf("POST %s %swith a body that does not come = %d, closed %v; want one of %d and the connection closed", test.path, test.header, status, closed, test.want)
			}
		})
	}
}

// TestExpectContinue: a client that asks before it sends a body has its answer at once,
// whoever gives it, and is not asked for the body then. 4 s are less than the time
// that others have to send what is left.
func TestExpectContinue(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			b, _ := io.ReadAll(r.Body)
			_, _ = w.Write(b)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	})
	gw := serve(t, upstream, Options{Limits: limits(t, login, who(t, identity.Options{}), httplimit.Options{})})
	for range 3 {
		do(t, "GET", gw+"/api/login", nil)
	}
	for path, want := range map[string]int{"/api/login": 429, "/early": 403, "/read": 200} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(gw, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(4 * time.Second))
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api.example\r\nContent-Length: 4\r\nExpect: 100-Continue\r\n\r\n", path)
		r := bufio.NewReader(conn)
		res, err := http.ReadResponse(r, nil)
		if err == nil && res.StatusCode == http.StatusContinue {
			_, _ = io.WriteString(conn, "body")
			res, err = http.ReadResponse(r, nil)
		}
		if err != nil || res.StatusCode != want {
			t.Errorf("%s: %v, %v, want status %d before the body is sent", path, res, err, want)
			continue
		}
		if res.Close != (want != 200) {
			t.Errorf("%s: closed = %t behind %d", path, res.Close, want)
		}
	}
}
