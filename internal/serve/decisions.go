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
	decider, err := s.newDecider(loaded.domain, store, who)
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

// unseenResponses warns of limits whose charge depends on the response, where
// others ask for decisions and no response is seen.
func unseenResponses(c *Config, set *rule.Set) []rule.Warning {
	var warnings []rule.Warning
	warn := func(l *rule.Limit, what, why, mend string) {
		warnings = append(warnings, rule.Warning{Code: "response-not-seen", Position: l.Position, Path: l.FilePath, What: what, Why: why, Mend: mend})
	}
	for _, l := range set.Limits() {
		if l.Cost != nil && l.Cost.Source == rule.CostResponseHeader && !c.httpOff() {
			warn(l, "the cost stands in the response header "+l.Cost.Name,
				"whoever only asks for a decision never shows the response, so each such call costs the most (max)",
				"limit these calls in caudal's own gateway, or give the cost in the request")
		}
		if l.CountWhen != nil && !(c.httpOff() && c.RLS.off()) {
			warn(l, "count_when counts only responses with status "+l.CountWhen.Status.String(),
				"whoever only asks for a decision never shows the response, so each such call counts",
				"limit these calls in caudal's own gateway or the middleware, or leave room for the calls that succeed")
		}
	}
	if c.httpOff() && c.RLS.off() {
		return warnings
	}
	for _, l := range set.Concurrencies() {
		warnings = append(warnings, rule.Warning{Code: "response-not-seen", Position: l.Position, Path: l.FilePath,
			What: "concurrency of " + l.Path,
			Why:  "Envoy's service, /json and /v1/authorize never show when a call ends, so it does not hold for their calls",
			Mend: "limit these calls in caudal's own gateway or the middleware, or by /v1/check and /v1/release"})
	}
	return warnings
}
