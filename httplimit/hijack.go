package httplimit

import (
	"io"
	"net"
	"runtime"
)

// handOver lets a connection that a handler took over hold the call's permits:
// until it is closed, however often. One that is dropped without being closed gives
// them back when the garbage collector finds it.
func (h *holding) handOver(conn net.Conn) net.Conn {
	h.apart.Store(true)
	c := &heldConn{Conn: conn, holding: h}
	runtime.AddCleanup(c, func(h *holding) { go h.end() }, h)
	if half, ok := conn.(halfCloser); ok {
		return &heldHalfConn{heldConn: c, half: half}
	}
	return c
}

// heldConn is a connection that holds permits.
type heldConn struct {
	net.Conn
	holding *holding
}

// Close closes the connection and gives the permits back.
func (c *heldConn) Close() error {
	defer c.holding.end()
	return c.Conn.Close()
}

// ReadFrom hands files and other connections to the kernel where that is possible.
func (c *heldConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// NetConn gives the connection below, as that of a tls.Conn is found.
func (c *heldConn) NetConn() net.Conn { return c.Conn }

type halfCloser interface{ CloseWrite() error }

// heldHalfConn is one whose writing half can be closed by itself.
type heldHalfConn struct {
	*heldConn
	half halfCloser
}

// CloseWrite ends what is sent; what is received goes on, and so does the call.
func (c *heldHalfConn) CloseWrite() error { return c.half.CloseWrite() }
