package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

// maxText bounds a name and a value.
const maxText = 8 << 10

// client is what is known of somebody: the attributes that were given, and what the
// keys file says of the API key.
type client struct {
	given   map[string]string
	address netip.Addr
	key     *identity.Request // with the API key, if one was given
}

// client reads whose counters are meant.
func (a *API) client(q *CountersRequest) (*client, error) {
	c := &client{given: map[string]string{}}
	attributes := q.Attributes
	if q.Key != "" {
		name, value, found := strings.Cut(q.Key, "=")
		if !found {
			name, value = "remote_address", q.Key
		}
		attributes = map[string]string{strings.TrimSpace(name): value}
	}
	for name, value := range attributes {
		if len(name) > maxText || len(value) > maxText {
			return nil, fmt.Errorf("an attribute or a value is longer than %d bytes", maxText)
		}
		if header, ok := strings.CutPrefix(name, "header:"); ok {
			name = "header:" + textproto.CanonicalMIMEHeaderKey(header)
		}
		if name == "remote_address" {
			address, err := netip.ParseAddr(value)
			if err != nil {
				return nil, fmt.Errorf("%.80q is no address, and no ATTRIBUTE=VALUE: write it like 203.0.113.9 or api_key=k-123", value)
			}
			c.address = address.Unmap().WithZone("")
			continue
		}
		c.given[name] = value
	}
	if key := c.given["api_key"]; key != "" && a.o.KeyHeader != "" {
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: http.Header{a.o.KeyHeader: {key}}}
		c.key = new(identity.Request)
		c.key.Reset(a.o.Who, r)
		for _, name := range []string{"api_key", "user", "plan"} { // own limits are known once these were asked
			c.key.Attribute(name)
		}
	}
	return c, nil
}

// Attribute implements rule.Request.
func (c *client) Attribute(name string) (string, bool) {
	if c.key != nil && (name == "api_key" || name == "user" || name == "plan") {
		if v, ok := c.key.Attribute(name); ok && v != "" {
			return v, true
		}
		if name == "api_key" {
			return "", false // not among those that are known
		}
	}
	v, ok := c.given[name]
	return v, ok
}

// Address implements rule.Request.
func (c *client) Address() netip.Addr { return c.address }

// own gives the limit with the numbers that the API key has of its own.
func (c *client) own(l *rule.Limit, standard *caudal.Compiled) *caudal.Compiled {
	if c.key == nil || !l.PerClient() {
		return standard
	}
	for _, n := range c.key.OwnLimits() {
		if n.Name == l.Label {
			if own, err := l.WithRequests(n.Requests); err == nil {
				return own
			}
		}
	}
	return standard
}
