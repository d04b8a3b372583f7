package gateway

import (
	"net"
	"net/http"
	"strings"
	"time"
)

// transport sends requests by HTTP/1.1, or HTTP/2 where TLS offers it; and gRPC,
// which knows nothing else, by HTTP/2 also without TLS.
type transport struct {
	usual, h2c *http.Transport
}

func newTransport(o *Options) http.RoundTripper {
	h2c := dialer(o)
	h2c.Protocols = new(http.Protocols)
	h2c.Protocols.SetUnencryptedHTTP2(true)
	if o.Upstream.Scheme == "h2c" {
		return h2c
	}
	usual := dialer(o)
	usual.Protocols = new(http.Protocols)
	usual.Protocols.SetHTTP1(true)
	usual.Protocols.SetHTTP2(true)
	return &transport{usual: usual, h2c: h2c}
}

func dialer(o *Options) *http.Transport {
	idle := o.MaxIdleConns
	if idle <= 0 {
		idle = 512
	}
	t := &o.Timeouts
	dial := net.Dialer{Timeout: orDefault(t.Dial, 5*time.Second), KeepAlive: 30 * time.Second}
	return &http.Transport{
		// No proxy of the environment: the upstream is where it was said to be.
		DialContext:           dial.DialContext,
		TLSHandshakeTimeout:   orDefault(t.TLSHandshake, 5*time.Second),
		ResponseHeaderTimeout: orDefault(t.ResponseHeader, 60*time.Second),
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       orDefault(t.Idle, 90*time.Second),
		MaxIdleConns:          idle,
		MaxIdleConnsPerHost:   idle,
		// Or net/http asks for gzip where the client did not, and unpacks it.
		DisableCompression: true,
		HTTP2:              &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") && r.ProtoMajor == 2 {
		return t.h2c.RoundTrip(r)
	}
	return t.usual.RoundTrip(r)
}

// CloseIdleConnections closes connections that nobody uses.
func (t *transport) CloseIdleConnections() {
	t.usual.CloseIdleConnections()
	t.h2c.CloseIdleConnections()
}
