package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/rule"
)

// addRuleOptions adds the flags that say how rules are read, as serve has them.
func addRuleOptions(cmd *cobra.Command, o *rule.Options) {
	flags := cmd.Flags()
	flags.BoolVar(&o.MergeDomains, "merge-domains", false, "let several files hold rules of one domain")
	flags.BoolVar(&o.VerifiedKeys, "verified-keys", false, "API keys are those of a keys file, so that nobody can make one up")
	flags.StringVar(&o.Region, "region", "", "look at the share of the region `NAME` (default the setting region; without it, limits as written)")
	o.AllRegions = true
	flags.Var(&compatFlag{o}, "compat", "envoy: read the files as Envoy's reference service does")
}

// compatFlag is --compat, which knows one word. The reference's rules are matched
// by descriptor, where any key will do.
type compatFlag struct{ options *rule.Options }

func (f *compatFlag) String() string {
	if f.options != nil && f.options.CompatEnvoy {
		return "envoy"
	}
	return ""
}

func (f *compatFlag) Set(s string) error {
	if s != "envoy" {
		return fmt.Errorf("%q is not known: use envoy", s)
	}
	f.options.CompatEnvoy, f.options.ForAttributes = true, false
	return nil
}

func (f *compatFlag) Type() string { return "WHOM" }
