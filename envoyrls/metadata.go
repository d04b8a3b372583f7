package envoyrls

import (
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/caudal-dev/caudal/rule"
)

// metadata tells the proxy what was asked, and what the rules of the descriptors
// that were not over say in metadata. Where two say different things under one
// key the first wins; maps are merged.
func metadata(x *exchange, req *pb.RateLimitRequest, statuses []statusParts) *structpb.Struct {
	descriptors := make([]*structpb.Value, len(req.Descriptors))
	for i, d := range req.Descriptors {
		descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: descriptorFields(d)})
	}
	fields := map[string]*structpb.Value{
		"domain":      text(req.Domain),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}
	if req.HitsAddend != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(req.HitsAddend))
	}
	merged := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range x.parts {
		if statuses[i].status.Code == pb.RateLimitResponse_OVER_LIMIT {
			continue
		}
		for j := x.parts[i].first; j < x.parts[i].last; j++ {
			mergeInto(merged, metadataOf(x.match.Limits[j]))
		}
	}
	if len(merged.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(merged)
	}
	return &structpb.Struct{Fields: fields}
}

func descriptorFields(d *ratelimit.RateLimitDescriptor) map[string]*structpb.Value {
	entries := make([]*structpb.Value, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = text(e.GetKey() + "=" + e.GetValue())
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if o := d.GetLimit(); o != nil {
		s := "requests_per_unit:" + strconv.FormatUint(uint64(o.RequestsPerUnit), 10) + " unit:" + o.Unit.String()
		if o.UnitMultiplier != nil {
			s += " unit_multiplier:" + strconv.FormatUint(uint64(o.UnitMultiplier.Value), 10)
		}
		fields["limit"] = text(s)
	}
	if h := d.GetHitsAddend(); h != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(h.Value))
	}
	return fields
}

// text makes a value of a text, which came in UTF-8 or would not be here; what the
// Go API is handed may be anything.
func text(s string) *structpb.Value { return structpb.NewStringValue(strings.ToValidUTF8(s, "\uFFFD")) }

func metadataOf(l *rule.Limit) *structpb.Struct {
	if len(l.Metadata) == 0 {
		return nil
	}
	s, err := structpb.NewStruct(l.Metadata)
	if err != nil {
		return nil // the rules hold nothing that has no place in JSON
	}
	return s
}

// mergeInto adds what is not there yet.
func mergeInto(s, more *structpb.Struct) {
	for k, v := range more.GetFields() {
		have, ok := s.Fields[k]
		if !ok {
			s.Fields[k] = v
			continue
		}
		if a, b := have.GetStructValue(), v.GetStructValue(); a != nil && b != nil {
			if a.Fields == nil {
				a.Fields = map[string]*structpb.Value{}
			}
			mergeInto(a, b)
		}
	}
}
