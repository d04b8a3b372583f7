package gateway

import (
	"log/slog"
	"net/http"
	"time"
)

// ServerOptions are the settings of the side that faces clients. A zero field
// means its default; a negative one no bound.
type ServerOptions struct {
	// ReadHeader is how long a client may take to send a request's header. Default
	// 10s.
	ReadHeader time.Duration
	// Read is how long it may take for the whole request, and Write for the
	// response. Default no bound: they would cut streams and uploads off.
	Read, Write time.Duration
	// Idle is how long an unused connection is kept. Default 120s.
	Idle time.Duration
	// MaxHeaderBytes bounds a request's header. Default 64 KiB.
	MaxHeaderBytes int
	// MaxStreams is how many requests one HTTP/2 connection may have under way.
	// Default 250.
	MaxStreams int
	// Logger gets what the server has to say about connections. Default
	// slog.Default().
	Logger *slog.Logger
}

// NewServer makes a server for a gateway, or any handler. It speaks HTTP/1.1 and
// HTTP/2, also without TLS to clients that begin with it (h2c).
func NewServer(h http.Handler, o ServerOptions) *http.Server {
	if o.MaxHeaderBytes <= 0 {
		o.MaxHeaderBytes = 64 << 10
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = 250
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		Protocols:         p,
		ReadHeaderTimeout: orDefault(o.ReadHeader, 10*time.Second),
		ReadTimeout:       orDefault(o.Read, 0),
		WriteTimeout:      orDefault(o.Write, 0),
		IdleTimeout:       orDefault(o.Idle, 120*time.Second),
		MaxHeaderBytes:    o.MaxHeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: o.MaxStreams},
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
}
