package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/gateway"
)

// TestBodiesThatNeverComeHoldNoConnection: neither where the body is asked for, nor
// where it is of no interest.
func TestBodiesThatNeverComeHoldNoConnection(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	mux.HandleFunc("/ignore", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewUnstartedServer(nil)
	s.Config = gateway.NewServer(boundBodies(mux, 50*time.Millisecond), gateway.ServerOptions{})
	s.Start()
	defer s.Close()
	for path, want := range map[string]int{"/read": 400, "/ignore": 200, "/nowhere": 404} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\npart", path)
		r := bufio.NewReader(conn)
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != want {
			t.Errorf("POST %s with a body that does not come = %v, %v, want %d", path, res, err, want)
			continue
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("POST %s: the connection ends with %v, want it closed", path, err)
		}
		_ = conn.Close()
	}
}

// TestCallsAreHeldLongerThanTheirBodiesMayTake: the bound is for the body alone.
func TestCallsAreHeldLongerThanTheirBodiesMayTake(t *testing.T) {
	const bound = time.Second
	s := httptest.NewUnstartedServer(nil)
	s.Config = gateway.NewServer(boundBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		select {
		case <-r.Context().Done():
			t.Error("the call ends with the time for its body, want it held")
		case <-time.After(2 * bound):
		}
	}), bound), gateway.ServerOptions{})
	s.Start()
	defer s.Close()
	for range 2 { // on one connection
		res, err := s.Client().Post(s.URL, "text/plain", bufio.NewReader(io.LimitReader(zeros{}, 10)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
