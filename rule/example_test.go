package rule_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/caudal-dev/caudal/rule"
)

// call is the smallest request: a path from an address.
type call struct {
	path string
	from string
}

func (c call) Attribute(name string) (string, bool) { return c.path, name == "path" }
func (c call) Address() netip.Addr                  { return netip.MustParseAddr(c.from) }

func Example() {
	set, warnings, err := rule.Parse("rules.yaml", []byte(`
domain: public-api
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 600, burst: 100 }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { unit: minute, requests_per_unit: 5, algorithm: sliding_log }
`))
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range warnings {
		fmt.Println(w.Level, w.Code)
	}
	domain, err := set.Default()
	if err != nil {
		log.Fatal(err)
	}
	var m rule.Match
	domain.Match(call{path: "/login", from: "203.0.113.7"}, &m)
	for i, limit := range m.Limits {
		fmt.Println(limit.Name, m.Calls[i].Cost)
	}
	// Output:
	// note shared-address-login
	// remote_address 1
	// path=/login.remote_address 1
}

func ExampleLimit_Describe() {
	set, _, err := rule.Parse("rules.yaml", []byte(`
domain: public-api
descriptors:
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { unit: minute, requests_per_unit: 5, algorithm: sliding_log }
`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Limits()[0].Describe())
	// Output:
	// 5 per minute, exact over any minute, for each remote_address where path is /login; worst case: at most 5 in any minute: exactly the limit, wherever the interval lies
}

func ExampleParse_mistake() {
	_, _, err := rule.Parse("rules.yaml", []byte(`
domain: public-api
descriptors:
  - key: api_key
    ratelimit: { unit: minute, requests_per_unit: 5 }
`))
	fmt.Println(err)
	// Output:
	// rules.yaml:5:5: descriptors[0].ratelimit: unknown key "ratelimit" in a descriptor (did you mean rate_limit?)
}
