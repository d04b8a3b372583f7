package decisionapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

// Bounds of what a caller may send.
const (
	maxBody        = 1 << 20
	maxChecks      = 100
	maxAttributes  = 64
	maxDescriptors = 32
	maxEntries     = 32
	maxText        = 8 << 10
)

// checkBody is the body of /v1/check: one check, or several under checks.
type checkBody struct {
	checkRequest
	Checks []checkRequest `json:"checks"`
}

// checkRequest is one check.
type checkRequest struct {
	Domain      string            `json:"domain"`
	Attributes  map[string]string `json:"attributes"`
	Descriptors []descriptor      `json:"descriptors"`
	Cost        *uint32           `json:"cost"`
	Peek        bool              `json:"peek"`
}

type descriptor struct {
	Entries []entry `json:"entries"`
}

type entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// readJSON reads a body strictly. The error is for the caller to read.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return explain(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("the body goes on behind the JSON object: send one object")
	}
	return nil
}

// explain says in the caller's words why a body is refused.
func explain(err error) error {
	var tooLarge *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &tooLarge):
		return err
	case errors.As(err, &kind):
		return fmt.Errorf("%s: a JSON %s will not do: %s is wanted", orBody(kind.Field), kind.Value, wanted(kind.Type.String()))
	case errors.As(err, &syntax):
		return fmt.Errorf("the body is no JSON: %v, at byte %d", syntax, syntax.Offset)
	case errors.Is(err, io.EOF):
		return errors.New("the body is empty: send a JSON object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body ends in the middle of the JSON object")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func orBody(field string) string {
	field = strings.TrimPrefix(field, "checkRequest.") // a name of ours, not the caller's
	if field == "" {
		return "the body"
	}
	return field
}

func wanted(goType string) string {
	switch strings.TrimLeft(goType, "*[]") {
	case "uint32":
		return "a whole number from 0 to 4294967295"
	case "bool":
		return "true or false"
	case "string":
		return "a text"
	case "map[string]string":
		return "an object of texts"
	}
	if strings.HasPrefix(goType, "[]") {
		return "a list of objects"
	}
	return "an object"
}

// bad answers 400, or 413 to a body that is too large.
func bad(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body is longer than %d bytes", tooLarge.Limit)
	}
	problem(w, r, status, err.Error())
}

func problem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}.Write(w, plain(r))
}

// plain is the request without the header by which it could be taken for gRPC.
func plain(r *http.Request) *http.Request { return &http.Request{Method: r.Method} }

// validate checks a check against the bounds, and makes the attributes comparable
// with those of real requests.
func (c *checkRequest) validate(foldPath bool) error {
	if (c.Attributes == nil) == (c.Descriptors == nil) {
		return errors.New("send attributes or descriptors, one of them")
	}
	if len(c.Attributes) > maxAttributes {
		return fmt.Errorf("attributes: %d are too many: at most %d", len(c.Attributes), maxAttributes)
	}
	for name, value := range c.Attributes {
		if len(name) > maxText || len(value) > maxText {
			return fmt.Errorf("attributes: a name or value is longer than %d bytes", maxText)
		}
	}
	if err := c.normalize(foldPath); err != nil {
		return err
	}
	return c.validateDescriptors()
}

func (c *checkRequest) validateDescriptors() error {
	if len(c.Descriptors) > maxDescriptors {
		return fmt.Errorf("descriptors: %d are too many: at most %d", len(c.Descriptors), maxDescriptors)
	}
	if c.Descriptors != nil && len(c.Descriptors) == 0 {
		return errors.New("descriptors: the list is empty")
	}
	for i, d := range c.Descriptors {
		if len(d.Entries) == 0 || len(d.Entries) > maxEntries {
			return fmt.Errorf("descriptors[%d].entries: %d of them; send 1 to %d", i, len(d.Entries), maxEntries)
		}
		for j, e := range d.Entries {
			if e.Key == "" {
				return fmt.Errorf("descriptors[%d].entries[%d].key is empty", i, j)
			}
			if len(e.Key) > maxText || len(e.Value) > maxText {
				return fmt.Errorf("descriptors[%d].entries[%d] is longer than %d bytes", i, j, maxText)
			}
		}
	}
	return nil
}

// normalize gives attributes the form that those of a request have, so that no
// spelling has a counter of its own.
func (c *checkRequest) normalize(foldPath bool) error {
	for name, value := range c.Attributes {
		switch {
		case value == "" && identifies(name):
			delete(c.Attributes, name) // or all who have none would share a counter, as one client
		case name == "remote_address":
			if _, err := netip.ParseAddr(value); err != nil {
				return fmt.Errorf("attributes.remote_address: %.60q is no address: write it like 203.0.113.7", value)
			}
		case name == "path":
			path, _, _ := strings.Cut(value, "?")
			c.Attributes[name] = identity.MatchPath(path, foldPath)
		case name == "method":
			c.Attributes[name] = strings.ToUpper(value)
		case name == "host":
			c.Attributes[name] = identity.HostName(value)
		case strings.HasPrefix(name, "header:"):
			canonical := "header:" + textproto.CanonicalMIMEHeaderKey(name[len("header:"):])
			if canonical == name {
				continue
			}
			if _, twice := c.Attributes[canonical]; twice {
				return fmt.Errorf("attributes: %q and %q are the same header", name, canonical)
			}
			delete(c.Attributes, name)
			c.Attributes[canonical] = value
		}
	}
	return nil
}

// identifies reports whether a request that has nothing under a name lacks the
// attribute; those of headers, cookies and queries may be empty.
func identifies(name string) bool {
	switch name {
	case "api_key", "user", "plan", "host", "visitor":
		return true
	}
	return strings.HasPrefix(name, "jwt:") || strings.HasPrefix(name, "body:") || strings.HasPrefix(name, "client_cert:")
}

// attributes makes the check a rule.Request.
type attributes map[string]string

func (a attributes) Attribute(name string) (string, bool) {
	value, ok := a[name]
	return value, ok
}

func (a attributes) Address() netip.Addr {
	address, _ := netip.ParseAddr(a["remote_address"]) // validate has looked at it
	return address.Unmap().WithZone("")
}

// blocked reports whether the client was blocked by hand, by the block that lasts
// longest.
func (c *checkRequest) blocked(d *httplimit.Decider) (longest control.Hit, found bool) {
	if c.Descriptors == nil {
		return d.Blocked(attributes(c.Attributes))
	}
	for _, given := range c.Descriptors {
		var entries []rule.Entry
		for _, e := range given.Entries {
			entries = append(entries, rule.Entry(e))
		}
		if hit, ok := d.BlockedEntries(entries); ok && hit.Left > longest.Left {
			longest, found = hit, true
		}
	}
	return longest, found
}

// match fills a match with the limits of the check and what they are charged.
func (c *checkRequest) match(domain *rule.Domain, m *rule.Match) {
	if c.Descriptors == nil {
		domain.Match(attributes(c.Attributes), m)
	} else {
		m.Reset()
		var entries []rule.Entry
		for _, d := range c.Descriptors {
			entries = entries[:0]
			for _, e := range d.Entries {
				entries = append(entries, rule.Entry(e))
			}
			domain.MatchDescriptor(entries, m)
		}
		m.Replace()
	}
	for i := range m.PermitCalls {
		m.PermitCalls[i].Peek = c.Peek
	}
	for i := range m.Calls {
		switch {
		case c.Peek:
			m.Calls[i].Cost = 0
		case c.Cost != nil:
			m.Calls[i].Cost = *c.Cost
		}
	}
}
