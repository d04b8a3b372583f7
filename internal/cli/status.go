package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/dashboard"
	"github.com/caudal-dev/caudal/internal/admin"
)

func newStatus(s Streams) *cobra.Command {
	var q admin.CountersRequest
	var reset bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a running caudal does, or the counters of one client",
		Long: `With --key it shows every counter that the client has, under every rule: what is used, and why a call would
be denied. What rules demand beside the key (path=/login) is assumed. --reset makes these counters
fresh, and --refund gives back to them; --rule narrows both to one rule.`,
		Example: `  caudal status
  caudal status --key api_key=k-123
  caudal status --key 203.0.113.9 --json
  caudal status --key api_key=k-123 --rule free-quota --reset`,
		Args: noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&q.Key, "key", "", "whose counters: `KEY` is an address, or ATTRIBUTE=VALUE; - reads it from standard input")
	f.StringVar(&q.Descriptor, "descriptor", "", "whose counters: `ENTRIES` of a descriptor as Envoy sends it: key=value,key2=value2")
	f.StringVar(&q.Domain, "domain", "", "look at the domain `NAME` only")
	f.BoolVar(&reset, "reset", false, "make the counters fresh")
	f.Uint32Var(&q.N, "refund", 0, "give back `N` to them")
	f.StringVar(&q.Rule, "rule", "", "reset or refund the counter of the rule `NAME` only")
	a := addAdmin(f, s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given := q.Key != "" || q.Descriptor != ""
		switch {
		case q.Key != "" && q.Descriptor != "":
			return usagef("leave one out", "--key and --descriptor both say whose counters")
		case !given && (reset || q.N > 0 || q.Rule != "" || q.Domain != ""):
			return usagef("such as caudal status --key api_key=k-123 --reset", "no --key says whose counters")
		case reset && q.N > 0:
			return usagef("leave one out", "--reset leaves nothing to --refund")
		case q.Rule != "" && !reset && q.N == 0:
			return usagef("leave it out", "--rule is for --reset and --refund")
		case !given:
			return showStatus(cmd, s.Out, a)
		}
		if q.Key == "-" {
			key, err := keyArgument(cmd.InOrStdin(), q.Key)
			if err != nil {
				return err
			}
			q.Key = key
		}
		path := "/v1/counters"
		switch {
		case reset:
			path += "/reset"
		case q.N > 0:
			path += "/refund"
		}
		var c admin.Counters
		if err := a.ask(cmd.Context(), "POST", path, q, &c); err != nil {
			return err
		}
		if a.json {
			return printJSON(s.Out, c)
		}
		return printCounters(s.Out, &c)
	}
	return cmd
}

func showStatus(cmd *cobra.Command, w io.Writer, a *adminFlags) error {
	var shot dashboard.Snapshot
	if err := a.ask(cmd.Context(), "GET", "/v1/status", nil, &shot); err != nil {
		return err
	}
	if a.json {
		return printJSON(w, shot)
	}
	return printStatus(w, &shot)
}

func printStatus(w io.Writer, s *dashboard.Snapshot) error {
	fmt.Fprintf(w, "%s since %s\n", s.State.Name, s.State.Since.Format(time.RFC3339))
	if s.State.Why != "" {
		fmt.Fprintln(w, s.State.Why)
	}
	if e := s.Enforcement; !e.On || e.DryRun {
		fmt.Fprintln(w, enforcementWords(admin.Enforcement{On: false, Until: e.Until}))
	}
	if n := s.Enforcement.Blocks; n > 0 {
		fmt.Fprintf(w, "%s blocked by hand\n", plural(n, "client"))
	}
	fmt.Fprintf(w, "rules %.12s loaded %s, %s\n", s.Config.Hash, s.Config.LoadedAt.Format(time.RFC3339), plural(s.Config.Limits, "limit"))
	if s.Config.Refused != "" {
		fmt.Fprintf(w, "the last reload was refused: %s\n", s.Config.Refused)
	}
	store := s.Store.Kind
	if s.Store.Shared {
		store += fmt.Sprintf(", p99 %.0f us, %s in the last minute", s.Store.Latency.P99, plural(int(s.Store.Errors), "error"))
	}
	fmt.Fprintf(w, "store %s\n\n", store)
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tLIMIT\tMODE\tALLOWED/S\tDENIED/S\tSHADOW/S\tWAITING\tNEAR")
	for _, r := range s.Rules {
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f\t%.1f\t%.1f\t%d\t%d\n", r.Name, r.Words, r.Mode, r.Rates.Allowed, r.Rates.Denied, r.Rates.Shadow, r.Waiting, r.NearLimit)
	}
	if len(s.Concurrencies) > 0 {
		fmt.Fprintln(table, "\nAT ONCE\tLIMIT\tMODE\tUNDER WAY\tALLOWED\tDENIED\tSHADOW")
		for _, c := range s.Concurrencies {
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\n", c.Name, c.Words, c.Mode, c.UnderWay, c.Allowed, c.Denied, c.Shadow)
		}
	}
	hashed := false
	if len(s.Offenders) > 0 {
		fmt.Fprintln(table, "\nDENIED MOST\tRULE\tTIMES")
		for _, o := range s.Offenders {
			fmt.Fprintf(table, "%s\t%s\t%d\n", o.Label, o.Rule, o.Count)
			hashed = hashed || strings.Contains(o.Label, "=#")
		}
	}
	if err := table.Flush(); err != nil || !hashed {
		return err
	}
	_, err := fmt.Fprintln(w, "\n# begins the hash of a value: caudal hash VALUE prints one, and with show_keys: true values stand in clear")
	return err
}

func printCounters(w io.Writer, c *admin.Counters) error {
	if b := c.Blocked; b != nil {
		fmt.Fprintf(w, "blocked by hand by its %s, for %s yet\n", b.Attribute, wholeSeconds(b.Seconds))
	}
	if len(c.Counters) == 0 {
		_, err := fmt.Fprintln(w, "no rule counts this key by itself")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tLIMIT\tMODE\tUSED\tLEFT\tFULL IN\tSTATE")
	for _, n := range c.Counters {
		state := "passes"
		if n.Denies != "" {
			state = "denies: " + n.Denies
		}
		if n.Degraded {
			state += " (this instance alone)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", n.Rule, n.Words, n.Mode, n.Used, n.Remaining, wholeSeconds(n.ResetAfter), state)
	}
	return table.Flush()
}

// wholeSeconds is a time in seconds, rounded up.
func wholeSeconds(seconds float64) time.Duration {
	d := time.Duration(seconds * float64(time.Second))
	return (d + time.Second - 1).Truncate(time.Second)
}
