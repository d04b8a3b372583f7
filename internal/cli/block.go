package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/internal/admin"
)

const blockHint = "such as caudal block 203.0.113.9 --for 15m, or caudal block api_key=k-123 --for 1h"

func newBlock(s Streams) *cobra.Command {
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "block [KEY]",
		Short: "Deny a client by hand for some time, or list who is denied so",
		Long: `KEY is an address, a network, or ATTRIBUTE=VALUE. All instances that share a store deny the client within
about a second, with 429, wherever its requests show the attribute. A value that is not to be written
down is given by its hash (api_key=sha256:HEX), or with - on standard input.

Without KEY the blocks are listed.`,
		Example: `  caudal block 203.0.113.9 --for 15m
  caudal block api_key=k-123 --for 24h
  caudal block
  caudal unblock 203.0.113.9`,
		Args: atMostOne,
	}
	cmd.Flags().Var((*span)(&d), "for", "how long, such as 15m, 24h or 7d; at most 366d")
	a := addAdmin(cmd.Flags(), s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var blocks admin.Blocks
		if len(args) == 0 {
			if d != 0 {
				return usagef(blockHint, "--for says how long, and no KEY says whom")
			}
			if err := a.ask(cmd.Context(), "GET", "/v1/blocks", nil, &blocks); err != nil {
				return err
			}
			return printBlocks(s.Out, a, &blocks)
		}
		key, err := keyArgument(cmd.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		if d <= 0 {
			return usagef(blockHint, "--for is missing: it says how long")
		}
		if err := a.ask(cmd.Context(), "POST", "/v1/block", admin.BlockRequest{Key: key, For: d.String()}, &blocks); err != nil {
			return err
		}
		return printBlocks(s.Out, a, &blocks)
	}
	return cmd
}

func newUnblock(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "unblock KEY",
		Short:   "Take back what caudal block said",
		Example: "  caudal unblock 203.0.113.9",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("such as caudal unblock 203.0.113.9", "unblock takes one KEY")
			}
			return nil
		},
	}
	a := addAdmin(cmd.Flags(), s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := keyArgument(cmd.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		var blocks admin.Blocks
		if err := a.ask(cmd.Context(), "POST", "/v1/unblock", admin.BlockRequest{Key: key}, &blocks); err != nil {
			return err
		}
		return printBlocks(s.Out, a, &blocks)
	}
	return cmd
}

func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef(fmt.Sprintf("see %s --help", cmd.CommandPath()), "%s takes one argument at most, and was given %d", cmd.CommandPath(), len(args))
	}
	return nil
}

// keyArgument reads whom a command is about; - reads it from standard input, where
// nobody on the machine sees it.
func keyArgument(in io.Reader, arg string) (string, error) {
	if arg == "-" {
		text, err := io.ReadAll(io.LimitReader(in, 1<<16))
		if err != nil {
			return "", err
		}
		arg = strings.TrimRight(string(text), "\r\n")
	}
	if _, err := control.ParseTarget(arg); err != nil {
		return "", usagef(blockHint, "%s", strings.TrimPrefix(err.Error(), "control: "))
	}
	return arg, nil
}

func printBlocks(w io.Writer, a *adminFlags, blocks *admin.Blocks) error {
	if a.json {
		return printJSON(w, blocks)
	}
	if len(blocks.Blocks) == 0 {
		_, err := fmt.Fprintln(w, "nobody is blocked")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tUNTIL")
	for _, b := range blocks.Blocks {
		fmt.Fprintf(table, "%s\t%s\n", b.Key, b.Until.Format(time.RFC3339))
	}
	return table.Flush()
}

func newEnforcement(s Streams) *cobra.Command {
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "enforcement [on|off]",
		Short: "Turn the denying on or off, on all instances at once, or show which it is",
		Long: `While it is off calls are counted and nobody is denied, delayed or told limits: what would be denied is
counted as shadow_denied. It holds for all instances that share a store, within about a second, and
after a restart, until somebody turns it on or the time of --for is over.`,
		Example: `  caudal enforcement off --for 1h
  caudal enforcement on
  caudal enforcement`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != "on" && args[0] != "off" {
				return usagef("write caudal enforcement off, or caudal enforcement on", "enforcement is on or off, not %q", args[0])
			}
			return atMostOne(cmd, args)
		},
	}
	cmd.Flags().Var((*span)(&d), "for", "turn it on again after this time, such as 1h or 2d")
	a := addAdmin(cmd.Flags(), s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var e admin.Enforcement
		switch {
		case len(args) == 0 || args[0] == "on":
			if d != 0 {
				return usagef("such as caudal enforcement off --for 1h", "--for is for off")
			}
		}
		body := admin.Enforcement{On: len(args) == 1 && args[0] == "on"}
		if d > 0 {
			body.For = d.String()
		}
		method, sent := "POST", any(body)
		if len(args) == 0 {
			method, sent = "GET", nil
		}
		if err := a.ask(cmd.Context(), method, "/v1/enforcement", sent, &e); err != nil {
			return err
		}
		if a.json {
			return printJSON(s.Out, e)
		}
		_, err := fmt.Fprintln(s.Out, enforcementWords(e))
		return err
	}
	return cmd
}

// span is a flag that takes a time of people, who also count in days. A day has 24
// hours.
type span time.Duration

func (v *span) String() string { return time.Duration(*v).String() }

func (v *span) Type() string { return "TIME" }

func (v *span) Set(text string) error {
	days, rest := 0, text
	if before, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.Atoi(before)
		if err != nil || n < 0 || n > maxDays {
			return spanError(text)
		}
		if days, rest = n, after; rest == "" {
			rest = "0"
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return spanError(text)
	}
	*v = span(time.Duration(days)*24*time.Hour + d)
	return nil
}

// maxDays is more than anybody may ask for, and few enough to count in nanoseconds.
const maxDays = 10_000

func spanError(text string) error {
	return fmt.Errorf("%q is no time: write it like 15m, 24h or 7d", text)
}

func enforcementWords(e admin.Enforcement) string {
	switch {
	case e.On:
		return "enforcement is on"
	case e.Until != nil:
		return "enforcement is off until " + e.Until.Format(time.RFC3339) + ": calls are counted and nobody is denied"
	}
	return "enforcement is off: calls are counted and nobody is denied"
}
