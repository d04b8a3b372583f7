package serve

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal"
)

// quickDomain is the domain of rules made from the setting limit.
const quickDomain = "default"

// quickName is what messages call those rules.
const quickName = "limit"

// quickRules writes the rule file that says the same as --limit and --by, so that
// there is one way only from rules to decisions.
func quickRules(limit, by, domain string) (string, error) {
	l, err := caudal.ParseLimit(limit)
	if err != nil {
		return "", &Error{What: "limit " + strings.TrimPrefix(err.Error(), caudal.ErrInvalidLimit.Error()+": "),
			Hint: `write it like "100/m", "1000/hour burst 100" or "5/m sliding_log"`}
	}
	if l.Epoch {
		return "", &Error{What: fmt.Sprintf("limit: %q: windows from the epoch are for rules of other services", limit), Hint: "leave epoch out"}
	}
	key, missing, err := quickKey(by)
	if err != nil {
		return "", err
	}
	setDefault(&domain, quickDomain)
	text, err := yaml.Marshal(quickFile{domain, []quickDescriptor{{key, missing, quickLimitOf(l)}}})
	if err != nil {
		return "", fmt.Errorf("limit: %w", err)
	}
	return string(text), nil
}

// CheckBy says whether the setting by names something to count by.
func CheckBy(by string) error {
	if _, _, err := quickKey(by); err != nil {
		return fmt.Errorf("%q is nothing to count by: use %s", by, countable)
	}
	return nil
}

// countable are the values of the setting by.
const countable = "ip, api_key, header:NAME, cookie:NAME, query:NAME, user_agent, path, method or host"

// quickKey gives the rule's key for the setting by. Where a client can leave the
// attribute out, it is counted by address then: else leaving it out would be a
// way around the limit.
func quickKey(by string) (key, missing string, err error) {
	family, name, named := strings.Cut(by, ":")
	switch {
	case by == "ip", by == "remote_address":
		return "remote_address", "", nil
	case by == "path", by == "method", by == "host":
		return by, "", nil
	case by == "api_key", by == "user_agent":
		return by, "ip", nil
	case named && name != "" && (family == "header" || family == "cookie" || family == "query"):
		return by, "ip", nil
	}
	return "", "", &Error{What: fmt.Sprintf("by: %q is nothing to count by", by),
		Hint: "use " + countable}
}

// The following are the part of the rule format that one limit needs.
type (
	quickFile struct {
		Domain      string            `yaml:"domain"`
		Descriptors []quickDescriptor `yaml:"descriptors"`
	}
	quickDescriptor struct {
		Key       string     `yaml:"key"`
		Missing   string     `yaml:"missing,omitempty"`
		RateLimit quickLimit `yaml:"rate_limit"`
	}
	quickLimit struct {
		Unit           string  `yaml:"unit"`
		UnitMultiplier uint32  `yaml:"unit_multiplier,omitempty"`
		Requests       uint32  `yaml:"requests_per_unit"`
		Algorithm      string  `yaml:"algorithm"`
		Burst          uint32  `yaml:"burst,omitempty"`
		Queue          *uint32 `yaml:"queue,omitempty"`
		MaxWait        string  `yaml:"max_wait,omitempty"`
		Timezone       string  `yaml:"timezone,omitempty"`
	}
)

func quickLimitOf(l caudal.Limit) quickLimit {
	q := quickLimit{Unit: l.Unit.String(), UnitMultiplier: l.Multiplier, Requests: l.Requests,
		Algorithm: l.Algorithm.String(), Burst: l.Burst, Timezone: l.Timezone}
	if l.Algorithm == caudal.LeakyBucket {
		q.Queue = &l.Queue // required there, also when it is 0
	}
	if l.MaxWait > 0 {
		q.MaxWait = l.MaxWait.String()
	}
	return q
}
