package grpclimit

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// request gives a call as the request of HTTP/2 that it came as, for a decider to
// look at. It has no body.
func request(ctx context.Context, method string, md metadata.MD) *http.Request {
	r := &http.Request{
		Method:     http.MethodPost,
		URL:        &url.URL{Path: method},
		Proto:      "HTTP/2.0",
		ProtoMajor: 2,
		Header:     make(http.Header, len(md)+1),
		RequestURI: method,
	}
	for name, values := range md {
		switch {
		case name == ":authority":
			if len(values) > 0 {
				r.Host = values[0]
			}
		case strings.HasPrefix(name, ":"), strings.HasSuffix(name, "-bin"):
		default:
			// Shared with the call: nobody changes the headers of a request that is
			// decided about.
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	r.Header["Content-Type"] = []string{"application/grpc"}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		r.RemoteAddr = p.Addr.String()
		if p.Addr.Network() == "unix" && p.LocalAddr != nil {
			ctx = context.WithValue(ctx, http.LocalAddrContextKey, p.LocalAddr)
		}
		if tls, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &tls.State
		}
	}
	return r.WithContext(ctx)
}
