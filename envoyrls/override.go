package envoyrls

import (
	"crypto/sha256"
	"sync"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// OverrideName is the name under which limits that requests bring are counted in
// metrics, all those of a domain together: callers choose the numbers, and must
// not be able to make series.
const OverrideName = "override"

// maxOverrides bounds how many limits of requests are kept compiled. Their
// counters do not depend on it.
const maxOverrides = 1024

// overrides are the limits that requests bring. The zero value is ready.
type overrides struct {
	epoch bool // fixed windows, as the reference counts

	mu    sync.RWMutex
	known map[overrideKey]*rule.Limit
}

type overrideKey struct {
	domain     string
	requests   uint32
	unit       caudal.Unit
	multiplier uint32
}

var overrideUnits = map[envoytype.RateLimitUnit]caudal.Unit{
	envoytype.RateLimitUnit_SECOND: caudal.Second,
	envoytype.RateLimitUnit_MINUTE: caudal.Minute,
	envoytype.RateLimitUnit_HOUR:   caudal.Hour,
	envoytype.RateLimitUnit_DAY:    caudal.Day,
	envoytype.RateLimitUnit_MONTH:  caudal.Month,
	envoytype.RateLimitUnit_YEAR:   caudal.Year,
}

// override adds the call of a descriptor that brings its own limit. The rules are
// not asked; all values are part of the counter.
func (s *Service) override(x *exchange, i int, d *ratelimit.RateLimitDescriptor) error {
	o := d.GetLimit()
	unit, ok := overrideUnits[o.GetUnit()]
	if !ok {
		return invalid("descriptors[%d].limit.unit is %s: set one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR", i, o.GetUnit())
	}
	multiplier := uint32(0)
	if m := o.GetUnitMultiplier(); m != nil {
		if m.Value == 0 {
			return invalid("descriptors[%d].limit.unit_multiplier is 0: leave it out, or set it to 1 and more", i)
		}
		if m.Value > 1 { // one unit is one unit: the same counter
			multiplier = m.Value
		}
	}
	l, err := s.overrides.get(overrideKey{x.domain, o.GetRequestsPerUnit(), unit, multiplier})
	if err != nil {
		return invalid("descriptors[%d].limit: %s", i, err)
	}
	start := len(x.keys)
	x.keys = append(x.keys, keyText)
	for _, e := range d.GetEntries() {
		x.keys = caudal.AppendPart(x.keys, e.GetKey())
		x.keys = caudal.AppendPart(x.keys, e.GetValue())
	}
	if len(x.keys)-start > maxKey {
		sum := sha256.Sum256(x.keys[start:])
		x.keys = append(append(x.keys[:start], keyHash), sum[:]...)
	}
	key := x.keys[start:len(x.keys):len(x.keys)]
	x.match.Limits = append(x.match.Limits, l)
	x.match.Calls = append(x.match.Calls, caudal.Call{Limit: l.Compiled, Key: key})
	return nil
}

// maxKey is the longest key of an override that is not hashed. The first byte
// keeps a hash and a text apart.
const (
	maxKey  = 4096
	keyText = 't'
	keyHash = 'h'
)

func (o *overrides) get(k overrideKey) (*rule.Limit, error) {
	o.mu.RLock()
	l := o.known[k]
	o.mu.RUnlock()
	if l != nil {
		return l, nil
	}
	limit := caudal.Limit{Algorithm: caudal.TokenBucket, Requests: k.requests, Unit: k.unit, Multiplier: k.multiplier}
	if o.epoch {
		limit.Algorithm, limit.Epoch = caudal.FixedWindow, true
	}
	compiled, err := limit.Compile(OverrideName, string(caudal.AppendPart([]byte(OverrideName), k.domain)))
	if err != nil {
		return nil, err
	}
	l = &rule.Limit{Compiled: compiled, Domain: k.domain, Name: OverrideName, Path: OverrideName, EnforcePercent: 100}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil || len(o.known) >= maxOverrides {
		o.known = make(map[overrideKey]*rule.Limit)
	}
	o.known[k] = l
	return l, nil
}
