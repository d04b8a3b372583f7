package serve

import "testing"

func TestMatchForm(t *testing.T) {
	for _, c := range []struct {
		key, value string
		fold       bool
		want       string
	}{
		{"path", "/login", false, "/login"},
		{"path", "/login/", false, "/login"},
		{"path", "login", false, "/login"},
		{"path", "/Login?x=1", false, "/Login"},
		{"path", "/Login?x=1", true, "/login"},
		{"path", "//x", false, "/x"},
		{"path", "/a/../x#top", false, "/x"},
		{"path", "/a;v=1/x", false, "/a/x"},
		{"path", "/%6cogin", false, "/login"},
		{"path", "/café", false, "/caf%C3%A9"},
		{"path", "/", false, "/"},
		{"path", "*", false, "*"},
		{"path", "/api/*", false, "/api/*"},
		{"path", "/api*/x/", false, "/api*/x"},
		{"path", "*/login", false, "*/login"},
		{"path", "*/login/", false, "*/login"},
		{"path", "*.json", false, "*.json"},
		{"path", "*/", false, "*/"},
		{"method", "post", false, "POST"},
		{"method", "POST", false, "POST"},
		{"host", "API.example.com:443", false, "api.example.com"},
		{"host", "*.example.com", false, "*.example.com"},
		{"header:X-A", "a/", false, "a/"},
	} {
		if got := MatchForm(c.fold)(c.key, c.value); got != c.want {
			t.Errorf("MatchForm(%t)(%q, %q) = %q, want %q", c.fold, c.key, c.value, got, c.want)
		}
	}
}
