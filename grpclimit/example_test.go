package grpclimit_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/grpclimit"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
)

// stopped is a clock that stands still, so that the output is always the same.
type stopped struct{}

func (stopped) Now() caudal.Instant { return caudal.At(time.Unix(1_800_000_000, 0)) }

func Example() {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{Clock: stopped{}}), caudal.PerMinute(2)))
	limit, err := httplimit.New(limiter, httplimit.ByHeader("X-Api-Key"), httplimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	on, err := grpclimit.New(limit, grpclimit.Options{Domain: "greeter.example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// This is where they go.
	server := grpc.NewServer(grpc.UnaryInterceptor(on.Unary), grpc.StreamInterceptor(on.Stream))
	defer server.Stop()

	// What the server does with a call.
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-api-key", "secret"))
	hello := func(context.Context, any) (any, error) { return "hello", nil }
	for range 3 {
		answer, err := on.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/greeter.Greeter/Hello"}, hello)
		fmt.Printf("%v %s %q\n", answer, status.Code(err), status.Convert(err).Message())
	}
	// Output:
	// hello OK ""
	// hello OK ""
	// <nil> ResourceExhausted "limit \"default\" (2/minute) is used up; try again in 30s"
}

// In the tap a call is denied before the server starts anything for it.
func ExampleInterceptor_Tap() {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerSecond(10_000)))
	everyone := func(*http.Request) (string, error) { return "everyone", nil }
	limit, err := httplimit.New(limiter, everyone, httplimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	on, err := grpclimit.New(limit, grpclimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.InTapHandle(on.Tap))
	defer server.Stop()
	fmt.Println(limiter.Limit())
	// Output: 10000/second
}
