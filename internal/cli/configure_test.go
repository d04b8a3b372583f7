package cli

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/internal/serve"
	"github.com/caudal-dev/caudal/rule"
)

// configureWith reads settings from a file of this text, an environment and
// flags.
func configureWith(t *testing.T, file string, environ []string, args ...string) (*settings, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if file != "" {
		if err := os.WriteFile(defaultConfig, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f := addSettings(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	s, _, err := configure(f, environ)
	return s, err
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	const file = "limit: 1/s\nby: path\ndomain: file\nrules: [a.yaml, b.yaml]\ndry_run: true\n"
	environ := []string{"CAUDAL_BY=host", "CAUDAL_DOMAIN=environment", "CAUDAL_RULES=c.yaml, d.yaml", "CAUDAL_LIMIT="}
	s, err := configureWith(t, file, environ, "--domain", "flag", "--dry-run=false")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{s.Limit, s.By, s.Domain, strings.Join(s.Rules, " ")}
	if want := []string{"1/s", "host", "flag", "c.yaml d.yaml"}; !slices.Equal(got, want) || s.DryRun {
		t.Errorf("limit, by, domain, rules, dry run = %q, %v, want %q, false", got, s.DryRun, want)
	}
	s, err = configureWith(t, file, environ, "--rules", "e,f.yaml", "--rules", "g.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"e,f.yaml", "g.yaml"}; !slices.Equal(s.Rules, want) {
		t.Errorf("rules of two flags = %q, want %q", s.Rules, want)
	}
}

// TestEverySettingActs sets each in caudal.yaml and looks where it went.
func TestEverySettingActs(t *testing.T) {
	const file = `
upstream: http://127.0.0.1:3000/api
limit: 100/m burst 20
by: header:X-Tenant
rules: rules
domain: shop
dry_run: true
listen: :9000
admin_listen: off
trusted_proxies: [10.0.0.0/8, "2001:db8::1"]
http_listen: [":9080", "unix:/run/caudal.sock"]
store: memory
store_timeout: 10ms
alert_url: https://alerts.example/caudal
expected_instances: 3
max_keys: 1000
state_file: /var/lib/caudal/state
state_interval: 2s
log_level: warn
log_format: json
request_log: denied
request_log_sample: 0.25
request_log_rate: 7
merge_domains: true
client_ip_header: X-Client
api_key_header: X-Key
bearer_api_key: true
fold_path_case: true
ipv4_prefix: 24
ipv6_prefix: 56
header_families: draft
reset_format: delta
charge_preflight: true
denial_origins: https://a.example
upstream_host: true
upstream_dial_timeout: 1s
upstream_tls_timeout: 2s
upstream_header_timeout: off
upstream_idle_timeout: 4s
upstream_timeout: 5s
upstream_retries: 3
upstream_retry_statuses: 503
exempt_paths: [/up]
show_keys: true
routes: [{upstream: "http://127.0.0.1:3001"}]
read_header_timeout: 5s
body_timeout: 6500ms
send_timeout: off
read_timeout: 6s
write_timeout: 7s
idle_timeout: 8s
max_header_bytes: 4096
max_body_bytes: 1000000
secret_file: secret
admin_token_file: secret
keys: keys.jsonl
jwt_keys: jwks.json
jwt_issuer: https://id.example
jwt_audience: api
jwt_user_claim: email
jwt_plan_claim: tier
user_header: X-User
plan_header: X-Plan
visitor: true
visitor_new: 5
body_field_bytes: 1000
shutdown_delay: 3s
shutdown_timeout: 9s
shed: true
shed_max_limit: 500
shed_max_wait: 70ms
plan_weights: {free: 1, pro: 4}
reserves: {critical: 20, high: 5%}
region: eu
grpc_listen: "unix:/run/rls.sock"
compat: envoy
max_hold: 300ms
rls_headers: true
rls_dynamic_metadata: true
tls_cert: tc.pem
tls_key: tk.pem
tls_client_ca: tca.pem
tls_client_optional: true
http_tls_cert: hc.pem
http_tls_key: hk.pem
http_tls_client_ca: hca.pem
grpc_tls_cert: c.pem
grpc_tls_key: k.pem
grpc_tls_client_ca: ca.pem
grpc_tls_client_name: envoy.example
`
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := configureWith(t, strings.NewReplacer("_file: secret\n", "_file: "+secret+"\n",
		"\nupstream: ", "\n# "). // it cannot stand beside routes
		Replace(file), []string{"CAUDAL_UPSTREAM=http://127.0.0.1:3000/api"})
	if err != nil {
		t.Fatal(err)
	}
	c := &s.Config
	for name, ok := range map[string]bool{
		"upstream":        c.Upstream.String() == "http://127.0.0.1:3000/api",
		"limit":           c.Limit == "100/m burst 20",
		"by":              c.By == "header:X-Tenant",
		"rules":           len(c.Rules) == 1 && filepath.Base(c.Rules[0]) == "rules",
		"domain":          c.Domain == "shop",
		"region":          c.Region == "eu",
		"dry_run":         c.DryRun,
		"listen":          c.Listen == ":9000",
		"admin_listen":    c.AdminListen == "off",
		"trusted_proxies": slices.Equal(c.TrustedProxies, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}),
		"http_listen":     slices.Equal(c.HTTPListen, []string{":9080", "unix:/run/caudal.sock"}),
		"secret_file":     string(c.Secret) == "0123456789abcdef", "admin_token_file": string(c.AdminToken) == "0123456789abcdef",
		"keys": filepath.Base(c.Who.Keys) == "keys.jsonl", "jwt_keys": filepath.Base(c.Who.Tokens.KeyFile) == "jwks.json",
		"jwt_issuer": c.Who.Tokens.Issuer == "https://id.example", "jwt_audience": c.Who.Tokens.Audience == "api",
		"jwt_user_claim": c.Who.Tokens.UserClaim == "email", "jwt_plan_claim": c.Who.Tokens.PlanClaim == "tier",
		"user_header": c.Who.UserHeader == "X-User", "plan_header": c.Who.PlanHeader == "X-Plan",
		"visitor": c.Who.Visitor, "visitor_new": c.Who.VisitorNew == 5, "body_field_bytes": c.Who.MaxBody == 1000,
		"grpc_listen": slices.Equal(c.RLS.Listen, []string{"unix:/run/rls.sock"}), "compat": c.Compat, "max_hold": c.RLS.MaxHold == 300*time.Millisecond,
		"rls_headers": c.RLS.Headers != nil, "rls_dynamic_metadata": c.RLS.DynamicMetadata,
		"tls_cert": filepath.Base(c.TLS.Cert) == "tc.pem", "tls_key": filepath.Base(c.TLS.Key) == "tk.pem",
		"tls_client_ca": filepath.Base(c.TLS.ClientCA) == "tca.pem", "tls_client_optional": c.TLS.ClientOptional,
		"http_tls_cert": filepath.Base(c.HTTPTLS.Cert) == "hc.pem", "http_tls_key": filepath.Base(c.HTTPTLS.Key) == "hk.pem",
		"http_tls_client_ca": filepath.Base(c.HTTPTLS.ClientCA) == "hca.pem",
		"grpc_tls_cert":      filepath.Base(c.RLS.Certificates.Cert) == "c.pem", "grpc_tls_key": filepath.Base(c.RLS.Certificates.Key) == "k.pem",
		"grpc_tls_client_ca": filepath.Base(c.RLS.Certificates.ClientCA) == "ca.pem", "grpc_tls_client_name": c.RLS.Certificates.ClientName == "envoy.example",
		"store_timeout": c.StoreTimeout == 10*time.Millisecond, "alert_url": c.AlertURL == "https://alerts.example/caudal",
		"expected_instances": c.ExpectedInstances == 3,
		"store":              c.Store == "memory", "max_keys": c.MaxKeys == 1000,
		"state_file": c.StateFile == "/var/lib/caudal/state", "state_interval": c.StateInterval == 2*time.Second,
		"log_level": s.logLevel == slog.LevelWarn, "log_format": s.logFormat == "json",
		"request_log": c.RequestLog.Which == serve.LogDenied, "request_log_sample": c.RequestLog.Sample == 0.25, "request_log_rate": c.RequestLog.Rate == 7,
		"show_keys": c.ShowKeys, "merge_domains": c.MergeDomains, "client_ip_header": c.ClientIPHeader == "X-Client", "api_key_header": c.APIKeyHeader == "X-Key",
		"bearer_api_key": c.BearerAPIKey, "fold_path_case": c.FoldPathCase, "ipv4_prefix": c.IPv4Prefix == 24, "ipv6_prefix": c.IPv6Prefix == 56,
		"header_families": c.Families == httplimit.Draft, "reset_format": c.Reset == httplimit.ResetDelta,
		"charge_preflight": c.ChargePreflight, "denial_origins": slices.Equal(c.DenialOrigins, []string{"https://a.example"}), "upstream_host": c.UpstreamHost,
		"upstream_dial_timeout": c.UpstreamTimeouts.Dial == time.Second, "upstream_tls_timeout": c.UpstreamTimeouts.TLSHandshake == 2*time.Second,
		"upstream_header_timeout": c.UpstreamTimeouts.ResponseHeader < 0, "upstream_idle_timeout": c.UpstreamTimeouts.Idle == 4*time.Second,
		"upstream_timeout": c.UpstreamTimeouts.Total == 5*time.Second, "upstream_retries": c.Retries.Max == 3, "upstream_retry_statuses": slices.Equal(c.Retries.Statuses, []int{503}),
		"exempt_paths": slices.Equal(c.ExemptPaths, []string{"/up"}), "routes": len(c.Routes) == 1 && c.Routes[0].Upstream.Host == "127.0.0.1:3001",
		"read_header_timeout": c.ReadHeaderTimeout == 5*time.Second, "read_timeout": c.ReadTimeout == 6*time.Second,
		"body_timeout": c.BodyTimeout == 6500*time.Millisecond, "send_timeout": c.SendTimeout < 0,
		"write_timeout": c.WriteTimeout == 7*time.Second, "idle_timeout": c.IdleTimeout == 8*time.Second,
		"max_header_bytes": c.MaxHeaderBytes == 4096, "max_body_bytes": c.MaxBodyBytes == 1_000_000, "shutdown_delay": c.ShutdownDelay == 3*time.Second, "shutdown_timeout": c.ShutdownTimeout == 9*time.Second,
		"shed": c.Shed.Enabled, "shed_max_limit": c.Shed.Options.MaxLimit == 500, "shed_max_wait": c.Shed.Options.MaxWait == 70*time.Millisecond,
		"plan_weights": len(c.Shed.PlanWeights) == 2 && c.Shed.PlanWeights["pro"] == 4,
		"reserves":     len(c.Shed.Options.Reserves) == 2 && c.Shed.Options.Reserves[rule.PriorityHigh] == 5,
	} {
		if !ok {
			t.Errorf("%s in caudal.yaml does not arrive: %+v", name, *s)
		}
		if !strings.Contains(file, "\n"+name+": ") {
			t.Errorf("%s is checked but not set", name)
		}
	}
	for _, name := range settingNames() {
		if !strings.Contains(file, "\n"+name+": ") {
			t.Errorf("%s is a setting that this test does not set", name)
		}
	}
}

// TestPathsInTheFileAreRelativeToIt reads a file of another folder.
func TestPathsInTheFileAreRelativeToIt(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "settings.yaml")
	if err := os.WriteFile(file, []byte("rules: [rules, /etc/caudal/rules]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := configureWith(t, "limit: 9/s\n", nil, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, "rules"), "/etc/caudal/rules"}; !slices.Equal(s.Rules, want) || s.Limit != "" {
		t.Errorf("rules = %q, want %q; limit = %q, want none: ./caudal.yaml must not be read", s.Rules, want, s.Limit)
	}
}

func TestSettingsAreWellNamed(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, s := range settingNames() {
		if !name.MatchString(s) || seen[s] {
			t.Errorf("setting %q: want words joined by _, once", s)
		}
		seen[s] = true
		// A cluster sets these for a service named caudal.
		if s == "port" || strings.HasPrefix(s, "port_") || strings.HasPrefix(s, "service_") {
			t.Errorf("setting %q would be set by a cluster", s)
		}
	}
	for i := range allSettings {
		if allSettings[i].help == "" {
			t.Errorf("setting %s has no help", allSettings[i].name)
		}
	}
}

func TestMistypedEnvironmentIsNoticed(t *testing.T) {
	got := mistypedEnv([]string{"CAUDAL_UPSTRAEM=x", "CAUDAL_UPSTREAM=x", "CAUDAL_CONFIG=x", "CAUDAL_SERVICE_HOST=10.0.0.1",
		"CAUDAL_PORT=tcp://10.0.0.1:8000", "CAUDAL_PORT_8000_TCP_ADDR=10.0.0.1", "UPSTRAEM=x", "CAUDAL_LISTENN="})
	if want := []string{"CAUDAL_UPSTRAEM is not read; did you mean CAUDAL_UPSTREAM?"}; !slices.Equal(got, want) {
		t.Errorf("mistypedEnv = %q, want %q", got, want)
	}
}

func TestConfigFileIsBounded(t *testing.T) {
	_, err := configureWith(t, "# "+strings.Repeat("x", maxConfigBytes), nil)
	if err == nil || !strings.Contains(err.Error(), "is over 1048576 bytes") {
		t.Errorf("a file of more than 1 MiB = %v", err)
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add([]byte("upstream: http://127.0.0.1:3000\nlimit: 100/m\n"))
	f.Add([]byte("a: &a [*a]\n? [x]\n: y\n"))
	f.Add([]byte("rules: [a, null, {b: c}]\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "caudal.yaml")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = readConfig(file, new(settings)) // must not panic
	})
}
