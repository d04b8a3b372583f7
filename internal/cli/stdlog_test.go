package cli

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestLibrariesLogInFormat: net/http prints by itself what an upstream says out of
// turn, over several lines if that has some.
func TestLibrariesLogInFormat(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go talkOutOfTurn(l)
	p := launch(t, "serve", "--upstream", "http://"+l.Addr().String(), "--limit", "100/s", "--log-format", "json")
	address := p.waitFor(t, `"listener":"gateway","address":"([^"]+)"`)
	res, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	p.waitFor(t, `^\{.*"msg":"Unsolicited response received on idle HTTP channel.*\}$`)
	p.end(t)
}

// talkOutOfTurn answers requests, each twice.
func talkOutOfTurn(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			_ = r.Body.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.WriteString(conn, "one\nmore\n")
			_, _ = io.Copy(io.Discard, conn)
		}()
	}
}
