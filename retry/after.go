package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is the longest wait that a header is read as: longer ones count as it.
const longest = 200 * 365 * 24 * time.Hour

// maxField bounds how much of a RateLimit field is read: a server with more
// policies than fit is not believed.
const maxField = 4 << 10

// After tells how long a server asks its client to wait: by Retry-After (seconds,
// rounded up where a server sends decimals, or a date), else by RateLimit (draft-ietf-httpapi-ratelimit-headers-11), the
// longest window of the policies that have nothing left. ok is false when it asks
// for nothing. A field that is malformed counts as absent; RateLimit is ignored on
// an answer from a cache. now is for dates.
func After(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	if values := h.Values("Retry-After"); len(values) > 0 {
		for _, v := range values { // several: the longest
			if d, valid := parseAfter(v, now); valid {
				wait, ok = max(wait, d), true
			}
		}
		if ok {
			return wait, true
		}
	}
	if age := h.Get("Age"); age != "" && age != "0" {
		return 0, false
	}
	return parseRateLimit(strings.Join(h.Values("Ratelimit"), ", "))
}

// parseAfter reads one Retry-After.
func parseAfter(v string, now time.Time) (time.Duration, bool) {
	v = strings.Trim(v, " \t")
	if v == "" {
		return 0, false
	}
	whole, decimals, hasPoint := strings.Cut(v, ".")
	if isDigits(whole) && (!hasPoint || isDigits(decimals)) {
		n, err := strconv.ParseUint(whole, 10, 64)
		if err != nil { // too large to be a number
			return longest, true
		}
		if strings.Trim(decimals, "0") != "" && n < math.MaxUint64 {
			n++ // as far as a server means less than a second, it still means to wait
		}
		return seconds(n), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	return min(max(0, at.Sub(now)), longest), true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func seconds(n uint64) time.Duration {
	return time.Duration(min(n, uint64(longest/time.Second))) * time.Second
}

// parseRateLimit reads the list of a RateLimit field. One bad member spoils all of
// it, as its standard demands.
func parseRateLimit(s string) (wait time.Duration, ok bool) {
	if len(s) > maxField {
		return 0, false
	}
	for rest := strings.Trim(s, " \t"); rest != ""; {
		it, after, valid := parseItem(rest)
		if !valid || !it.hasR {
			return 0, false
		}
		if it.r == 0 && it.t > 0 {
			wait, ok = max(wait, seconds(it.t)), true
		}
		rest = strings.TrimLeft(after, " \t")
		if rest == "" {
			break
		}
		if rest[0] != ',' {
			return 0, false
		}
		if rest = strings.TrimLeft(rest[1:], " \t"); rest == "" {
			return 0, false // a comma at the end
		}
	}
	return wait, ok
}

// item is one policy of a RateLimit field.
type item struct {
	r, t uint64
	hasR bool
}

// parseItem reads a string with parameters, RFC 9651, and gives what follows it.
func parseItem(s string) (it item, rest string, ok bool) {
	rest, ok = skipString(s)
	for ok && rest != "" && rest[0] == ';' {
		var key, value string
		key, value, rest, ok = parseParameter(strings.TrimLeft(rest[1:], " "))
		if !ok || key != "r" && key != "t" {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil || len(value) > 15 {
			return it, "", false
		}
		if key == "r" {
			it.r, it.hasR = n, true
		} else {
			it.t = n
		}
	}
	return it, rest, ok
}

// skipString passes over a quoted string.
func skipString(s string) (rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[i+1:], true
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		case c < ' ' || c > '~':
			return "", false
		}
	}
	return "", false
}

// parseParameter reads key or key=value; the value is left as it is written, for
// those of vendors may be of any type.
func parseParameter(s string) (key, value, rest string, ok bool) {
	end := strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.*", c)
	})
	if end < 0 {
		end = len(s)
	}
	key, rest = s[:end], s[end:]
	if key == "" || key[0] != '*' && (key[0] < 'a' || key[0] > 'z') {
		return "", "", "", false
	}
	if rest == "" || rest[0] != '=' {
		return key, "", rest, true // true, for short
	}
	rest = rest[1:]
	if strings.HasPrefix(rest, `"`) {
		after, valid := skipString(rest)
		return key, rest[:len(rest)-len(after)], after, valid
	}
	end = strings.IndexAny(rest, ";, \t")
	if end < 0 {
		end = len(rest)
	}
	return key, rest[:end], rest[end:], end > 0
}
