package rule

import (
	"strings"
	"testing"
)

const ownRules = `domain: d
descriptors:
  - key: api_key
    rate_limits:
      - { name: rate, unit: minute, requests_per_unit: 100, burst: 30 }
      - { name: plain, unit: hour, requests_per_unit: 100 }
      - { name: queue, unit: day, requests_per_unit: 1000000, algorithm: leaky_bucket, queue: 1000000 }
  - key: user
    descriptors:
      - key: path
        value: /x
        rate_limit: { name: below, unit: minute, requests_per_unit: 10 }
  - key: user
    value: a*
    share_threshold: true
    rate_limit: { name: shared, unit: minute, requests_per_unit: 10 }
  - key: remote_address
    rate_limit: { name: address, unit: minute, requests_per_unit: 10 }
`

func TestNumbersOfItsOwn(t *testing.T) {
	set, _, err := Parse("own.yaml", []byte(ownRules))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]*Limit{}
	for _, l := range set.Limits() {
		named[l.Label] = l
	}
	for name, want := range map[string]bool{"rate": true, "plain": true, "below": true, "shared": false, "address": false} {
		if got := named[name].PerClient(); got != want {
			t.Errorf("PerClient of %s = %v, want %v", name, got, want)
		}
	}
	for _, c := range []struct {
		name            string
		n, burst, holds uint32
	}{
		{"rate", 1000, 300, 300}, {"rate", 1, 1, 1}, {"rate", 0, 1, 0}, {"rate", 101, 31, 31}, {"rate", 1<<32 - 1, 1288490189, 1288490189},
		{"plain", 7, 0, 7}, {"rate", 100, 30, 30},
	} {
		l := named[c.name]
		got, err := l.WithRequests(c.n)
		if err != nil || got.Limit().Requests != c.n || got.Limit().Burst != c.burst || got.Capacity() != uint64(c.holds) {
			t.Errorf("%s with %d = %+v, %v, want a burst of %d", c.name, c.n, got, err, c.burst)
			continue
		}
		if got.Scope() != l.Compiled.Scope() || got.Name() != l.Compiled.Name() {
			t.Errorf("%s with %d has the counter %q, want that of the rule", c.name, c.n, got.Scope())
		}
		if again, _ := l.WithRequests(c.n); again != got {
			t.Errorf("%s with %d is made anew each time", c.name, c.n)
		}
	}
	if got, err := named["queue"].WithRequests(1); err == nil || got != nil || !strings.Contains(err.Error(), "200 years") {
		t.Errorf("a queue of a million days = %v, %v, want an error", got, err)
	}
}
