package rule_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

const keyPartRules = `
domain: shop
descriptors:
  - key: path
    value: /api/*
    descriptors:
      - key: plan
        value: free
        descriptors:
          - key: api_key
            rate_limit: { name: by-key, unit: minute, requests_per_unit: 5 }
  - key: user
    rate_limit: { name: by-user, unit: minute, requests_per_unit: 5 }
  - key: remote_address
    rate_limit: { name: by-address, unit: minute, requests_per_unit: 5 }
`

type keyed map[string]string

func (k keyed) Attribute(name string) (string, bool) { v, ok := k[name]; return v, ok }
func (k keyed) Address() netip.Addr                  { return netip.MustParseAddr("192.0.2.7") }

func TestKeyPartsReadKeysBack(t *testing.T) {
	set, _, err := rule.Parse("rules.yaml", []byte(keyPartRules))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("k", 5000)
	for _, tt := range []struct {
		req  keyed
		want map[string]string
	}{
		{keyed{"path": "/api/x", "plan": "free", "api_key": "k-1", "user": "alice"}, map[string]string{
			"by-key":     "[{path /api/* false false true false false} {plan free false true false false false} {api_key k-1 false false false false false}]",
			"by-user":    "[{user alice false false false false false}]",
			"by-address": "[{remote_address 192.0.2.7 false false false false false}]",
		}},
		{keyed{"path": "/api/x", "plan": "free", "api_key": long}, map[string]string{
			"by-user": "[{user 192.0.2.7 false false false true true}]",
		}},
	} {
		var m rule.Match
		domain.Match(tt.req, &m)
		got := map[string]string{}
		for i, l := range m.Limits {
			parts := l.KeyParts(m.Calls[i].Key)
			got[l.Name] = fmt.Sprint(parts)
			if l.Name == "by-key" && tt.req["api_key"] == long && (!parts[2].Hashed || len(parts[2].Value) != 64) {
				t.Errorf("KeyParts of a key of 5000 bytes = %v, want its hash", parts)
			}
			for cut := range m.Calls[i].Key { // whatever is no key gives nothing, or fewer parts; never a panic
				l.KeyParts(m.Calls[i].Key[:cut])
			}
			if parts := l.KeyParts(append([]byte("zz"), m.Calls[i].Key...)); parts != nil {
				t.Errorf("KeyParts of what is no key = %v, want nil", parts)
			}
		}
		for name, want := range tt.want {
			if got[name] != want {
				t.Errorf("KeyParts of %s = %s, want %s", name, got[name], want)
			}
		}
	}
}

func TestKeyPartsOfDescriptors(t *testing.T) {
	set, _, err := rule.Parse("rules.yaml", []byte(keyPartRules))
	if err != nil {
		t.Fatal(err)
	}
	domain, _ := set.Domain("shop")
	var m rule.Match
	domain.MatchDescriptor([]rule.Entry{{Key: "path", Value: "/api/y"}, {Key: "plan", Value: "free"}, {Key: "api_key", Value: "k-2"}}, &m)
	if len(m.Limits) != 1 {
		t.Fatalf("matched %v, want by-key", m.Limits)
	}
	parts := m.Limits[0].KeyParts(m.Calls[0].Key)
	if len(parts) != 3 || parts[0].Value != "/api/y" || parts[0].Rule || parts[2].Value != "k-2" {
		t.Errorf("KeyParts = %v, want /api/y and k-2", parts)
	}
}
