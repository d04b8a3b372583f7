package serve

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/dashboard"
	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/internal/metrics"
)

const (
	// liveFor is how long a snapshot is good for all who ask.
	liveFor = 400 * time.Millisecond
	// timedFor is how far back latencies look.
	timedFor = time.Minute
	// denialsOfRule is how many keys of one rule can be among the offenders.
	denialsOfRule = 10
)

// live makes snapshots, one at a time for all who look.
type live struct {
	mu      sync.Mutex
	last    dashboard.Snapshot
	timings []timing // the oldest first
}

// timing is what was timed until a moment.
type timing struct {
	at              time.Time
	decision, store metrics.Timing
	failures        uint64
}

// snapshot gives the state as it is shown.
func (s *Server) snapshot() any {
	l := &s.live
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.last.At) >= liveFor {
		l.last = s.look(now)
	}
	shot := l.last
	s.describe(&shot) // what an operator has just said must show
	return shot
}

// describe fills in how the server is.
func (s *Server) describe(shot *dashboard.Snapshot) {
	h := s.health()
	shot.Version = h.Version
	shot.State = dashboard.State{Name: h.State, Since: h.Since}
	shot.Enforcement = dashboard.Enforcement{On: h.Enforcing, Until: h.EnforcingAgain, DryRun: h.DryRun, Blocks: h.Blocks}
	shot.Store.Kind, shot.Store.Keys, shot.Store.Instances, shot.Store.Shared = h.Store.Kind, h.Store.Keys, h.Store.Instances, s.store.state != nil
	shot.Config = dashboard.Config{Hash: h.Rules.Hash, LoadedAt: h.Rules.LoadedAt, Limits: h.Rules.Limits, Warnings: h.Rules.Warnings}
	if h.Store.Since != nil {
		shot.State.Since = *h.Store.Since
	}
	if h.Store.Degraded {
		shot.State.Why = "the store is slow or gone (" + h.Store.Failure + "): limits do what their on_store_error says"
	}
	if r := h.Reload; r != nil && !r.OK {
		shot.Config.Refused, shot.Config.RefusedAt = r.Error, &r.At
	}
}

// look puts together what is counted.
func (s *Server) look(now time.Time) dashboard.Snapshot {
	shot := dashboard.Snapshot{At: now.UTC()}
	s.time(now, &shot)
	lives := s.metrics.Live()
	for i := range lives {
		shot.Rules = append(shot.Rules, s.ruleOf(&lives[i], &shot))
	}
	if len(shot.Rules) > dashboard.MaxRules {
		slices.SortStableFunc(shot.Rules, func(a, b dashboard.Rule) int {
			return cmp.Compare(b.Rates.Allowed+b.Rates.Denied, a.Rates.Allowed+a.Rates.Denied)
		})
		shot.Rules = shot.Rules[:dashboard.MaxRules]
	}
	shot.Concurrencies = s.concurrencies()
	shot.Offenders = s.offenders(lives)
	return shot
}

// concurrencies shows the limits of calls under way.
func (s *Server) concurrencies() []dashboard.Concurrency {
	var all []dashboard.Concurrency
	for _, l := range s.metrics.LivePermits() {
		if len(all) == dashboard.MaxRules {
			break
		}
		mode := caudal.Enforce
		if l.Limit.Shadow {
			mode = caudal.Shadow
		}
		all = append(all, dashboard.Concurrency{Domain: l.Limit.Domain, Name: l.Limit.Name, Words: l.Limit.Compiled.Concurrency().String(),
			Mode: modeNames[mode], UnderWay: l.UnderWay, Allowed: l.Total["allowed"], Denied: l.Total["denied"], Shadow: l.Total["shadow_denied"]})
	}
	return all
}

// time says how long decisions and calls of the store took lately.
func (s *Server) time(now time.Time, shot *dashboard.Snapshot) {
	l := &s.live
	t := timing{at: now, decision: s.metrics.DecisionTiming()}
	if c := s.store.calls; c != nil {
		t.store, t.failures = c.Timing(), c.Failures()
	}
	for len(l.timings) > 1 && now.Sub(l.timings[1].at) > timedFor {
		l.timings = l.timings[1:]
	}
	var before timing
	if len(l.timings) > 0 {
		before = l.timings[0]
	}
	l.timings = append(slices.Clip(l.timings), t)
	shot.Latency = latencyOf(t.decision.Since(before.decision))
	shot.Store.Latency = latencyOf(t.store.Since(before.store))
	shot.Store.Errors = t.failures - before.failures
}

