package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/caudal-dev/caudal/rule"
)

// loadedRules is rules that can be put in force.
type loadedRules struct {
	set      *rule.Set
	domain   *rule.Domain            // for requests that are matched by attributes
	byRoute  map[string]*rule.Domain // the domains that routes name
	hash     string
	warnings []rule.Warning
	at       time.Time
}

// limits is how many limits the domain has, those of calls under way too, as check
// counts them.
func (l *loadedRules) limits() int { return len(l.domain.Limits()) + len(l.domain.Concurrencies()) }

// warned is how many of the warnings are more than a note, as check counts them.
func (l *loadedRules) warned() int {
	n := 0
	for _, w := range l.warnings {
		if w.Level == rule.LevelWarning {
			n++
		}
	}
	return n
}

// loadRules reads the rules that the settings name. All of them load, or none.
func loadRules(c *Config) (*loadedRules, error) {
	set, warnings, err := readRules(c, ruleOptions(c))
	if err != nil {
		return nil, err
	}
	domain, err := chooseDomain(set, c.Domain)
	if c.domainNamed() && c.Domain == "" && len(set.Domains()) > 1 {
		domain, err = &rule.Domain{}, nil // there is no usual one, and none is needed
	}
	if err != nil {
		return nil, err
	}
	byRoute, err := routeDomains(c, set)
	if err != nil {
		return nil, err
	}
	warnings = append(warnings, unseenResponses(c, set)...)
	return &loadedRules{set: set, domain: domain, byRoute: byRoute, hash: set.Hash(), warnings: warnings, at: time.Now()}, nil
}

// ruleOptions says how rules are read.
func ruleOptions(c *Config) rule.Options {
	return rule.Options{IPv4Prefix: c.IPv4Prefix, IPv6Prefix: c.IPv6Prefix,
		ForAttributes: c.HasGateway() || !c.Compat, VerifiedKeys: c.Who.Keys != "", MatchForm: MatchForm(c.FoldPathCase),
		MergeDomains: c.MergeDomains, CompatEnvoy: c.Compat, Region: c.Region}
}

func readRules(c *Config, options rule.Options) (*rule.Set, []rule.Warning, error) {
	switch {
	case c.Text != "":
		return options.Parse(c.TextName, []byte(c.Text))
	case c.Limit != "":
		text, err := quickRules(c.Limit, c.By, c.Domain)
		if err != nil {
			return nil, nil, err
		}
		return options.Parse(quickName, []byte(text))
	}
	return options.Load(c.Rules...)
}

// chooseDomain gives the domain that was named, or the only one.
func chooseDomain(set *rule.Set, name string) (*rule.Domain, error) {
	if name != "" {
		d, err := namedDomain(set, name)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	if names := domainNames(set); len(names) > 1 {
		return nil, &Error{Missing: true, What: fmt.Sprintf("the rules hold %d domains and none is named: %s", len(names), strings.Join(names, ", ")),
			Hint: "name the one to serve, such as --domain " + names[0]}
	}
	return set.Default()
}

func namedDomain(set *rule.Set, name string) (*rule.Domain, *Error) {
	if d, ok := set.Domain(name); ok {
		return d, nil
	}
	return nil, &Error{Missing: true, What: fmt.Sprintf("domain %q is not among the rules: they hold %s", name, strings.Join(domainNames(set), ", ")),
		Hint: "name one of these with --domain"}
}
