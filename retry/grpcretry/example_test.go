package grpcretry_test

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/caudal-dev/caudal/retry"
	"github.com/caudal-dev/caudal/retry/grpcretry"
)

func Example() {
	on, err := grpcretry.New(grpcretry.Options{
		Backoff:    retry.Backoff{Base: 50 * time.Millisecond},
		Idempotent: func(method string) bool { return method == "/greeter.Greeter/Hello" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	conn, err := grpc.NewClient("passthrough:greeter.example.com:443",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(on.Unary), grpc.WithStreamInterceptor(on.Stream))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println(conn.Target())
	// Output: passthrough:greeter.example.com:443
}
