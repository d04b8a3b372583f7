package rlsbench

import (
	"context"
	"net"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// Floor answers OK to every request without deciding, until ctx ends: what the
// protocol costs by itself, to compare with.
func Floor(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(server, floor{})
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

type floor struct {
	pb.UnimplementedRateLimitServiceServer
}

func (floor) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}
