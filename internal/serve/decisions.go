package serve

import (
	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/decisionapi"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
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

// unseenCosts warns of costs that stand in responses, where others ask for
// decisions and no response is seen.
func unseenCosts(c *Config, set *rule.Set) []rule.Warning {
	if c.httpOff() {
		return nil
	}
	var warnings []rule.Warning
	for _, l := range set.Limits() {
		if l.Cost == nil || l.Cost.Source != rule.CostResponseHeader {
			continue
		}
		warnings = append(warnings, rule.Warning{Code: "response-not-seen", Position: l.Position, Path: l.FilePath,
			What: "the cost stands in the response header " + l.Cost.Name,
			Why:  "whoever only asks for a decision never shows the response, so each such call costs the most (max)",
			Mend: "limit these calls in caudal's own gateway, or give the cost in the request"})
	}
	return warnings
}
