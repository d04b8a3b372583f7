package identity

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/caudal-dev/caudal"
)

// Request is one HTTP request seen as attributes. The zero value must be bound
// with Reset before use; it can be bound again and again. What is costly to work
// out is worked out once, when first asked for. It is not safe for concurrent
// use.
type Request struct {
	resolver *Resolver
	r        *http.Request

	address    netip.Addr
	hasAddress bool
	remote     string // the text of address, grouped; "" until asked for
	path       string // "" until asked for

	key    lookup // of the API key among those that are known
	info   KeyInfo
	token  lookup // of the bearer token
	claims claims
	body   *bodyFields // nil until asked for
}

// lookup is how far a question is that is answered once.
type lookup uint8

const (
	notAsked lookup = iota
	found
	notFound
)

// Reset binds the value to a request. The request must not be changed while it
// is bound.
func (q *Request) Reset(v *Resolver, r *http.Request) {
	*q = Request{resolver: v, r: r}
}

// HTTP gives the request that is bound, nil when there is none.
func (q *Request) HTTP() *http.Request { return q.r }

// Address gives the client's address, not grouped; see Resolver.Client.
func (q *Request) Address() netip.Addr {
	if !q.hasAddress {
		q.address, q.hasAddress = q.resolver.Client(q.r), true
	}
	return q.address
}

// Path gives the path for matching; see MatchPath.
func (q *Request) Path() string {
	if q.path == "" {
		q.path = MatchPath(ForwardPath(q.r.URL), q.resolver.foldPath)
	}
	return q.path
}

// AmbiguousPath reports whether the path was asked for and is one that servers
// lead to different places, so that the rules of one of them may have been missed;
// see [AmbiguousPath].
func (q *Request) AmbiguousPath() bool {
	return q.path != "" && AmbiguousPath(escapedPath(q.r.URL))
}

// Attribute gives the value of an attribute, as the package comment lists them.
// ok is false when the request does not have it, and for names that nobody knows.
func (q *Request) Attribute(name string) (value string, ok bool) {
	switch name {
	case "api_key":
		return present(q.apiKey())
	case "remote_address":
		return present(q.remoteAddress())
	case "path":
		return q.Path(), true
	case "method":
		if q.r.Method == "" { // as net/http has it
			return http.MethodGet, true
		}
		// Some servers take "post" for POST, so that it must not be another method here.
		return strings.ToUpper(q.r.Method), true
	case "host":
		return present(HostName(q.r.Host))
	case "user_agent":
		return single(q.r.Header["User-Agent"])
	case "user":
		return present(q.user())
	case "plan":
		return present(q.plan())
	case "visitor":
		return present(q.visitor())
	}
	return q.named(name)
}

// present gives a value that is absent when it is empty.
func present(value string) (string, bool) { return value, value != "" }

// named gives the attributes that carry a name behind a colon.
func (q *Request) named(attribute string) (string, bool) {
	kind, name, _ := strings.Cut(attribute, ":")
	if name == "" {
		return "", false
	}
	switch kind {
	case "header":
		if strings.EqualFold(name, "Host") { // net/http keeps it apart
			return present(q.r.Host)
		}
		return single(q.r.Header.Values(name))
	case "cookie":
		return q.cookie(name)
	case "query":
		return q.query(name)
	case "body":
		return present(q.bodyField(name))
	case "jwt":
		return present(q.claim(name))
	case "client_cert":
		return q.clientCert(name)
	}
	return "", false
}

// apiKey gives the API key, and nothing when there are several different ones or
// it is not among those that are known.
func (q *Request) apiKey() string {
	key := q.sentKey()
	if q.resolver.keys != nil && !q.known(key) {
		return ""
	}
	return key
}

// sentKey gives the API key as sent, and nothing when there are several different
// ones.
func (q *Request) sentKey() string {
	lines := q.r.Header[q.resolver.apiKeyHeader]
	if !q.resolver.bearer {
		if len(lines) == 0 || !alike(lines) {
			return ""
		}
		return lines[0]
	}
	key := ""
	for _, k := range q.sentKeys() {
		if key != "" && k != key {
			return ""
		}
		key = k
	}
	return key
}

// sentKeys gives the API keys as sent, in the header for them and as bearer tokens
// where those are taken.
func (q *Request) sentKeys() []string {
	keys := q.r.Header[q.resolver.apiKeyHeader]
	if q.resolver.bearer {
		keys = slices.Clone(keys)
		for _, line := range q.r.Header["Authorization"] {
			if token := bearerToken(line); token != "" {
				keys = append(keys, token)
			}
		}
	}
	return keys
}

func bearerToken(s string) string {
	const scheme = "bearer "
	if len(s) <= len(scheme) || !strings.EqualFold(s[:len(scheme)], scheme) {
		return ""
	}
	return strings.TrimLeft(s[len(scheme):], " ")
}

func (q *Request) remoteAddress() string {
	if q.remote == "" {
		if a := q.Address(); a.IsValid() {
			q.remote = q.resolver.group(a)
		}
	}
	return q.remote
}

func (q *Request) cookie(name string) (string, bool) {
	cookies := q.r.CookiesNamed(name)
	if len(cookies) == 1 {
		return alone(cookies[0].Value), true
	}
	values := make([]string, len(cookies))
	for i, c := range cookies {
		values[i] = c.Value
	}
	return single(values)
}

// query reads a parameter from the raw query, so that nothing is built for the
// others. Servers differ about the semicolon; here it separates too, which can
// only join what some of them tell apart.
func (q *Request) query(name string) (string, bool) {
	var first string
	var more []string
	n := 0
	for rest := q.r.URL.RawQuery; rest != ""; {
		var pair string
		if i := strings.IndexAny(rest, "&;"); i >= 0 {
			pair, rest = rest[:i], rest[i+1:]
		} else {
			pair, rest = rest, ""
		}
		key, value, _ := strings.Cut(pair, "=")
		if key != name && unescapeQuery(key) != name {
			continue
		}
		value = unescapeQuery(value)
		if n++; n == 1 {
			first = value
			continue
		}
		if n == 2 {
			more = append(more, first)
		}
		more = append(more, value)
	}
	if n <= 1 {
		return alone(first), n == 1
	}
	return single(more)
}

// unescapeQuery decodes a name or value; one that cannot be decoded is taken as
// it is written.
func unescapeQuery(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	if u, err := url.QueryUnescape(s); err == nil {
		return u
	}
	return s
}

// single makes one value of the values that came under one name: see the package
// comment.
func single(values []string) (string, bool) {
	switch {
	case len(values) == 0:
		return "", false
	case alike(values):
		return alone(values[0]), true
	}
	return list(values), true
}

// alone gives a value that came once. One that looks like a list is made a list
// of one, so that nobody can write a list of values as a value.
func alone(v string) string {
	if v != "" && v[0] == 0 {
		return list([]string{v})
	}
	return v
}

func list(values []string) string {
	b := []byte{0}
	for _, v := range values {
		b = caudal.AppendPart(b, v)
	}
	return string(b)
}

// alike reports whether all values are the same.
func alike(values []string) bool {
	for i := 1; i < len(values); i++ {
		if values[i] != values[0] {
			return false
		}
	}
	return true
}

// HostName gives the name in a Host header as rules match it: lower case, without port, brackets
// and final dots.
func HostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		if strings.Count(host, ":") == 1 || i > 0 && host[i-1] == ']' {
			host = host[:i]
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimRight(host, "."))
}
