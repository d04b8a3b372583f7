package cli

import (
	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/internal/serve"
	"github.com/caudal-dev/caudal/rule"
)

// addServed gives a command the flag that says which settings serve would have.
func addServed(cmd *cobra.Command) *settingFlags {
	f := &settingFlags{given: map[string][]string{}}
	cmd.Flags().StringVar(&f.config, "config", "", "the `FILE` of serve's settings (default ./"+defaultConfig+" where it exists)")
	return f
}

// asServed reads the settings as serve would, and reads rules by them. Secrets are
// left alone: this may run where they are not.
func asServed(f *settingFlags, environ []string, o *rule.Options) (*settings, error) {
	s := &settings{logFormat: "text", withoutSecrets: true}
	if _, err := configureInto(s, f, environ); err != nil {
		return nil, err
	}
	o.IPv4Prefix, o.IPv6Prefix = s.IPv4Prefix, s.IPv6Prefix
	o.MergeDomains = o.MergeDomains || s.MergeDomains
	o.VerifiedKeys = o.VerifiedKeys || s.Who.Keys != ""
	if o.Region == "" {
		o.Region = s.Region
	}
	o.MatchForm = serve.MatchForm(s.FoldPathCase)
	o.Unfound = s.Config.Unfound
	if s.Compat {
		o.CompatEnvoy, o.ForAttributes = true, s.HasGateway()
	}
	return s, nil
}
