package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/rule"
)

type checkOptions struct {
	rule   rule.Options
	json   bool
	strict bool
	served *settingFlags
}

func newCheck(s Streams) *cobra.Command {
	o := checkOptions{rule: rule.Options{ForAttributes: true}}
	cmd := &cobra.Command{
		Use:   "check [PATH...]",
		Short: "Say whether rules load, what they mean, and what to think twice about",
		Long: `It reads rule files, or directories of them, as serve would: all at once. It prints every mistake
with its place and how to mend it; or each limit in words with the most that it can let through in one
period, and what works but is probably not what its author wishes. What can match depends on settings: it
reads them as serve would, from caudal.yaml and the environment. Without PATH it checks the rules that they
name.`,
		Example: `  caudal check rules/
  caudal check --strict rules/          # in CI: warnings fail, too
  caudal check --json rules.yaml
  caudal check                          # the rules that caudal.yaml names`,
		RunE: func(_ *cobra.Command, args []string) error { return check(s, o, args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.BoolVar(&o.strict, "strict", false, "exit with 3 when there are warnings; notes are none")
	addRuleOptions(cmd, &o.rule)
	o.served = addServed(cmd)
	return cmd
}

func check(s Streams, o checkOptions, paths []string) error {
	served, err := asServed(o.served, s.Environ, &o.rule)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		paths = served.Rules
	}
	if len(paths) == 0 {
		return usagef("name a rule file or a directory of them, such as caudal check rules/", "no path to check")
	}
	set, warnings, err := o.rule.Load(paths...)
	if err == nil && sameFiles(paths, served.Rules) {
		err = served.CheckRoutes(set)
	}
	if o.json {
		return checkJSON(s, o, set, warnings, err)
	}
	if err != nil {
		return err
	}
	if err := printLimits(s.Out, set); err != nil {
		return err
	}
	if err := printWarnings(s.Out, warnings); err != nil {
		return err
	}
	return strictly(o, warnings)
}

// sameFiles reports whether the rules that are checked are those that serve would load:
// only then must they hold all that its settings name.
func sameFiles(checked, served []string) bool {
	clean := func(paths []string) []string {
		all := make([]string, len(paths))
		for i, p := range paths {
			if abs, err := filepath.Abs(p); err == nil {
				all[i] = abs
			}
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(clean(checked), clean(served))
}

func strictly(o checkOptions, warnings []rule.Warning) error {
	if o.strict && slices.ContainsFunc(warnings, func(w rule.Warning) bool { return w.Level == rule.LevelWarning }) {
		return &failure{code: exitWarnings}
	}
	return nil
}

// printLimits writes a table of all limits, by domain.
func printLimits(w io.Writer, set *rule.Set) error {
	limits := 0
	for i, d := range set.Domains() {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "domain %s\n", d.Name())
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "LIMIT\tIN WORDS\tWORST CASE")
		regional := false
		for _, l := range d.Limits() {
			_, _, known := l.WorstOverRegions()
			regional = regional || known
			words, worst := inWords(l)
			fmt.Fprintf(table, "%s\t%s\t%s\n", l.Name, words, worst)
			limits++
		}
		for _, l := range d.Concurrencies() {
			worst := fmt.Sprintf("at most %d at once", l.Compiled.Max())
			if regional {
				worst += " in each region"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\n", l.Name, l.Describe(), worst)
			limits++
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s in %s\n", plural(limits, "limit"), plural(len(set.Domains()), "domain"))
	return err
}

// inWords gives what a limit does and the most that it lets through in a period.
func inWords(l *rule.Limit) (words, worst string) {
	words, _, _ = strings.Cut(l.Describe(), "; worst case: ")
	if l.Unlimited {
		return words, "no bound"
	}
	w, regions, known := l.WorstOverRegions()
	if !known {
		w = l.Compiled.Limit().WorstCase()
	}
	worst, _, _ = strings.Cut(w.String(), ": ")
	switch {
	case known && w.Calls > 0:
		worst += " over " + strings.Join(regions, ", ")
	case l.Scope == rule.ScopeRegion && w.Calls > 0:
		worst += " in each region"
	}
	return words, worst
}

func printWarnings(w io.Writer, warnings []rule.Warning) error {
	for _, warning := range warnings {
		place := warning.Position.String()
		if warning.Path != "" {
			place += ": " + warning.Path
		}
		_, err := fmt.Fprintf(w, "\n%s: %s: %s [%s]\nwhy:  %s\nhint: %s\n", place, warning.Level, warning.What, warning.Code, warning.Why, warning.Mend)
		if err != nil {
			return err
		}
	}
	notes := 0
	for _, warning := range warnings {
		if warning.Level == rule.LevelNote {
			notes++
		}
	}
	var counts []string
	if n := len(warnings) - notes; n > 0 {
		counts = append(counts, plural(n, "warning"))
	}
	if notes > 0 {
		counts = append(counts, plural(notes, "note"))
	}
	if len(counts) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(counts, ", "))
	return err
}
