package envoyrls

import (
	"context"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// incoming is a request as it came, and what is wrong with it if it cannot be
// decoded. gRPC would answer that with Internal, as if the server had failed; the
// mistake is the caller's, and it should be told so.
type incoming struct {
	request pb.RateLimitRequest
	err     error
}

// codec is gRPC's own for protocol buffers, but for incoming requests that cannot
// be decoded.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal decodes a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	in.err = c.CodecV2.Unmarshal(data, &in.request)
	return nil
}

// serviceDesc is the protocol's, with incoming requests.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: pb.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: pb.RateLimitService_ServiceDesc.HandlerType,
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
	Metadata:    pb.RateLimitService_ServiceDesc.Metadata,
}

func shouldRateLimit(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(incoming)
	if err := decode(in); err != nil {
		return nil, err
	}
	if in.err != nil {
		return nil, status.Error(codes.InvalidArgument, "the request cannot be decoded: "+in.err.Error())
	}
	return srv.(*Service).ShouldRateLimit(ctx, &in.request)
}
