package gateway

import (
	"net"
	"net/http"
	"time"
)

// transport sends requests by HTTP/1.1, or HTTP/2 where TLS offers it; and gRPC,
// which knows nothing else, by HTTP/2 also without TLS.
type transport struct {
	usual, h2c *http.Transport
}

// transportKey is what connections are made by. Routes that agree in it share them.
type transportKey struct {
	timeouts Timeouts
	h2c      bool
}

// transport gives the connections for a route.
func (g *Gateway) transport(o *Options, r *Route) http.RoundTripper {
	key := transportKey{r.Timeouts, r.Upstream.Scheme == "h2c"}
	key.timeouts.Total = 0 // not theirs
	t := g.transports[key]
	if t == nil {
		if t = o.Transport; t == nil {
			t = newTransport(&key, o.MaxIdleConns)
		}
		g.transports[key] = t
	}
	return t
}

func newTransport(key *transportKey, maxIdle int) http.RoundTripper {
	h2c := dialer(&key.timeouts, maxIdle)
	h2c.Protocols = new(http.Protocols)
	h2c.Protocols.SetUnencryptedHTTP2(true)
	if key.h2c {
		return h2c
	}
	usual := dialer(&key.timeouts, maxIdle)
	usual.Protocols = new(http.Protocols)
	usual.Protocols.SetHTTP1(true)
	usual.Protocols.SetHTTP2(true)
	return &transport{usual: usual, h2c: h2c}
}

func dialer(t *Timeouts, idle int) *http.Transport {
	if idle <= 0 {
		idle = 512
	}
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
	if r.URL.Scheme == "http" && isGRPC(r) && r.ProtoMajor == 2 {
		return t.h2c.RoundTrip(r)
	}
	return t.usual.RoundTrip(r)
}

// CloseIdleConnections closes connections that nobody uses.
func (t *transport) CloseIdleConnections() {
	t.usual.CloseIdleConnections()
	t.h2c.CloseIdleConnections()
}

func closeIdle(t http.RoundTripper) {
	if t, ok := t.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
