package redisstore

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// askTimeout bounds the question whether a server speaks TLS.
const askTimeout = 500 * time.Millisecond

// hintTLS looks, when the first connection failed, whether the server speaks TLS
// where the URL says that it does not, or the other way round: it then resets the
// connection, or waits for more, and the failure by itself says neither.
func (k *link) hintTLS(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.kind != KindConnection && e.kind != KindTimeout || len(k.target.addrs) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(k.ctx, askTimeout)
	defer cancel()
	addr, text := k.target.addrs[0], ""
	switch {
	case k.target.tls == nil && speaksTLS(ctx, addr):
		text = "speaks TLS: begin the URL with rediss instead of redis"
	case k.target.tls != nil && speaksPlain(ctx, addr):
		text = "does not speak TLS: begin the URL with redis instead of rediss, or name its TLS port"
	default:
		return err
	}
	return &Error{e.op, e.kind, false, fmt.Errorf("%s %s: %w", addr, text, e.err)}
}

// speaksTLS reports whether a handshake succeeds. Nothing is sent after it, so whom
// it is with does not matter.
func speaksTLS(ctx context.Context, addr string) bool {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close() // it was only to be asked
	return true
}

// speaksPlain reports whether a PING is answered as Redis answers, be it with an
// error. No password is sent.
func speaksPlain(ctx context.Context, addr string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	if conn.SetDeadline(until) != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	first, err := bufio.NewReader(conn).ReadByte()
	return err == nil && (first == '+' || first == '-')
}
