package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/internal/rlsbench"
)

func newBench(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure a server or a store",
		Example: "  caudal bench store\n  caudal bench rls --domain public-api --descriptor api_key=%d",
		Args:    knownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchRLS(s), newBenchFloor(s), newBenchGateway(s), newBenchProxy(s), newBenchStore(s))
	return cmd
}

func newBenchRLS(s Streams) *cobra.Command {
	var o rlsbench.Options
	var callers string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rls",
		Short: "Measure a server of Envoy's rate limit protocol",
		Long: `Callers send requests in a closed loop, each its next when it has the answer to its last. Compare with
caudal bench floor, which answers without deciding: what the protocol costs by itself.

%d in a value stands for a random number below --keys.`,
		Example: `  caudal bench rls --domain public-api --descriptor api_key=%d
  caudal bench rls --target unix:/run/caudal.sock --domain edge --descriptor path=/login,remote_address=%d --callers 1,16,64,256
  caudal bench rls --domain public-api --descriptor api_key=one --pid $(pidof caudal) --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Domain == "" {
				return usagef("name the one that the server's rules are of, such as --domain public-api", "no domain to ask about")
			}
			if len(o.Descriptors) == 0 {
				return usagef("give at least one, such as --descriptor api_key=%d", "no descriptor to ask about")
			}
			var err error
			if o.Callers, err = parseCallers(callers); err != nil {
				return err
			}
			o.Progress = func(line string) { fmt.Fprintln(s.Err, line) }
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			results, err := rlsbench.Run(ctx, o)
			if len(results) > 0 && asJSON {
				return firstError(err, rlsbench.PrintJSON(s.Out, results))
			}
			if len(results) > 0 {
				return firstError(err, rlsbench.Print(s.Out, results))
			}
			if errors.Is(err, rlsbench.ErrNothing) {
				return &failure{exitFailed, err.Error(), "start a server there, such as caudal serve --rules rules/, or name its address with --target"}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.Target, "target", "127.0.0.1:8081", "the server's `ADDRESS`, or unix:PATH")
	flags.StringVar(&o.Domain, "domain", "", "the `DOMAIN` to ask about")
	flags.StringArrayVar(&o.Descriptors, "descriptor", nil, "`KEY=VALUE`, and more after commas; repeated for more descriptors")
	flags.StringVar(&callers, "callers", "64", "how many callers at once: `N`, or several to measure in turn, as 1,16,64")
	flags.IntVar(&o.Connections, "connections", 0, "how many connections they share (default 2)")
	flags.IntVar(&o.Keys, "keys", 0, "how many values %d takes (default 100000)")
	flags.DurationVar(&o.Warmup, "warmup", 2*time.Second, "how long to run before measuring")
	flags.DurationVar(&o.Duration, "duration", 5*time.Second, "how long to measure")
	flags.IntVar(&o.PID, "pid", 0, "the server's process, to tell what a request costs it")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func parseCallers(list string) ([]int, error) {
	var callers []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, usagef("write numbers, such as --callers 1,16,64", "--callers %q: %q is no number", list, text)
		}
		callers = append(callers, n)
	}
	return callers, nil
}

// newBenchFloor is hidden: it limits nothing, and nobody should find it among the
// servers.
func newBenchFloor(s Streams) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:    "floor",
		Short:  "Answer Envoy's rate limit protocol without deciding, to compare with",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			ln, err := new(net.ListenConfig).Listen(context.WithoutCancel(ctx), "tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Err, "answering OK to everything on %s\n", ln.Addr())
			return rlsbench.Floor(ctx, ln)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8081", "the `ADDRESS` to listen on")
	return cmd
}
