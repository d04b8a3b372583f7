package proxytest

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestUnixSocket: a peer on a socket is one of this machine, and what a process
// left behind that was killed is taken away.
func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "caudal") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "caudal.sock")
	startCaudal(t, "unix:"+path).Kill()
	startCaudal(t, "unix:"+path)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	for i, want := range []int{200, 200, 200, 429} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://caudal/v1/authorize?headers=original", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Original-URI", "/api/login")
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		res, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("authorize %d over the socket = %d, want %d", i+1, res.StatusCode, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket = %v (%v), want mode 0660", info.Mode(), err)
	}
}
