package identity

import (
	"bytes"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ForwardPath gives the path of a request in the form in which a gateway
// forwards it: it begins with a slash, dot segments are removed, slashes
// collapsed, and escapes of unreserved characters (letters, digits, - . _ ~)
// decoded. Other escapes are kept, in upper case, %2F among them; so are a
// trailing slash, path parameters (;x=1) and letter case. Bytes that may not
// stand in a path are escaped. The path "*" of OPTIONS stays as it is.
//
// The result is escaped: assign it to both URL.RawPath and, unescaped, to
// URL.Path.
func ForwardPath(u *url.URL) string { return NormalizePath(escapedPath(u)) }

func escapedPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// NormalizePath is ForwardPath for an escaped path. It is idempotent.
func NormalizePath(escaped string) string {
	if escaped == "*" || isNormal(escaped) {
		return escaped
	}
	return removeDots(reescape(escaped))
}

// MatchPath gives the path that rules and keys use, from any spelling of it. It
// is made from the forwarded form by also dropping path parameters and the
// trailing slash, reading %2F as a slash, and decoding the escapes of all
// characters that may stand in a path, such as %40; dot segments and double
// slashes that appear by that are removed in turn. With fold, letters become
// lower case, by Unicode's simple folding.
//
// Each step only joins spellings. Two requests whose forwarded paths are equal
// have equal matching paths; the reverse need not hold. MatchPath is idempotent:
// write the values of path rules in this form.
func MatchPath(escaped string, fold bool) string {
	p := NormalizePath(escaped)
	if p == "*" {
		return p
	}
	if strings.ContainsAny(p, "%;") {
		p = removeDots(loosened(p))
	}
	if len(p) > 1 && p[len(p)-1] == '/' {
		p = p[:len(p)-1]
	}
	if fold {
		p = foldPath(p)
	}
	return p
}

// AmbiguousPath reports whether servers lead an escaped path to different places:
// dot segments appear in it once %2F is read as a slash or path parameters are
// dropped, as in /files/..%2Flogin and /files/..;/login. Some servers then go up,
// others take the segment as a name and stay where they are, so that no one
// matching path is right for both. Such paths are hardly ever meant well.
func AmbiguousPath(escaped string) bool {
	if !strings.ContainsAny(escaped, "%;") {
		return false
	}
	for segment := range strings.SplitSeq(loosened(NormalizePath(escaped)), "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// loosened reads a normal path as the most lenient server does, but for the dot
// segments that appear by that.
func loosened(p string) string {
	return strings.ReplaceAll(dropParams(decodeReserved(p)), "%2F", "/")
}

// isNormal reports whether a path is its own forwarded form, without work for
// the paths that most requests have.
func isNormal(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case !isPathByte(c): // escapes too: they take the long way
			return false
		case c == '/' && i+1 < len(p) && (p[i+1] == '/' || p[i+1] == '.'):
			return false
		}
	}
	return true
}

// reescape decodes escapes of unreserved characters, writes the others in upper
// case, and escapes bytes that may not stand in a path, a lone % among them.
func reescape(p string) string {
	var b strings.Builder
	b.Grow(len(p) + 8)
	for i := 0; i < len(p); i++ {
		c := p[i]
		if c == '%' {
			if v, ok := unhex(p, i); ok {
				i += 2
				if isUnreserved(v) {
					b.WriteByte(v)
				} else {
					writeEscape(&b, v)
				}
				continue
			}
		}
		if isPathByte(c) {
			b.WriteByte(c)
		} else {
			writeEscape(&b, c)
		}
	}
	return b.String()
}

// removeDots makes a path absolute, collapses slashes and resolves dot segments.
// A path that ends in a dot segment names a directory and ends in a slash.
func removeDots(p string) string {
	out := make([]byte, 0, len(p)+1)
	slash := true // whether the path ends in a slash
	for rest := p; rest != ""; {
		var segment string
		var more bool
		segment, rest, more = strings.Cut(rest, "/")
		switch segment {
		case "":
			slash = slash || more
			continue
		case ".":
			slash = true
			continue
		case "..":
			out = out[:max(bytes.LastIndexByte(out, '/'), 0)]
			slash = true
			continue
		}
		out = append(append(out, '/'), segment...)
		slash = more
	}
	if slash || len(out) == 0 {
		out = append(out, '/')
	}
	return string(out)
}

// decodeReserved decodes the escapes of characters that may stand in a path
// unescaped, beside the slash: a server behind reads /@me and /%40me alike.
func decodeReserved(p string) string {
	if !strings.Contains(p, "%") {
		return p
	}
	var b strings.Builder
	b.Grow(len(p))
	for i := 0; i < len(p); i++ {
		if p[i] == '%' {
			if v, ok := unhex(p, i); ok && v != '/' && isPathByte(v) {
				b.WriteByte(v)
				i += 2
				continue
			}
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// dropParams cuts each segment at its first semicolon. Segments are those between
// unescaped slashes, as RFC 3986 has it: servers that know parameters look for
// them before they decode.
func dropParams(p string) string {
	if !strings.Contains(p, ";") {
		return p
	}
	out := make([]byte, 0, len(p))
	skip := false
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '/':
			skip = false
		case ';':
			skip = true
		}
		if !skip {
			out = append(out, p[i])
		}
	}
	return string(out)
}

// foldPath folds letter case, also of escaped letters beyond ASCII: a server
// that folds case folds É as well.
func foldPath(p string) string {
	fold := strings.Contains(p, "%")
	for i := 0; i < len(p) && !fold; i++ {
		fold = 'A' <= p[i] && p[i] <= 'Z'
	}
	if !fold {
		return p
	}
	var b strings.Builder
	b.Grow(len(p))
	for i := 0; i < len(p); {
		if p[i] != '%' {
			b.WriteByte(byte(foldRune(rune(p[i]))))
			i++
			continue
		}
		var seq [utf8.UTFMax]byte
		n := 0
		for n < len(seq) && i+3*n < len(p) && p[i+3*n] == '%' {
			seq[n], _ = unhex(p, i+3*n)
			n++
		}
		r, size := utf8.DecodeRune(seq[:n])
		if r == utf8.RuneError || size == 1 {
			b.WriteString(p[i : i+3])
			i += 3
			continue
		}
		i += 3 * size
		if r = foldRune(r); r < utf8.RuneSelf {
			b.WriteByte(byte(r))
			continue
		}
		for _, c := range seq[:utf8.EncodeRune(seq[:], r)] {
			writeEscape(&b, c)
		}
	}
	return b.String()
}

// foldRune gives the same rune for all runes that differ only in case: the least
// of them, or its lower case within ASCII.
func foldRune(r rune) rune {
	least := r
	for s := unicode.SimpleFold(r); s != r; s = unicode.SimpleFold(s) {
		least = min(least, s)
	}
	if 'A' <= least && least <= 'Z' {
		return least + 'a' - 'A'
	}
	return least
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// isPathByte reports whether a byte may stand in a path as itself.
func isPathByte(c byte) bool {
	return isUnreserved(c) || strings.IndexByte("/!$&'()*+,;=:@[]", c) >= 0
}

// unhex reads the escape at p[i].
func unhex(p string, i int) (byte, bool) {
	if i+2 >= len(p) {
		return 0, false
	}
	hi, ok1 := hexDigit(p[i+1])
	lo, ok2 := hexDigit(p[i+2])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func writeEscape(b *strings.Builder, c byte) {
	const digits = "0123456789ABCDEF"
	b.WriteByte('%')
	b.WriteByte(digits[c>>4])
	b.WriteByte(digits[c&15])
}
