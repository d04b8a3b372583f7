package cli

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// startEcho runs the demo's upstream on a free port of this machine: it answers
// every request with one line about it.
func startEcho() (*http.Server, *url.URL, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("cannot start the demo's upstream: %w", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(ln) }() // ends when it is closed
	return server, &url.URL{Scheme: "http", Host: ln.Addr().String()}, nil
}

func echo(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 1<<20)) // read it, or the connection cannot be used again
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s %s from %s\n", r.Method, r.URL.EscapedPath(), r.Header.Get("X-Real-Ip"))
}
