package serve

import (
	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/identity"
)

// NewResolver says who is asking as a server with the settings does. It reads the
// files of keys that they name, once.
func NewResolver(c Config) (*identity.Resolver, error) {
	if err := c.Who.check(c.TrustedProxies); err != nil {
		return nil, err
	}
	s := &Server{config: c.withDefaults(), deps: Deps{Clock: caudal.NewSystemClock()}}
	if err := s.openWho(); err != nil {
		return nil, err
	}
	return s.resolver(c.TrustedProxies)
}

// Unfound says which setting makes requests to the gateway have an attribute, and
// nothing where they can have it.
func (c *Config) Unfound(key string) string {
	if family, _, _ := cutFamily(key); family == "client_cert" && c.TLS.ClientCA == "" {
		return "set tls_client_ca, whose certificates clients show, or let the proxy that asks for them say who it is in user_header"
	}
	return c.Who.unfound(key)
}
