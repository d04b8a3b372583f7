package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/caudal-dev/caudal/identity"
)

// TestLikelyFalsePositivesOfUsersBehindOneAddress: three users with keys share an
// address that a rule limits. The denied ones are counted, and the rule's most denied
// key is the address, under the hash that caudal hash prints.
func TestLikelyFalsePositivesOfUsersBehindOneAddress(t *testing.T) {
	var lines []byte
	for _, user := range []string{"ann", "ben", "cleo"} {
		lines = append(lines, `{"hash":"`+identity.HashKey("key of "+user).String()+`","user":"`+user+`","plan":"free"}`+"\n"...)
	}
	keys := filepath.Join(t.TempDir(), "keys.jsonl")
	if err := os.WriteFile(keys, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { name: by-address, unit: hour, requests_per_unit: 2 }
`, Config{Who: Who{Keys: keys}}, Deps{})
	c := client(t, "127.0.0.1")
	for range 2 {
		for _, user := range []string{"ann", "ben", "cleo"} {
			f.ask(c, http.MethodGet, "/", "X-API-Key", "key of "+user)
		}
	}
	f.ask(c, http.MethodGet, "/", "X-API-Key", "made up")
	// Allowed: ann, ben. Denied: cleo, ann, ben, cleo, and one whom nobody knows.
	for _, line := range []string{
		`caudal_likely_false_positives_total{domain="shop",kind="verified_user",rule="by-address"} 4`,
		`caudal_likely_false_positives_total{domain="shop",kind="shared_address",rule="by-address"} 2`,
		`caudal_likely_false_positives_total{domain="shop",kind="barely_over",rule="by-address"} 1`,
	} {
		f.wantCount(line)
	}
	top := f.metrics.Denied("shop", "by-address", 1)
	if want := identity.HashKey("127.0.0.1").String(); len(top.Entries) != 1 || top.Entries[0].Hash != want || top.Entries[0].Count != 5 {
		t.Errorf("most denied = %+v, want 5 of %s", top, want)
	}
}
