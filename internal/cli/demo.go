package cli

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/internal/serve"
)

// demoRules are the rules of the demo: those of the README.
//
//go:embed demo.yaml
var demoRules string

// demoAddress stands for the gateway in demoTries; it is the default.
const demoAddress = "127.0.0.1:8000"

// demoTry is something to do with the demo.
type demoTry struct{ what, command string }

// demoTries are printed by the demo and stand in the README with what they print.
var demoTries = []demoTry{
	{"six logins: five pass, the sixth is denied",
		`for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code}\n' -X POST http://127.0.0.1:8000/login; done`},
	{"what a denied client is told",
		`curl -si -X POST http://127.0.0.1:8000/login`},
	{"another client logs in (the demo believes X-Forwarded-For, so that one machine can play many)",
		`curl -s -X POST -H 'X-Forwarded-For: 198.51.100.7' http://127.0.0.1:8000/login`},
	{"an API key has its own full count",
		`curl -si -H 'X-API-Key: alice' http://127.0.0.1:8000/items`},
	{"a thousand made-up keys from one address: 200 pass, and 10 more each second",
		`seq -f '--next -s -o /dev/null -w "%%{http_code}\n" -H X-API-Key:%g -H X-Forwarded-For:203.0.113.9 http://127.0.0.1:8000/items' 1000 | xargs curl | sort | uniq -c`},
	{"eight calls at once to something fragile: four leave, a second apart, and four are denied",
		`seq 8 | xargs -P 8 -I{} curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:8000/legacy/{} | sort | uniq -c`},
}

func newDemo(s Streams) *cobra.Command {
	config := serve.Config{Text: demoRules, TextName: "demo.yaml",
		// So that one machine can play several clients.
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	var printRules, redis bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run an echo server behind a gateway, with rules to try",
		Example: `  caudal demo
  caudal demo --listen 127.0.0.1:9000
  caudal demo --redis
  caudal demo --print-rules > rules.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printRules {
				_, err := io.WriteString(s.Out, demoRules)
				return err
			}
			for flag, address := range map[string]string{"listen": config.Listen, "admin-listen": config.AdminListen} {
				if err := serve.CheckAddress(address); err != nil {
					return usagef("", "--%s %v", flag, err)
				}
			}
			return demo(cmd.Context(), s, config, redis)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Listen, "listen", demoAddress, "the `ADDRESS` of the gateway")
	flags.StringVar(&config.AdminListen, "admin-listen", serve.DefaultAdminListen, "the `ADDRESS` of /metrics, /healthz and the like, or off")
	flags.BoolVar(&redis, "redis", false, "run a second gateway, one port further, and a redis-server in which both count")
	flags.BoolVar(&printRules, "print-rules", false, "print the demo's rules and end")
	return cmd
}

func demo(ctx context.Context, s Streams, config serve.Config, redis bool) error {
	upstream, url, err := startEcho()
	if err != nil {
		return err
	}
	defer upstream.Close()
	config.Upstream = url
	log := slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	deps := serve.Deps{Logger: log, Version: versionOf(s)}
	if redis {
		return demoRedis(ctx, s, config, deps)
	}
	return run(ctx, config, deps, func(server *serve.Server) error {
		_, err := io.WriteString(s.Out, demoText(server.Addr(), server.AdminAddr()))
		return err
	})
}

// demoRedis runs two gateways with the same rules that count in one Redis.
func demoRedis(ctx context.Context, s Streams, config serve.Config, deps serve.Deps) error {
	url, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	config.Store = url
	second := config
	second.AdminListen = serve.Off
	if second.Listen, err = nextPort(config.Listen); err != nil {
		return err
	}
	other, err := serve.Start(second, deps)
	if err != nil {
		return err
	}
	defer other.Close()
	return run(ctx, config, deps, func(server *serve.Server) error {
		_, err := fmt.Fprintf(s.Out, "caudal demo: an echo server behind two gateways that count in one Redis\n\n"+
			"  gateways http://%s and http://%s\n  redis    %s\n%s\nCtrl-C ends it.\n",
			server.Addr(), other.Addr(), url, redisTries(server.Addr(), other.Addr()))
		return err
	})
}

// demoText says what runs and what to try.
func demoText(gateway, admin string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "caudal demo: an echo server behind a gateway\n\n  gateway  http://%s\n", gateway)
	if admin != "" {
		fmt.Fprintf(&b, "  admin    http://%s (dashboard, health, metrics)\n", admin)
	}
	fmt.Fprint(&b, "  rules    caudal demo --print-rules shows them\n\nTry, in another terminal:\n")
	for _, try := range demoTries {
		fmt.Fprintf(&b, "\n  # %s\n  %s\n", try.what, strings.ReplaceAll(try.command, demoAddress, gateway))
	}
	fmt.Fprint(&b, "\nCtrl-C ends it.\n")
	return b.String()
}
