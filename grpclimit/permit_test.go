package grpclimit_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
)

// serverStream is as much of a stream as the interceptors look at.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s serverStream) Context() context.Context { return s.ctx }

// TestC41PermitsOfCalls: a unary call and a stream hold a permit until they end,
// also by an error or a panic, and one more at once is told to come back in a second.
func TestC41PermitsOfCalls(t *testing.T) {
	store := memstore.New(memstore.Options{})
	i := rules(t, `domain: d
descriptors:
  - key: path
    value: /test.Service/Method
    concurrency: { max: 1 }
`, store, httplimit.Options{})
	const method = "/test.Service/Method"
	unary := func(handler func() error) error {
		_, err := i.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) { return nil, handler() })
		return err
	}
	stream := func(handler func() error) error {
		return i.Stream(nil, serverStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: method}, func(any, grpc.ServerStream) error { return handler() })
	}
	for name, call := range map[string]func(func() error) error{"unary": unary, "stream": stream} {
		t.Run(name, func(t *testing.T) {
			for how, end := range map[string]func() error{
				"returns": func() error { return nil },
				"fails":   func() error { return errors.New("of the handler") },
				"panics":  func() error { panic("of the handler") },
			} {
				func() {
					defer func() { _ = recover() }()
					_ = call(func() error {
						if n := store.Permits(); n != 1 {
							t.Errorf("%s: %d permits are held during the call, want 1", how, n)
						}
						err := unary(func() error { return nil })
						if d := detailsOf(err); status.Code(err) != codes.ResourceExhausted || d.retry.GetRetryDelay().GetSeconds() != 1 {
							t.Errorf("%s: a second call at once = %v, want ResourceExhausted and a retry in 1 s", how, err)
						}
						return end()
					})
				}()
				if n := store.Permits(); n != 0 {
					t.Errorf("%s: %d permits are held after the call, want 0", how, n)
				}
			}
		})
	}
}
