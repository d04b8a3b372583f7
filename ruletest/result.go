package ruletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
)

// result is what came of the calls of one step: how many passed, and all about
// the last one.
type result struct {
	allowed, denied, rejected int

	outcome    string
	rule       string // the limit that a client would be told about
	remaining  uint64
	limits     []string
	left       map[string]uint64 // remaining by limit
	retryAfter time.Duration
	delay      time.Duration
	never      bool
}

// add takes one call in.
func (r *result) add(action httplimit.Action, calls []caudal.Call, decisions []caudal.Decision, v caudal.Verdict) {
	next := result{allowed: r.allowed, denied: r.denied, rejected: r.rejected}
	switch action {
	case httplimit.Pass:
		next.allowed++
		next.outcome = "allowed"
	case httplimit.Reject:
		next.rejected++
		next.outcome = "rejected"
	default:
		next.denied++
		next.outcome = "denied"
	}
	next.left = map[string]uint64{}
	for i := range decisions {
		name := calls[i].Limit.Name()
		next.limits = append(next.limits, name)
		next.left[name] = decisions[i].Remaining
	}
	if v.Nearest >= 0 && v.Nearest < len(decisions) {
		next.rule = calls[v.Nearest].Limit.Name()
		next.remaining = decisions[v.Nearest].Remaining
	}
	next.retryAfter, next.delay, next.never = v.RetryAfter, v.Delay, v.Never
	*r = next
}

// met reports whether the result is as expected.
func (e *expectation) met(r *result) bool {
	left, applies := r.remaining, true
	if e.rule != "" {
		left, applies = r.left[e.rule]
		if r.outcome == "denied" {
			applies = r.rule == e.rule
		}
	}
	switch {
	case e.outcome != "" && (r.outcome != e.outcome || r.mixed()):
		return false
	case e.allowed != nil && *e.allowed != r.allowed, e.denied != nil && *e.denied != r.denied:
		return false
	case !applies, e.remaining != nil && *e.remaining != left:
		return false
	case e.hasLimits && !slices.Equal(sorted(e.limits), sorted(r.limits)):
		return false
	case e.retryAfter != nil && *e.retryAfter != r.retryAfter, e.delay != nil && *e.delay != r.delay:
		return false
	}
	return true
}

// mixed reports whether not all calls had one outcome.
func (r *result) mixed() bool {
	return max(r.allowed, r.denied, r.rejected) != r.allowed+r.denied+r.rejected
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// words says what is expected, in the words of the file.
func (e *expectation) words() string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.outcome != "" {
		say("%s", e.outcome)
	}
	if e.allowed != nil {
		say("%d allowed", *e.allowed)
	}
	if e.denied != nil {
		say("%d denied", *e.denied)
	}
	if e.remaining != nil {
		say("remaining %d", *e.remaining)
	}
	if e.rule != "" {
		say("rule %s", e.rule)
	}
	if e.hasLimits {
		say("limits [%s]", strings.Join(sorted(e.limits), ", "))
	}
	if e.retryAfter != nil {
		say("retry_after %s", *e.retryAfter)
	}
	if e.delay != nil {
		say("delay %s", *e.delay)
	}
	return strings.Join(parts, ", ")
}

// words says what came of a step.
func (r *result) words(times int) string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if times > 1 {
		say("%d allowed, %d denied", r.allowed, r.denied+r.rejected)
		say("the last %s", r.outcome)
	} else {
		say("%s", r.outcome)
	}
	if r.rule != "" {
		say("remaining %d, rule %s", r.remaining, r.rule)
	}
	if len(r.limits) != 1 {
		say("limits [%s]", strings.Join(sorted(r.limits), ", "))
	}
	switch {
	case r.outcome == "denied" && r.never:
		say("never")
	case r.outcome == "denied":
		say("retry_after %s", r.retryAfter)
	case r.delay > 0:
		say("delay %s", r.delay)
	}
	return strings.Join(parts, ", ")
}

// words says what a step asks, its attributes sorted.
func (s *step) words() string {
	var parts []string
	for k, v := range s.request {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	for _, entries := range s.descriptors {
		var pairs []string
		for _, e := range entries {
			pairs = append(pairs, e.Key+"="+e.Value)
		}
		parts = append(parts, "["+strings.Join(pairs, ",")+"]")
	}
	text := strings.Join(parts, " ")
	if s.response != nil {
		text += fmt.Sprintf(" -> %d", s.response.status)
		for _, name := range slices.Sorted(maps.Keys(s.response.header)) {
			text += fmt.Sprintf(" %s: %s", name, strings.Join(s.response.header[name], ", "))
		}
	}
	if s.times > 1 {
		text += fmt.Sprintf(" x%d", s.times)
	}
	return text
}
