package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/internal/gwbench"
)

// benchRules let everything pass, so that only the deciding is measured.
const benchRules = `domain: bench
descriptors:
  - key: api_key
    rate_limit: { unit: second, requests_per_unit: 1000000 }
  - key: remote_address
    rate_limit: { unit: second, requests_per_unit: 1000000, burst: 10000000 }
`

func newBenchGateway(s Streams) *cobra.Command {
	var o gwbench.Options
	var rules, store string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Measure what limits add to the gateway, beside the same proxy without them",
		Long: `It starts both, and an upstream, on free ports, and lets them take turns: first in a closed loop, in which each
caller sends its next request when it has the answer to its last, then in an open loop at half that rate, in which
requests come at their time and their times are taken from when they were due.`,
		Example: `  caudal bench gateway
  caudal bench gateway --store redis://127.0.0.1:6379 --callers 64 --rate 5000 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = func(line string) { fmt.Fprintln(s.Err, line) }
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			results, err := benchGateway(ctx, o, rules, store)
			if err != nil {
				return err
			}
			if asJSON {
				return gwbench.PrintJSON(s.Out, results)
			}
			return gwbench.Print(s.Out, results)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&rules, "rules", "", "the `PATH` of rules to measure (default two limits that let everything pass)")
	flags.StringVar(&store, "store", "memory", "the `STORE` that counts")
	flags.IntVar(&o.Callers, "callers", 16, "how many connections")
	flags.IntVar(&o.Rate, "rate", 0, "requests a second in the open loop (default half of the closed loop)")
	flags.IntVar(&o.Keys, "keys", 100_000, "how many API keys")
	flags.IntVar(&o.Rounds, "rounds", 5, "how often the two take turns")
	flags.DurationVar(&o.Slice, "slice", time.Second, "how long a turn takes")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// benchGateway starts what is measured, each in a process of its own.
func benchGateway(ctx context.Context, o gwbench.Options, rules, store string) ([]gwbench.Result, error) {
	upstream, err := startBenchUpstream()
	if err != nil {
		return nil, err
	}
	defer upstream.Close()
	dir, err := os.MkdirTemp("", "caudal-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if rules == "" {
		rules = filepath.Join(dir, "rules.yaml")
		if err := os.WriteFile(rules, []byte(benchRules), 0o600); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx) // ends the processes
	defer cancel()
	up := "http://" + upstream.Addr().String()
	if o.Without, err = startSelf(ctx, "no", "bench", "proxy", "--upstream", up); err != nil {
		return nil, err
	}
	if o.With, err = startSelf(ctx, "yes", "serve", "--upstream", up, "--rules", rules, "--store", store,
		"--admin-listen", "off", "--log-level", "error"); err != nil {
		return nil, err
	}
	return gwbench.Run(ctx, o)
}

// startSelf runs a command of this program that listens on a free address, until
// ctx ends.
func startSelf(ctx context.Context, name string, args ...string) (gwbench.Target, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return gwbench.Target{}, err
	}
	address := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return gwbench.Target{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return gwbench.Target{}, err
	}
	cmd := exec.CommandContext(ctx, self, append(args, "--listen", address)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return gwbench.Target{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if c, err := net.Dial("tcp", address); err == nil {
			return gwbench.Target{Name: name, Address: address, PID: cmd.Process.Pid}, c.Close()
		}
		select {
		case err := <-ended:
			return gwbench.Target{}, fmt.Errorf("caudal %s ended at once: %w", args[0], errors.Join(errors.New("see above"), err))
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return gwbench.Target{}, fmt.Errorf("caudal %s does not listen on %s", args[0], address)
		}
	}
}

// startBenchUpstream answers with a kilobyte.
func startBenchUpstream() (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	body := make([]byte, 1024)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body) // a client that has gone needs no answer
	})}
	go func() { _ = server.Serve(ln) }() // until the listener closes
	return ln, nil
}

// newBenchProxy is hidden: it is the gateway without what it is for.
func newBenchProxy(s Streams) *cobra.Command {
	var upstream, listen string
	cmd := &cobra.Command{
		Use:    "proxy",
		Short:  "Run the gateway without limits, to compare with",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := url.Parse(upstream)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(io.Discard, nil))
			g, err := gateway.New(gateway.Options{Upstream: u, Logger: log})
			if err != nil {
				return err
			}
			ln, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Err, "a proxy without limits on %s\n", ln.Addr())
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			server := gateway.NewServer(g, gateway.ServerOptions{Logger: log})
			context.AfterFunc(ctx, func() { _ = server.Close() })
			if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return g.Close()
		},
	}
	cmd.Flags().StringVar(&upstream, "upstream", "", "the `URL` to pass requests to")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the `ADDRESS` to listen on")
	return cmd
}
