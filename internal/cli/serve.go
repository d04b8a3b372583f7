package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/internal/serve"
)

func newServe(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway in front of an API, or decide for other proxies",
		Long: `Every setting has one name: --admin-listen as a flag, CAUDAL_ADMIN_LISTEN in the environment,
admin_listen in caudal.yaml; flags win over the environment, which wins over the file. Settings
without a flag are in the other two.

SIGHUP reads the rules again; when anything is wrong, the last good ones stay in force. SIGTERM and
SIGINT end it: calls under way may finish; a second one ends it at once.

Settings without a flag:
` + settingsWithoutFlag(),
		Example: `  caudal serve --upstream http://127.0.0.1:3000 --limit 100/m --by ip
  caudal serve --upstream http://127.0.0.1:3000 --limit "1000/hour burst 100" --by api_key
  caudal serve --upstream http://127.0.0.1:3000 --rules rules/ --trusted-proxies 10.0.0.0/8
  caudal serve --rules rules/ --grpc-listen :8081
  RUNTIME_ROOT=/data caudal serve --compat envoy
  caudal serve --config /etc/caudal/caudal.yaml --dry-run`,
		Args: noArgs,
	}
	flags := addSettings(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), flags, s) }
	return cmd
}

// settingsWithoutFlag lists them as the flags are listed.
func settingsWithoutFlag() string {
	var b strings.Builder
	for _, s := range allSettings {
		if !s.flag {
			fmt.Fprintf(&b, "  %-32s %s\n", strings.TrimSpace(s.name+": "+cmp.Or(s.arg, "true")), s.help)
		}
	}
	return b.String()
}

func runServe(ctx context.Context, flags *settingFlags, s Streams) error {
	settings, file, err := configure(flags, s.Environ)
	if err != nil {
		return err
	}
	ignored, err := envoyEnvironment(settings, s.Environ)
	if err != nil {
		return err
	}
	log := newLogger(s.Err, settings)
	// What libraries print by themselves, such as net/http of an upstream that talks out
	// of turn, is a line of this log too, and not raw text between lines of JSON.
	slog.SetDefault(log)
	if len(ignored) > 0 {
		log.Warn("names of the environment that mean nothing here", "names", ignored)
	}
	for _, warning := range mistypedEnv(s.Environ) {
		log.Warn("environment", "what", warning)
	}
	if file != "" {
		log.Info("settings read", "file", file)
	}
	err = run(ctx, settings.Config, serve.Deps{Logger: log, Version: versionOf(s)}, nil)
	if settings.Compat && errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(err.Error(), "rule: ") {
		return &failure{exitFailed, strings.TrimPrefix(err.Error(), "rule: "),
			"rules are looked for where RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY say, as the reference service does; or name them with --rules"}
	}
	return err
}

// run keeps a server until a signal ends it. started, if any, is called when it
// listens.
func run(ctx context.Context, config serve.Config, deps serve.Deps, started func(*serve.Server) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal does what signals do: it ends the process
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	server, err := serve.Start(config, deps)
	if err != nil {
		return err
	}
	if started != nil {
		if err := started(server); err != nil {
			_ = server.Close()
			return err
		}
	}
	return server.Run(ctx, hangup)
}

func newLogger(w io.Writer, s *settings) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
