package serve

import (
	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/decisionapi"
	"github.com/caudal-dev/caudal/httplimit"
)

// decisions is the decision API, with a decider of its own: it believes other
// peers than the gateway does.
type decisions struct {
	api     *decisionapi.API
	decider *httplimit.Decider
}

// newDecisions makes it. Where no proxies are named, those on this machine are
// believed: somebody has to say which request it is.
func (s *Server) newDecisions(loaded *loadedRules, store caudal.Store) (decisions, error) {
	trusted := s.config.TrustedProxies
	if len(trusted) == 0 {
		trusted = decisionapi.Local()
	}
	who, err := s.resolver(trusted)
	if err != nil {
		return decisions{}, err
	}
	decider, err := s.newDecider(loaded, store, who)
	if err != nil {
		return decisions{}, err
	}
	api, err := decisionapi.New(decider, who, decisionapi.Options{Secret: s.config.Secret,
		FoldPathCase: s.config.FoldPathCase, Clock: s.deps.Clock, Took: s.metrics.Took, Logger: s.log})
	return decisions{api, decider}, err
}

// loaded puts rules in force.
func (d *decisions) loaded(loaded *loadedRules) {
	d.decider.SetDomain(loaded.domain)
	d.api.SetRules(loaded.set, loaded.domain)
}