func latencyOf(t metrics.Timing) dashboard.Latency {
	const micros = 1e6
	return dashboard.Latency{P50: t.Quantile(0.5) * micros, P99: t.Quantile(0.99) * micros, Count: t.Count()}
}

// modeNames are those of a limit's mode.
var modeNames = map[caudal.Mode]string{caudal.Enforce: "enforce", caudal.Shadow: "shadow", caudal.Quota: "quota"}

// ruleOf shows one rule, and adds it to the whole.
func (s *Server) ruleOf(l *metrics.Live, shot *dashboard.Snapshot) dashboard.Rule {
	r := dashboard.Rule{ID: ruleID(l.Domain, l.Rule), Domain: l.Domain, Name: l.Rule, Mode: modeNames[caudal.Enforce],
		Rates: dashboard.Rates{Allowed: l.Allowed, Denied: l.Denied, Shadow: l.ShadowDenied}, NearLimit: l.NearLimit, Waiting: l.Waiting,
		FalsePositives: l.FalsePositives}
	if l.Limit != nil && l.Limit.Compiled != nil {
		limit := l.Limit.Compiled.Limit()
		r.Words, r.Worst, r.Mode = limit.Words(), limit.WorstCase().String(), modeNames[l.Limit.Mode]
	}
	if l.Limit == nil && l.Rule == envoyrls.OverrideName {
		r.Words = "limits that requests bring with them"
	}
	if seconds, _ := s.metrics.History(l.Domain, l.Rule, 1); len(seconds) == 1 {
		r.Last = dashboard.Counts{Allowed: uint64(seconds[0].Allowed), Denied: uint64(seconds[0].Denied), Shadow: uint64(seconds[0].ShadowDenied)}
	}
	shot.Traffic.Allowed += r.Rates.Allowed
	shot.Traffic.Denied += r.Rates.Denied
	shot.Traffic.Shadow += r.Rates.Shadow
	shot.Last.Allowed += r.Last.Allowed
	shot.Last.Denied += r.Last.Denied
	shot.Last.Shadow += r.Last.Shadow
	return r
}

func ruleID(domain, name string) string { return domain + "/" + name }

// offenders gives the keys that were denied most often, over all rules.
func (s *Server) offenders(lives []metrics.Live) []dashboard.Offender {
	all := []dashboard.Offender{}
	for _, l := range lives {
		if l.Total["denied"]+l.Total["shadow_denied"] == 0 {
			continue
		}
		top := s.metrics.Denied(l.Domain, l.Rule, denialsOfRule)
		for _, e := range top.Entries {
			o := dashboard.Offender{Domain: l.Domain, Rule: l.Rule, Label: e.Label, Hash: e.Hash, Count: e.Count}
			if top.Total > 0 {
				o.Share = min(float64(e.Count)/float64(top.Total), 1)
			}
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b dashboard.Offender) int { return cmp.Compare(b.Count, a.Count) })
	return all[:min(len(all), dashboard.MaxOffenders)]
}

// The seconds of history that a page begins with: of all rules, and of each.
const (
	historySeconds     = 15 * 60
	ruleHistorySeconds = 60
)

// history gives what was decided before a page was opened.
func (s *Server) history() any {
	seconds, until := s.metrics.History("", "", historySeconds)
	h := dashboard.History{Until: until.UTC(), Rules: map[string]dashboard.RuleHistory{}}
	for _, second := range seconds {
		h.Allowed, h.Denied = append(h.Allowed, second.Allowed), append(h.Denied, second.Denied)
	}
	for _, l := range s.metrics.Live() {
		if len(h.Rules) >= dashboard.MaxRules || l.Total["allowed"]+l.Total["denied"]+l.Total["shadow_denied"] == 0 {
			continue
		}
		var r dashboard.RuleHistory
		seconds, _ := s.metrics.History(l.Domain, l.Rule, ruleHistorySeconds)
		for _, second := range seconds {
			r.All = append(r.All, second.Allowed+second.Denied+second.ShadowDenied)
			r.Denied = append(r.Denied, second.Denied+second.ShadowDenied)
		}
		h.Rules[ruleID(l.Domain, l.Rule)] = r
	}
	return h
}
