package ruletest

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/spell"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

// Report is what became of one test file.
type Report struct {
	File  string `json:"file"`
	Cases []Case `json:"cases"`
}

// Case is one test. It stops at its first step that fails.
type Case struct {
	Name     string        `json:"name"`
	Position rule.Position `json:"position"`
	OK       bool          `json:"ok"`
	// Timeline holds the steps that ran, in order.
	Timeline []Moment `json:"timeline"`
}

// Moment is one step that ran.
type Moment struct {
	At       time.Duration `json:"at_ns"`
	Position rule.Position `json:"position"`
	Request  string        `json:"request"`
	Expected string        `json:"expected"`
	Got      string        `json:"got"`
	OK       bool          `json:"ok"`
}

// Failed counts the tests that failed.
func (r *Report) Failed() int {
	n := 0
	for _, c := range r.Cases {
		if !c.OK {
			n++
		}
	}
	return n
}

// Run runs one test file. The options say how its rules are read. An error means
// that nothing was tested: the test file or the rules cannot be read, of type
// rule.Errors when they are wrong.
func Run(name string, o rule.Options) (*Report, error) {
	data, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	f, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	domain, err := f.load(name, o)
	if err != nil {
		return nil, err
	}
	if errs := f.mistyped(domain); len(errs) > 0 {
		return nil, errs
	}
	report := &Report{File: name}
	for i := range f.tests {
		c, err := run(&f.tests[i], domain, f.start)
		if err != nil {
			return nil, fmt.Errorf("ruletest: %s: %w", f.tests[i].pos, err)
		}
		report.Cases = append(report.Cases, c)
	}
	return report, nil
}

// mistyped finds attributes of requests that neither requests nor the rules know:
// a test with one would pass for the wrong reason.
func (f *file) mistyped(domain *rule.Domain) rule.Errors {
	keys := domain.Keys()
	if slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(key, "*") }) {
		return nil // any name may be one of theirs
	}
	var errs rule.Errors
	for _, t := range f.tests {
		for _, s := range t.steps {
			for _, a := range s.names {
				hint := rule.AttributeHint(a.name)
				if hint == "" || slices.Contains(keys, a.name) || len(errs) >= rule.MaxErrors {
					continue
				}
				if near := spell.Nearest(a.name, keys); near != "" {
					hint = "did you mean " + near + "?"
				}
				errs = append(errs, &rule.Error{Position: a.pos, Path: a.path, Hint: hint,
					What: fmt.Sprintf("%q is no attribute of requests", a.name)})
			}
		}
	}
	return errs
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("ruletest: cannot read tests: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("ruletest: cannot read tests: %w", err)
	}
	return data, nil
}

// load loads the rules that a test file names, relative to its folder.
func (f *file) load(name string, o rule.Options) (*rule.Domain, error) {
	dir := filepath.Dir(name)
	paths := []string{dir}
	if len(f.rules) > 0 {
		paths = nil
	}
	for _, p := range f.rules {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		paths = append(paths, p)
	}
	set, _, err := o.Load(paths...)
	if err != nil {
		return nil, err
	}
	if f.domain == "" {
		domain, err := set.Default()
		if err != nil {
			return nil, rule.Errors{{Position: rule.Position{File: name, Line: 1, Column: 1},
				What: strings.TrimPrefix(err.Error(), "rule: "), Hint: "write domain: NAME at the top of the tests"}}
		}
		return domain, nil
	}
	domain, ok := set.Domain(f.domain)
	if !ok {
		return nil, fmt.Errorf("ruletest: the rules hold no domain %q", f.domain)
	}
	return domain, nil
}

// clock stands still between steps.
type clock struct{ now caudal.Instant }

func (c *clock) Now() caudal.Instant { return c.now }

// bench is what one test runs on: fresh counters and a clock of its own.
type bench struct {
	clock   *clock
	domain  *rule.Domain
	store   *memstore.Store
	decider *httplimit.Decider
}

// maxKeys is more counters than a test file of its largest size can touch.
const maxKeys = 200_000

func newBench(domain *rule.Domain, start time.Time) (*bench, error) {
	b := &bench{clock: &clock{caudal.At(start)}, domain: domain}
	b.store = memstore.New(memstore.Options{Clock: b.clock, MaxKeys: maxKeys})
	who, err := identity.New(identity.Options{})
	if err != nil {
		return nil, err
	}
	b.decider, err = httplimit.NewDecider(domain, b.store, who, httplimit.Options{Clock: b.clock})
	return b, err
}

func run(t *test, domain *rule.Domain, start time.Time) (Case, error) {
	c := Case{Name: t.name, Position: t.pos, OK: true}
	b, err := newBench(domain, start)
	if err != nil {
		return c, err
	}
	origin := b.clock.now
	for i := range t.steps {
		s := &t.steps[i]
		b.clock.now = origin.Add(s.at)
		got, err := b.step(s)
		if err != nil {
			return c, err
		}
		m := Moment{At: s.at, Position: s.pos, Request: s.words(), Expected: s.want.words(), Got: got.words(s.times)}
		m.OK = s.want.met(&got)
		c.Timeline = append(c.Timeline, m)
		if !m.OK {
			c.OK = false
			return c, nil
		}
	}
	return c, nil
}

// step makes the calls of one step and gives what came of them.
func (b *bench) step(s *step) (result, error) {
	var r result
	for range s.times {
		var err error
		if s.request != nil {
			err = b.attributes(s, &r)
		} else {
			err = b.descriptors(s, &r)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// request is the attributes of a step.
type request map[string]string

func (r request) Attribute(name string) (string, bool) { v, ok := r[name]; return v, ok }

func (r request) Address() netip.Addr {
	a, _ := netip.ParseAddr(r["remote_address"]) // checked when it was read
	return a
}

func (b *bench) attributes(s *step, r *result) error {
	o := b.decider.DecideRequest(context.Background(), request(s.request))
	defer o.Release()
	if o.Err != nil {
		return o.Err
	}
	if s.response != nil && o.Action == httplimit.Pass {
		o.Settle(context.Background(), s.response.status, s.response.header)
	}
	r.add(o.Action, o.Calls, o.Decisions, o.Verdict)
	return nil
}

// descriptors decides as the gRPC service does: all descriptors together.
func (b *bench) descriptors(s *step, r *result) error {
	var m rule.Match
	for _, entries := range s.descriptors {
		b.domain.MatchDescriptor(entries, &m)
	}
	m.Replace()
	decisions := make([]caudal.Decision, len(m.Calls))
	if len(m.Calls) > 0 {
		if err := b.store.Take(context.Background(), b.clock.now, m.Calls, decisions); err != nil {
			return err
		}
	}
	verdict := caudal.Judge(m.Calls, decisions)
	action := httplimit.Pass
	if !verdict.Allowed {
		action = httplimit.Deny
	}
	r.add(action, m.Calls, decisions, verdict)
	return nil
}
