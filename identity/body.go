package identity

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
)

// bodyFields is the body of a request as far as rules can ask for it.
type bodyFields struct {
	data []byte // nil when there is nothing to look into
	form bool   // else JSON
}

// bodyField gives a field of a JSON object or a form. A text is as it reads, other
// plain values are as they are written, and an e-mail address has one spelling.
// Names agree without regard to letter case, as many servers take them so. A field
// that stands several times with different values is absent: servers differ about
// which of them counts, and a list of them would be a fresh count for each made-up
// first one.
func (q *Request) bodyField(name string) string {
	if q.body == nil {
		q.body = new(bodyFields)
		q.body.read(q.r, q.resolver.maxBody)
	}
	switch {
	case q.body.data == nil:
		return ""
	case q.body.form:
		return onlyValue(formValues(q.body.data, name))
	}
	return onlyValue(jsonValues(q.body.data, name))
}

func onlyValue(values []string) string {
	if len(values) == 0 || !alike(values) {
		return ""
	}
	return oneSpelling(values[0])
}

// oneSpelling gives an e-mail address in lower case and without space around it.
// Most servers take all spellings for one account: whoever guesses its password
// must not have a fresh count with each. Other texts are left as they are.
func oneSpelling(s string) string {
	if !strings.Contains(s, "@") {
		return s
	}
	return strings.ToLower(strings.TrimSpace(s))
}

// read reads the body up to a size, and puts what it has read back in front of the
// rest. What is longer, packed or of another type has no fields, and is not read
// where that can be told from the header.
func (b *bodyFields) read(r *http.Request, most int64) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength > most || r.Header.Get("Content-Encoding") != "" {
		return
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	b.form = kind == "application/x-www-form-urlencoded"
	if err != nil || !b.form && kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	r.Body = &restored{Reader: io.MultiReader(bytes.NewReader(data), &remainder{r.Body, err}), Closer: r.Body}
	if err == nil && int64(len(data)) <= most {
		b.data = data
	}
}

// restored is a body that has been read in part.
type restored struct {
	io.Reader
	io.Closer
}

// remainder is what follows; an error that has come once comes again.
type remainder struct {
	body io.Reader
	err  error
}

func (r *remainder) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return r.body.Read(p)
}

// formValues gives the values of a field of a form.
func formValues(data []byte, name string) []string {
	var values []string
	for pair := range strings.SplitSeq(string(data), "&") {
		key, value, _ := strings.Cut(pair, "=")
		if strings.EqualFold(unescapeQuery(key), name) {
			values = append(values, unescapeQuery(value))
		}
	}
	return values
}

// maxFields bounds how many members of an object are looked at.
const maxFields = 1000

// jsonValues gives the plain values of a member of the object that the text is.
// Text that is no JSON object as a whole has none.
func jsonValues(data []byte, name string) []string {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var values []string
	for n := 0; d.More(); n++ {
		key, err := d.Token()
		var raw json.RawMessage
		if err != nil || n == maxFields || d.Decode(&raw) != nil {
			return nil
		}
		if k, ok := key.(string); ok && strings.EqualFold(k, name) {
			values = append(values, plainJSON(raw))
		}
	}
	if _, err := d.Token(); err != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	return values
}

// plainJSON gives a plain value as text; "" for null, objects and lists.
func plainJSON(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	case '{', '[', 'n':
		return ""
	}
	return string(raw)
}
