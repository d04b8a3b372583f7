package rule

import (
	"encoding/json"
	"fmt"
	"html"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Denial is what a denied request is answered instead of the usual body. A gRPC
// request is answered in gRPC's way all the same.
type Denial struct {
	// Status is the HTTP status, from 400 to 599.
	Status int
	// ContentType is the type of Body.
	ContentType string
	// Body is empty for the usual body.
	Body Template
	// Headers are further headers, sorted by name.
	Headers []DenialHeader
}

// DenialHeader is one header of a Denial, its name in canonical form.
type DenialHeader struct {
	Name  string
	Value Template
}

// Variables are what a Template can speak of: what the rules and the limiter say
// and nothing that a client sent, so that no answer can be made to carry a
// client's text.
type Variables struct {
	// Rule is the name of the limit that denies, Domain its domain.
	Rule, Domain string
	// Limit, Remaining, RetryAfter and ResetAfter are as in the headers; times in
	// whole seconds, rounded up. RetryAfter is 0 when no time helps.
	Limit, Remaining       uint64
	RetryAfter, ResetAfter int64
	// Status is the HTTP status.
	Status int
}

var variableNames = []string{"Rule", "Domain", "Limit", "Remaining", "RetryAfter", "ResetAfter", "Status"}

func (v *Variables) get(name string) string {
	switch name {
	case "Rule":
		return v.Rule
	case "Domain":
		return v.Domain
	case "Limit":
		return strconv.FormatUint(v.Limit, 10)
	case "Remaining":
		return strconv.FormatUint(v.Remaining, 10)
	case "RetryAfter":
		return strconv.FormatInt(v.RetryAfter, 10)
	case "ResetAfter":
		return strconv.FormatInt(v.ResetAfter, 10)
	}
	return strconv.Itoa(v.Status)
}

// Template is text with variables, such as "try again in {{.RetryAfter}} s". It
// knows no functions, conditions or loops. The zero value is empty.
type Template struct {
	text   string
	pieces []piece
}

// piece is a text and the variable behind it, if any.
type piece struct{ text, variable string }

// String gives the template as written.
func (t Template) String() string { return t.text }

// Empty reports whether nothing was written.
func (t Template) Empty() bool { return t.text == "" }

// Expand puts the variables in. Values are escaped for JSON or HTML when the
// content type is one of these.
func (t Template) Expand(v *Variables, contentType string) string {
	var b strings.Builder
	for _, p := range t.pieces {
		b.WriteString(p.text)
		if p.variable != "" {
			b.WriteString(escape(v.get(p.variable), contentType))
		}
	}
	return b.String()
}

func escape(s, contentType string) string {
	switch {
	case strings.Contains(contentType, "json"):
		quoted, err := json.Marshal(s)
		if err != nil { // not for strings
			return ""
		}
		return string(quoted[1 : len(quoted)-1])
	case strings.Contains(contentType, "html"), strings.Contains(contentType, "xml"):
		return html.EscapeString(s)
	}
	return s
}

// parseTemplate reads a template; what says what is wrong with it.
func parseTemplate(text string) (t Template, what string) {
	t.text = text
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "{{")
		if !found {
			t.pieces = append(t.pieces, piece{text: rest})
			return t, ""
		}
		name, tail, closed := strings.Cut(after, "}}")
		if !closed {
			return t, "{{ without }}"
		}
		variable, dotted := strings.CutPrefix(strings.TrimSpace(name), ".")
		if !dotted || !slices.Contains(variableNames, variable) {
			return t, fmt.Sprintf("{{%s}} is not a variable", clip(name))
		}
		t.pieces = append(t.pieces, piece{before, variable})
		rest = tail
	}
}

// maxBody bounds the body of an answer. It is longer than other text in a rule
// file may be.
const maxBody = 16 << 10

func (r *reader) template(f field, s string) Template {
	t, what := parseTemplate(s)
	if what != "" {
		hint := "use {{." + strings.Join(variableNames, "}}, {{.") + "}}"
		r.fail(f.value, f.path, hint, "%s", what)
	}
	return t
}

// denial reads on_deny.
func (r *reader) denial(f field) *Denial {
	fs, _ := r.mapping(f.value, f.path, denyKeys)
	d := &Denial{Status: 429, ContentType: "text/plain; charset=utf-8"}
	if g, ok := fs.get("status"); ok {
		if n, good := r.number(g); good {
			d.Status = int(n)
		}
	}
	if g, ok := fs.get("body"); ok {
		if s, good := r.textUpTo(g, maxBody); good {
			d.Body = r.template(g, s)
		}
	}
	if g, ok := fs.get("content_type"); ok {
		if s, good := r.word(g); good {
			d.ContentType = s
			if !isFieldValue(s) || !strings.Contains(s, "/") {
				r.fail(g.value, g.path, "write a type such as application/json", "%q is not a content type", clip(s))
			} else if d.Body.Empty() {
				r.fail(g.key, g.path, "add body, or leave it out", "content_type without a body")
			}
		}
	}
	if g, ok := fs.get("headers"); ok {
		d.Headers = r.denialHeaders(g)
	}
	return d
}

// maxDenialHeaders bounds the headers of one answer.
const maxDenialHeaders = 32

// ownHeaders are written by whoever sends the answer: two of them would
// contradict each other or break the connection.
var ownHeaders = []string{"Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Retry-After"}

func (r *reader) denialHeaders(f field) []DenialHeader {
	if f.value.Kind != yaml.MappingNode {
		r.fail(f.value, f.path, "write NAME: value for each", "%s where headers are wanted", nodeWords(f.value))
		return nil
	}
	var headers []DenialHeader
	for i := 0; i+1 < len(f.value.Content); i += 2 {
		key, value := deref(f.value.Content[i]), deref(f.value.Content[i+1])
		if !r.count(key) {
			break
		}
		name := textproto.CanonicalMIMEHeaderKey(key.Value)
		g := field{name: name, path: join(f.path, clip(key.Value)), key: key, value: value}
		switch {
		case key.Kind != yaml.ScalarNode || !isToken(key.Value):
			r.fail(key, f.path, "write a name such as X-Reason", "%s is not a header's name", nodeWords(key))
			continue
		case slices.Contains(ownHeaders, name):
			r.fail(key, g.path, "leave it out", "the header %s is not for rules to set", name)
			continue
		case slices.ContainsFunc(headers, func(h DenialHeader) bool { return h.Name == name }):
			r.fail(key, g.path, "keep one of them", "the header %s stands twice", name)
			continue
		case len(headers) >= maxDenialHeaders:
			r.fail(key, f.path, "", "over %d headers", maxDenialHeaders)
			return headers
		}
		s, ok := r.text(g)
		if ok && !isFieldValue(s) {
			r.fail(value, g.path, "write it in one line of printable text", "the value of %s has control characters", name)
		} else if ok {
			headers = append(headers, DenialHeader{name, r.template(g, s)})
		}
	}
	slices.SortFunc(headers, func(a, b DenialHeader) int { return strings.Compare(a.Name, b.Name) })
	return headers
}

// isToken reports whether a text can be the name of a header.
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) < 0
}

// isFieldValue reports whether a text can be the value of a header.
func isFieldValue(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) < 0
}
