package spell

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"upstream", "limit", "listen"}
	for _, tc := range []struct{ word, want string }{
		{"upstraem", "upstream"},
		{"upstreams", "upstream"},
		{"limt", "limit"},
		{"listne", "listen"},
		{"limti", "limit"},
		{"ilmit", "limit"},
		{"lsiten", "listen"},
		{"x", ""},
		{"", ""},
		{"something else", ""},
	} {
		if got := Nearest(tc.word, names); got != tc.want {
			t.Errorf("Nearest(%q) = %q, want %q", tc.word, got, tc.want)
		}
	}
}
