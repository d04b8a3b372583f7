package rule_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

// FuzzParse: no text crashes the reader; what loads prints, and what is printed
// loads as the same rules.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.yaml")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && !strings.Contains(file, "bomb") {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 16<<10 {
			return
		}
		set, _, err := rule.Parse("fuzz.yaml", data)
		if err != nil {
			if set != nil || err.Error() == "" {
				t.Fatalf("Parse = %v and the error %q, want no set and words", set, err)
			}
			return
		}
		text := set.String()
		again, _, err := rule.Parse("fuzz.yaml", []byte(text))
		if err != nil {
			t.Fatalf("printed rules do not load: %v\n%s", err, text)
		}
		if got := again.String(); got != text {
			t.Fatalf("printed twice:\n%s\nand\n%s", text, got)
		}
		if changes := rule.Diff(set, again); len(changes) > 0 {
			t.Fatalf("printed rules mean something else: %v\n%s", changes, text)
		}
		set.Domains()[0].Explain(request{"path": "/x", "remote_address": "192.0.2.1"})
		a, b := set.Limits(), again.Limits()
		if len(a) != len(b) {
			t.Fatalf("%d limits became %d", len(a), len(b))
		}
		for i := range a {
			if a[i].Name != b[i].Name {
				t.Fatalf("limit %s became %s", a[i].Name, b[i].Name)
			}
		}
	})
}

// FuzzMatch: no value crashes the matcher, the keys of a match are bounded, and
// a used Match gives the same as a fresh one.
func FuzzMatch(f *testing.F) {
	d := parse(f, publicAPI+`
  - key: host
    value: a*b*c
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: remote_address
    value: "203.*"
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: header:X-User
    missing: shared
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: he*
    rate_limit: { unit: minute, requests_per_unit: 5 }
`)
	f.Add("/login", "abc", "203.0.113.7", "user", "k")
	f.Add("/legacy/x", "a-b-c", "2001:db8::1", "", "\x00")
	f.Add("", "", "", strings.Repeat("x", 5000), "")
	var used rule.Match
	f.Fuzz(func(t *testing.T, path, host, addr, user, key string) {
		req := request{"path": path, "host": host, "remote_address": addr, "header:X-User": user, "api_key": key, "plan": "free"}
		var fresh rule.Match
		d.Match(req, &fresh)
		d.Match(req, &used)
		if a, b := words(&fresh), words(&used); a != b {
			t.Fatalf("a fresh Match says %q and a used one %q", a, b)
		}
		a, b := identities(fresh.Calls), identities(used.Calls)
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("a fresh Match counts %s and a used one %s", a[i], b[i])
			}
			if n := len(fresh.Calls[i].Key); n > 4200 {
				t.Fatalf("a key has %d bytes", n)
			}
		}
		used.Reset()
		d.MatchDescriptor([]rule.Entry{{Key: user, Value: key}, {Key: host, Value: path}}, &used)
		d.MatchDescriptor([]rule.Entry{{Key: "remote_address", Value: addr}}, &used)
		used.Replace()
	})
}
