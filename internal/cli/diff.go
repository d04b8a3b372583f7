package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/rule"
)

type diffOptions struct {
	rule   rule.Options
	json   bool
	strict bool
}

func newDiff(s Streams) *cobra.Command {
	o := diffOptions{}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what changed in meaning between two sets of rules",
		Long: `Limits added, removed, loosened and tightened, and counters that start fresh. Layout, comments, the
order of rules and names of files mean nothing.`,
		Example: `  caudal diff rules-in-force/ rules/
  git worktree add /tmp/main main && caudal diff /tmp/main/rules rules`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return usagef("such as caudal diff rules-in-force/ rules/", "diff takes two sets of rules, not %d", len(args))
		},
		RunE: func(_ *cobra.Command, args []string) error { return diff(s, o, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.BoolVar(&o.strict, "strict", false, "exit with 3 when a limit is lowered more than tenfold")
	addRuleOptions(cmd, &o.rule)
	return cmd
}

func diff(s Streams, o diffOptions, from, to string) error {
	old, _, err := o.rule.Load(from)
	if err != nil {
		return failedAs(s, o.json, err)
	}
	now, _, err := o.rule.Load(to)
	if err != nil {
		return failedAs(s, o.json, err)
	}
	changes := rule.Diff(old, now)
	if o.json {
		if changes == nil {
			changes = []rule.Change{}
		}
		err = printJSON(s.Out, changes)
	} else {
		_, err = fmt.Fprint(s.Out, rule.DiffText(changes))
	}
	if err != nil {
		return err
	}
	if o.strict && slices.ContainsFunc(changes, func(c rule.Change) bool { return c.Drastic }) {
		return &failure{code: exitWarnings}
	}
	return nil
}
