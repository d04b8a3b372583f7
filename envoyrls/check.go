package envoyrls

import (
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"math"
)

// What a request may hold at most. Proxies send a handful of descriptors; these
// bounds only keep one caller from making the service work for nothing.
const (
	MaxDescriptors = 256       // descriptors in a request
	MaxEntries     = 64        // entries in a descriptor
	MaxText        = 32 << 10  // bytes in a key or a value
	MaxDomain      = 1024      // bytes in the domain's name
	MaxTotal       = 256 << 10 // bytes in all keys and values together
)

// maxLimits is how many limits a store can check at once.
const maxLimits = 255

// checkLimits refuses requests to which more limits apply than can be checked: on a
// shared store that would be a failure, and be answered as its limits say without it.
func checkLimits(n int) error {
	if n > maxLimits {
		return invalid("%d limits apply to this request: at most %d can; send fewer descriptors at a time", n, maxLimits)
	}
	return nil
}

// check refuses requests that nobody could answer.
func check(req *pb.RateLimitRequest) error {
	switch {
	case req.GetDomain() == "":
		return invalid("rate limit domain must not be empty")
	case len(req.Domain) > MaxDomain:
		return invalid("rate limit domain of %d bytes is too long: at most %d", len(req.Domain), MaxDomain)
	case len(req.Descriptors) == 0:
		return invalid("rate limit descriptor list must not be empty")
	case len(req.Descriptors) > MaxDescriptors:
		return invalid("%d descriptors are too many: at most %d in a request", len(req.Descriptors), MaxDescriptors)
	}
	total := 0
	for i, d := range req.Descriptors {
		n, err := checkDescriptor(i, d)
		if err != nil {
			return err
		}
		if total += n; total > MaxTotal {
			return invalid("keys and values of %d bytes and more are too long: at most %d in a request", total, MaxTotal)
		}
	}
	return nil
}

func checkDescriptor(i int, d *ratelimit.RateLimitDescriptor) (size int, err error) {
	if len(d.GetEntries()) > MaxEntries {
		return 0, invalid("descriptors[%d] has %d entries: at most %d", i, len(d.Entries), MaxEntries)
	}
	for j, e := range d.GetEntries() {
		if len(e.GetKey()) > MaxText || len(e.GetValue()) > MaxText {
			return 0, invalid("descriptors[%d].entries[%d] is too long: a key and a value may have %d bytes each", i, j, MaxText)
		}
		size += len(e.GetKey()) + len(e.GetValue())
	}
	if h := d.GetHitsAddend(); h != nil && h.Value > math.MaxUint32 && !d.IsNegativeHits {
		return 0, invalid("descriptors[%d].hits_addend %d is too large: at most %d", i, h.Value, uint32(math.MaxUint32))
	}
	return size, nil
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
