package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// Reload reads the rules again and puts them in force at once: all of them or,
// when anything is wrong, none, and the last good ones stay. Counters of rules
// that stay keep what they counted. It is safe for concurrent use.
func (s *Server) Reload() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	loaded, err := loadRules(&s.config)
	if err == nil {
		err = emptied(s.rules.Load().set, loaded.warnings)
	}
	s.reload.Store(&reloadState{at: time.Now(), err: err})
	if err != nil {
		s.metrics.LoadFailed()
		s.rls.loaded(nil)
		s.log.Error("rules not reloaded; the last good ones stay in force", "hash", s.rules.Load().hash, "errors", errorCount(err))
		for _, e := range singleErrors(err) {
			s.log.Error("rule error", errorAttrs(e)...)
		}
		return err
	}
	s.logWarnings(loaded)
	s.logLowered(loaded)
	s.enforce(loaded)
	s.log.Info("rules reloaded", "domain", loaded.domain.Name(), "limits", loaded.limits(),
		"warnings", loaded.warned(), "hash", loaded.hash)
	s.warnUnfound(loaded)
	s.warnOwn()
	return nil
}

// emptied is the error of a file that held rules in force and is empty now. A disk
// that is full or an editor that died leaves such files, and without their limits
// everything would pass; who wants to be rid of rules removes the file.
func emptied(old *rule.Set, warnings []rule.Warning) error {
	for _, w := range warnings {
		if w.Code != "empty-file" {
			continue
		}
		for _, l := range old.Limits() {
			if l.Position.File == w.Position.File {
				return &Error{What: fmt.Sprintf("%s held the rules of domain %s and is empty now", w.Position.File, l.Domain),
					Hint: "write its rules again, or remove the file to take them away"}
			}
		}
	}
	return nil
}

// logLowered warns of limits that the new rules lower more than tenfold: more
// often than not a digit is missing.
func (s *Server) logLowered(loaded *loadedRules) {
	for _, c := range rule.Diff(s.rules.Load().set, loaded.set) {
		if c.Drastic {
			s.log.Warn("limit lowered more than tenfold", "domain", c.Domain, "rule", c.Rule,
				"old", c.Old, "new", c.New, "at", c.Position.String())
		}
	}
}

// enforce puts rules in force. Their series come first, so that no decision goes
// uncounted.
func (s *Server) enforce(loaded *loadedRules) {
	s.metrics.SetDomains(loaded.set.Domains(), loaded.hash, loaded.at)
	s.rls.loaded(loaded.set)
	s.decider.SetDomain(loaded.domain)
	for name, domain := range loaded.byRoute {
		s.routeDeciders[name].SetDomain(domain)
	}
	s.decisions.loaded(loaded)
	s.rules.Store(loaded)
	if s.store.enforced != nil {
		limits := map[string]caudal.Limit{}
		for _, l := range loaded.set.Limits() {
			if l.Compiled != nil {
				limits[l.Compiled.Scope()] = l.Compiled.Limit()
			}
		}
		s.store.enforced(limits)
	}
}

func (s *Server) logWarnings(loaded *loadedRules) {
	for _, w := range loaded.warnings {
		attrs := []any{"what", w.What, "why", w.Why, "mend", w.Mend, "code", w.Code}
		if w.Position.File == quickName && w.Level == rule.LevelNote {
			continue // a rule file that nobody wrote needs no second thoughts
		}
		if w.Position.File != quickName { // nor has it lines
			attrs = append([]any{slog.String("at", w.Position.String())}, attrs...)
		}
		level := slog.LevelWarn
		if w.Level == rule.LevelNote {
			level = slog.LevelInfo
		}
		s.log.Log(context.Background(), level, "rule "+w.Level.String(), attrs...)
	}
}

func errorCount(err error) int { return len(singleErrors(err)) }

// singleErrors gives the mistakes of rule files one by one, and other errors as
// they are.
func singleErrors(err error) []error {
	var errs rule.Errors
	if errors.As(err, &errs) {
		return errs.Unwrap()
	}
	return []error{err}
}

func errorAttrs(err error) []any {
	var e *rule.Error
	if errors.As(err, &e) {
		return []any{"at", e.Position.String(), "path", e.Path, "what", e.What, "mend", e.Hint}
	}
	var setup *Error
	if errors.As(err, &setup) {
		return []any{"what", setup.What, "mend", setup.Hint}
	}
	return []any{"what", err.Error()}
}
