package identity

import (
	"net/url"
	"strings"
	"testing"
	"unicode"
)

func TestForwardPath(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "/"},
		{"/", "/"},
		{"/api/login", "/api/login"},
		{"api", "/api"},
		{"/api/login/", "/api/login/"},
		{"//api//login", "/api/login"},
		{"/api/./login", "/api/login"},
		{"/api/x/../login", "/api/login"},
		{"/../../login", "/login"},
		{"/api/..", "/"},
		{"/api/x/..", "/api/"},
		{"/api/.", "/api/"},
		{"/api/..x/.y/...", "/api/..x/.y/..."},
		{"/api/%6cogin", "/api/login"},
		{"/api/%2e%2E/login", "/login"},
		{"/api%2flogin", "/api%2Flogin"},
		{"/api%2F..%2Flogin", "/api%2F..%2Flogin"},
		{"/api/login;x=1", "/api/login;x=1"},
		{"/a%20b", "/a%20b"},
		{"/a b", "/a%20b"},
		{"/%zz%4", "/%25zz%254"},
		{"/%2541", "/%2541"},
		{"/caf\xc3\xa9%c3%a9", "/caf%C3%A9%C3%A9"},
		{"/a?b#c\\", "/a%3Fb%23c%5C"},
		{"/\x00\x7f", "/%00%7F"},
		{"/users/@me/%40me", "/users/@me/%40me"},
		{"*", "*"},
		{"**", "/**"},
	} {
		if got := NormalizePath(c.in); got != c.want {
			t.Errorf("NormalizePath(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestForwardPathOfURL(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/a%2fb", "/a%2Fb"},
		{"/\xc3\xa9%2fb", "/%C3%A9%2Fb"}, // EscapedPath alone would turn the %2F into a slash
		{"//host/b", "/host/b"},          // no authority in a request line
		{"mailto:x", "/"},                // an opaque URL has no path
		{"http://other.example/a/../b", "/b"},
	} {
		u, err := url.ParseRequestURI(c.in)
		if err != nil {
			t.Fatalf("ParseRequestURI(%q): %v", c.in, err)
		}
		if got := ForwardPath(u); got != c.want {
			t.Errorf("ForwardPath(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// spellings are requests that may all reach the handler of /api/login.
var spellings = []string{
	"/api/login", "/api/login/", "//api/login", "/api//login", "/api/./login", "/api/x/../login",
	"/api/%6cogin", "/api/login;x=1", "/api%2Flogin", "/api%2flogin", "/api;v=2/login", "/api/..;/api/login",
	"/api/%2e/login", "/api/login%2F", "/x%2F..%2Fapi/login", "/api/login%3Bx=1", "/%61%70%69/login/.",
	"/api/login;x=%2Fy", "/api/login;/", "/./api/login",
}

func TestC88SpellingsShareOneKey(t *testing.T) {
	for _, s := range spellings {
		if got := MatchPath(s, false); got != "/api/login" {
			t.Errorf("MatchPath(%q, false) = %q, want %q", s, got, "/api/login")
		}
	}
	for _, s := range append(spellings, "/API/LOGIN", "/Api/%4Cogin") {
		if got := MatchPath(s, true); got != "/api/login" {
			t.Errorf("MatchPath(%q, true) = %q, want %q", s, got, "/api/login")
		}
	}
}

func TestMatchPathKeepsApart(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []string{"/", "/a", "/A", "/a/b", "/a%20b", "/a%252Fb", "/a+b", "/@me", "/a:b", "/a%3Fb", "/%C3%89", "/%C3%A9"} {
		got := MatchPath(s, false)
		if other, ok := seen[got]; ok {
			t.Errorf("MatchPath(%q) = MatchPath(%q) = %q, want two keys", s, other, got)
		}
		seen[got] = s
	}
}

func TestMatchPathDecodesWhatNeedsNoEscape(t *testing.T) {
	for in, want := range map[string]string{"/users/%40me": "/users/@me", "/a%21%2C": "/a!,", "/a%25": "/a%25", "/%5C": "/%5C"} {
		if got := MatchPath(in, false); got != want {
			t.Errorf("MatchPath(%q, false) = %q, want %q", in, got, want)
		}
	}
}

func TestMatchPathFoldsBeyondASCII(t *testing.T) {
	for in, want := range map[string]string{
		"/%C3%89":    MatchPath("/%C3%A9", true), // É é
		"/%E2%84%AA": "/k",                       // the Kelvin sign
		"/%C3A":      "/%C3a",                    // no UTF-8: only the letter folds
		"/%20X":      "/%20x",
	} {
		if got := MatchPath(in, true); got != want {
			t.Errorf("MatchPath(%q, true) = %q, want %q", in, got, want)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		f := foldRune(r)
		if foldRune(f) != f || f != foldRune(unicode.ToLower(r)) && unicode.SimpleFold(r) != r && unicode.SimpleFold(unicode.ToLower(r)) != unicode.ToLower(r) {
			t.Fatalf("foldRune(%U) = %U, which folds on to %U", r, f, foldRune(f))
		}
	}
}

func TestMatchPathOfCleanPathsDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { MatchPath("/api/v1/items/4711", true) }); n != 0 {
		t.Errorf("MatchPath of a clean path allocates %v times, want 0", n)
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range spellings {
		f.Add(s)
	}
	f.Add("/%zz/%c3%A9/..;x/%2E%2e%2f;")
	f.Fuzz(func(t *testing.T, in string) {
		forward := NormalizePath(in)
		if again := NormalizePath(forward); again != forward {
			t.Fatalf("NormalizePath is not idempotent: %q -> %q -> %q", in, forward, again)
		}
		if forward == "*" {
			return
		}
		u, err := url.ParseRequestURI(forward)
		if err != nil && !strings.HasPrefix(forward, "//") {
			t.Fatalf("NormalizePath(%q) = %q, which is no path: %v", in, forward, err)
		}
		if got := (&url.URL{Path: u.Path, RawPath: forward}).EscapedPath(); got != forward {
			t.Fatalf("NormalizePath(%q) = %q goes over the wire as %q", in, forward, got)
		}
		for _, segment := range strings.Split(forward[1:], "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("NormalizePath(%q) = %q holds a dot segment", in, forward)
			}
		}
		for _, fold := range []bool{false, true} {
			match := MatchPath(in, fold)
			// Never finer: what is forwarded alike is matched alike.
			if other := MatchPath(forward, fold); other != match {
				t.Fatalf("MatchPath(%q, %v) = %q, but of its forwarded form %q it is %q", in, fold, match, forward, other)
			}
			if again := MatchPath(match, fold); again != match {
				t.Fatalf("MatchPath(.., %v) is not idempotent: %q -> %q -> %q", fold, in, match, again)
			}
			// And the spellings that servers take for the same.
			variants := []string{forward + "/", "/" + forward, "/." + forward, forward + ";x=1"}
			if !strings.Contains(forward, ";") && !strings.Contains(forward, "%3B") {
				// Within parameters an escaped slash is part of them.
				variants = append(variants, strings.ReplaceAll(forward, "/", "%2F"))
			}
			for _, variant := range variants {
				if other := MatchPath(variant, fold); other != match && forward != "/" {
					t.Fatalf("MatchPath(%q, %v) = %q, but its variant %q gives %q", in, fold, match, variant, other)
				}
			}
		}
	})
}
