package serve

import (
	"fmt"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/metrics"
	"github.com/caudal-dev/caudal/rule"
)

// Route is a route of the gateway. Its Limits are those of Domain.
type Route struct {
	gateway.Route
	// Domain names the rules that its requests are under; empty is that of Config.
	Domain string
	// Where is the place in the settings where Domain is named, for errors; zero where
	// there is none.
	Where rule.Position
}

// DefaultExempt are the paths that are not limited unless settings say otherwise:
// those by which orchestrators ask whether a service is well, and that mean
// nothing else.
func DefaultExempt() []string { return []string{"/healthz", "/livez", "/readyz"} }

// HasGateway reports whether requests go through, and are not only asked about.
func (c *Config) HasGateway() bool { return c.Upstream != nil || len(c.Routes) > 0 }

// domainNamed reports whether nobody needs a domain that is not named by whoever
// asks: so that several can be loaded with none of them the usual one.
func (c *Config) domainNamed() bool {
	if !c.HasGateway() {
		return c.Compat // requests of Envoy's protocol name theirs
	}
	for _, r := range c.Routes {
		if r.Domain == "" {
			return false
		}
	}
	return c.Upstream == nil
}

// CheckRoutes says whether the rules have the domains that routes name.
func (c *Config) CheckRoutes(set *rule.Set) error {
	_, err := routeDomains(c, set)
	return err
}

// routeDomains gives the domains that routes name.
func routeDomains(c *Config, set *rule.Set) (map[string]*rule.Domain, error) {
	domains := map[string]*rule.Domain{}
	for i, r := range c.Routes {
		if r.Domain == "" {
			continue
		}
		domain, err := namedDomain(set, r.Domain)
		if err != nil {
			hint := "name one of these in the route, or leave domain out"
			if r.Where.File != "" {
				return nil, rule.Errors{{Position: r.Where, Path: fmt.Sprintf("routes[%d].domain", i), What: err.What, Hint: hint}}
			}
			err.What, err.Hint = "routes: "+err.What, hint
			return nil, err
		}
		domains[r.Domain] = domain
	}
	return domains, nil
}

// newRouteDeciders makes what decides on routes that name a domain.
func (s *Server) newRouteDeciders(loaded *loadedRules, store caudal.Store) (map[string]*httplimit.Decider, error) {
	deciders := map[string]*httplimit.Decider{}
	for name, domain := range loaded.byRoute {
		var err error
		if deciders[name], err = s.newDecider(domain, store, s.resolves); err != nil {
			return nil, err
		}
	}
	return deciders, nil
}

// newGateway makes the gateway.
func (s *Server) newGateway(resolver *identity.Resolver) (*gateway.Gateway, error) {
	c := &s.config
	newcomers, err := s.newVisitors()
	if err != nil {
		return nil, err
	}
	options := gateway.Options{Upstream: c.Upstream, UpstreamHost: c.UpstreamHost, Limits: s.metrics.Time(s.decider),
		Identity: resolver, NewVisitors: newcomers, Timeouts: c.UpstreamTimeouts, MaxBody: c.MaxBodyBytes,
		BodyTimeout: c.BodyTimeout, SendTimeout: c.SendTimeout, Retries: c.Retries, Exempt: c.ExemptPaths, Shed: c.Shed,
		Decided: s.noteDecision(), Logger: s.log}
	for _, r := range c.Routes {
		if r.Domain != "" {
			r.Limits = s.metrics.Time(s.routeDeciders[r.Domain])
		}
		options.Routes = append(options.Routes, r.Route)
	}
	g, err := gateway.New(options)
	if err != nil {
		return nil, &Error{What: err.Error()}
	}
	if len(g.Shedders()) == 0 && s.decider.Domain().HasPriorities() {
		s.log.Warn("rules say priorities, and nothing is shed", "hint", "set shed: true, for all or on a route")
	}
	if shedders := g.Shedders(); len(shedders) > 0 {
		if err := s.metrics.Register(metrics.Shedding(shedders)); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// checkRoutes finds settings of routes that do not go together.
func (c *Config) checkRoutes() error {
	switch {
	case c.Upstream != nil && len(c.Routes) > 0:
		return &Error{Missing: true, What: "both upstream and routes are set",
			Hint: "make the upstream a route without host and path, which takes what the others leave"}
	case c.Listen == Off && c.HasGateway():
		return &Error{What: "listen: the gateway cannot be off when an upstream is set", Hint: "leave out the upstream"}
	}
	return nil
}

// domainsInForce gives the domains whose rules the gateway goes by.
func (l *loadedRules) domainsInForce() []*rule.Domain {
	all := []*rule.Domain{l.domain}
	for _, d := range l.byRoute {
		all = append(all, d)
	}
	return all
}

// destinations says where requests go, for people.
func (c *Config) destinations() []string {
	if c.Upstream != nil {
		return []string{c.Upstream.Redacted()}
	}
	var all []string
	for _, r := range c.Routes {
		where := r.Host + r.Path
		if r.Path == "" {
			where += "/"
		}
		all = append(all, fmt.Sprintf("%s -> %s", where, r.Upstream.Redacted()))
	}
	return all
}
