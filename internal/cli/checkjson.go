package cli

import (
	"errors"
	"strings"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/rule"
)

// The following is what check --json prints. Fields are only ever added.
type (
	checkReport struct {
		OK       bool          `json:"ok"`
		Domains  []checkDomain `json:"domains,omitempty"`
		Warnings []problem     `json:"warnings"`
		Errors   []problem     `json:"errors"`
	}
	checkDomain struct {
		Name        string             `json:"name"`
		Limits      []checkLimit       `json:"limits"`
		Concurrency []checkConcurrency `json:"concurrency,omitempty"`
	}
	checkConcurrency struct {
		Name         string  `json:"name"`
		Path         string  `json:"path"`
		File         string  `json:"file"`
		Line         int     `json:"line"`
		Column       int     `json:"column"`
		Mode         string  `json:"mode"` // enforce or shadow
		Max          uint64  `json:"max"`
		LeaseSeconds float64 `json:"lease_seconds"`
	}
	checkLimit struct {
		Name      string      `json:"name"`
		Path      string      `json:"path"`
		File      string      `json:"file"`
		Line      int         `json:"line"`
		Column    int         `json:"column"`
		Words     string      `json:"words"`
		Unlimited bool        `json:"unlimited,omitempty"`
		Mode      string      `json:"mode"` // enforce, shadow or quota
		Algorithm string      `json:"algorithm,omitempty"`
		Limit     string      `json:"limit,omitempty"` // as --limit reads it
		WorstCase *checkWorst `json:"worst_case,omitempty"`
		Scope     string      `json:"scope,omitempty"` // region or global

		WorstOverRegions *checkWorst `json:"worst_over_regions,omitempty"` // where regions are known
	}
	checkWorst struct {
		Calls         uint64  `json:"calls"`
		Cost          uint64  `json:"cost"`
		PeriodSeconds float64 `json:"period_seconds"`
		Words         string  `json:"words"`
	}
	// problem is an error or a warning.
	problem struct {
		Level  string `json:"level,omitempty"` // of a warning: warning or note
		Code   string `json:"code,omitempty"`
		File   string `json:"file,omitempty"`
		Line   int    `json:"line,omitempty"`
		Column int    `json:"column,omitempty"`
		Path   string `json:"path,omitempty"`
		What   string `json:"what"`
		Why    string `json:"why,omitempty"`
		Hint   string `json:"hint,omitempty"`
	}
)

func checkJSON(s Streams, o checkOptions, set *rule.Set, warnings []rule.Warning, err error) error {
	report := checkReport{OK: err == nil, Warnings: []problem{}, Errors: []problem{}}
	for _, w := range warnings {
		report.Warnings = append(report.Warnings, problem{w.Level.String(), w.Code, w.Position.File, w.Position.Line, w.Position.Column, w.Path, w.What, w.Why, w.Mend})
	}
	if err != nil {
		report.Errors = problems(err)
		if err := printJSON(s.Out, report); err != nil {
			return err
		}
		return &failure{code: exitFailed}
	}
	for _, d := range set.Domains() {
		domain := checkDomain{Name: d.Name(), Limits: []checkLimit{}}
		for _, l := range d.Limits() {
			domain.Limits = append(domain.Limits, limitJSON(l))
		}
		for _, l := range d.Concurrencies() {
			c := checkConcurrency{l.Name, l.Path, l.Position.File, l.Position.Line, l.Position.Column, "enforce", l.Compiled.Max(), l.Compiled.Lease().Seconds()}
			if l.Shadow {
				c.Mode = "shadow"
			}
			domain.Concurrency = append(domain.Concurrency, c)
		}
		report.Domains = append(report.Domains, domain)
	}
	if err := printJSON(s.Out, report); err != nil {
		return err
	}
	return strictly(o, warnings)
}

// failedAs reports that files could not be read: in the form of check --json where
// JSON was asked for, so that a program reads one form of it from every command.
func failedAs(s Streams, asJSON bool, err error) error {
	if !asJSON {
		return err
	}
	report := struct {
		OK     bool      `json:"ok"`
		Errors []problem `json:"errors"`
	}{false, problems(err)}
	if err := printJSON(s.Out, report); err != nil {
		return err
	}
	return &failure{code: exitFailed}
}

func problems(err error) []problem {
	var errs rule.Errors
	if !errors.As(err, &errs) {
		return []problem{{What: strings.TrimPrefix(err.Error(), "rule: ")}}
	}
	var list []problem
	for _, e := range errs {
		list = append(list, problem{File: e.Position.File, Line: e.Position.Line, Column: e.Position.Column, Path: e.Path, What: e.What, Hint: e.Hint})
	}
	return list
}

var modes = map[caudal.Mode]string{caudal.Enforce: "enforce", caudal.Shadow: "shadow", caudal.Quota: "quota"}

func limitJSON(l *rule.Limit) checkLimit {
	words, _ := inWords(l)
	j := checkLimit{Name: l.Name, Path: l.Path, File: l.Position.File, Line: l.Position.Line, Column: l.Position.Column,
		Words: words, Unlimited: l.Unlimited, Mode: modes[l.Mode]}
	if l.Unlimited {
		return j
	}
	limit := l.Compiled.Limit()
	worst := limit.WorstCase()
	j.Algorithm, j.Limit = limit.Algorithm.String(), limit.String()
	j.Scope, j.WorstCase = l.Scope.String(), worstJSON(worst)
	if over, _, ok := l.WorstOverRegions(); ok {
		j.WorstOverRegions = worstJSON(over)
	}
	return j
}

func worstJSON(w caudal.WorstCase) *checkWorst {
	return &checkWorst{w.Calls, w.Cost, w.Period.Seconds(), w.String()}
}
