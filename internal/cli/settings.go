package cli

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/internal/serve"
)

// settings are all that can be configured.
type settings struct {
	serve.Config
	logLevel  slog.Level
	logFormat string

	withoutSecrets bool         // secrets are not read
	route          *serve.Route // the one that is being read
}

// setting is one of them. It has one name everywhere: admin_listen in caudal.yaml,
// --admin-listen as a flag, CAUDAL_ADMIN_LISTEN in the environment.
type setting struct {
	name  string
	arg   string // what stands for the value in usage; empty for a switch
	help  string
	flag  bool // whether there is a flag, too
	list  bool // whether it takes several values
	path  bool // whether the values are paths
	set   func(*settings, []string) error
	pairs bool // whether its values are name=value, which caudal.yaml writes as a mapping
	tree  bool // whether it is more than plain values; only caudal.yaml can hold it
}

// The settings, in the order in which usage lists them.
var allSettings = []setting{
	{name: "upstream", arg: "URL", flag: true, help: "where requests go: http, https or h2c", set: upstreamOf(func(s *settings) **url.URL { return &s.Upstream })},
	{name: "limit", arg: "LIMIT", flag: true, help: `one limit instead of rules, such as 100/m or "1000/hour burst 100"`,
		set: limit},
	{name: "by", arg: "WHO", flag: true, help: "whose calls --limit counts together: ip, api_key, header:NAME, path ... (default ip)",
		set: countBy},
	{name: "rules", arg: "PATH", flag: true, list: true, path: true, help: "a rule file, or a directory of them; may be repeated",
		set: texts(func(s *settings) *[]string { return &s.Rules })},
	{name: "domain", arg: "NAME", flag: true, help: "the domain to serve, when the rules hold several",
		set: text(func(s *settings) *string { return &s.Domain })},
	{name: "dry_run", flag: true, help: "count and report, but deny nothing",
		set: toggle(func(s *settings) *bool { return &s.DryRun })},
	{name: "listen", arg: "ADDRESS", flag: true, help: "where the gateway listens, also unix:/path (default " + serve.DefaultListen + ")",
		set: address(func(s *settings) *string { return &s.Listen })},
	{name: "http_listen", arg: "ADDRESS", flag: true, list: true,
		help: "where others ask for decisions, also unix:/path, or off (default " + serve.DefaultHTTPListen + " without --upstream, else off)",
		set:  addresses(func(s *settings) *[]string { return &s.HTTPListen })},
	{name: "grpc_listen", arg: "ADDRESS", flag: true, list: true,
		help: "where Envoy's rate limit protocol is answered, also unix:/path, or off (default " + serve.DefaultGRPCListen + " without --upstream, else off)",
		set:  addresses(func(s *settings) *[]string { return &s.RLS.Listen })},
	{name: "admin_listen", arg: "ADDRESS", flag: true, help: "where /metrics, /healthz and the like are, or off (default " + serve.DefaultAdminListen + ")",
		set: address(func(s *settings) *string { return &s.AdminListen })},
	{name: "admin_token_file", arg: "FILE", flag: true, path: true,
		help: "a token that operators must show there; without it only those on this machine may change or see keys", set: adminTokenFile},
	{name: "trusted_proxies", arg: "NETWORK", flag: true, list: true, help: "proxies to believe about their client's address; comma-separated, may be repeated",
		set: networks},
	{name: "keys", arg: "FILE", flag: true, path: true, help: "the API keys that are known, as caudal keys writes it; others count as missing (default: keys as sent)",
		set: text(func(s *settings) *string { return &s.Who.Keys })},
	{name: "store", arg: "STORE", flag: true, help: "what counts: memory, redis://, rediss://, redis-sentinel://, redis-cluster:// (default " + serve.DefaultStore + ")",
		set: storeName},
	{name: "region", arg: "NAME", flag: true, help: "where this instance is, for limits that are shared among regions (default none)",
		set: text(func(s *settings) *string { return &s.Region })},
	{name: "store_timeout", arg: "TIME", flag: true, help: "how long a call may wait for Redis (default 5ms)",
		set: duration(false, func(s *settings) *time.Duration { return &s.StoreTimeout })},
	{name: "alert_url", arg: "URL", flag: true, help: "a webhook that is told when Redis is lost and when it is back",
		set: alertURL},
	{name: "expected_instances", arg: "N", help: "how many instances share Redis, for what each lets pass without it (default as many as are seen)",
		set: number(1, 1<<20, func(s *settings) *int { return &s.ExpectedInstances })},
	{name: "max_keys", arg: "N", flag: true, help: "how many keys to hold in memory (default 10000000)",
		set: number(1, 1<<31-1, func(s *settings) *int { return &s.MaxKeys })},
	{name: "state_file", arg: "FILE", flag: true, path: true, help: "keep what is counted in memory in this file, so that a restart forgets nothing",
		set: text(func(s *settings) *string { return &s.StateFile })},
	{name: "compat", arg: "WHOM", flag: true, help: "envoy: read rules and the environment, count and answer as Envoy's reference service does", set: compat},
	{name: "log_level", arg: "LEVEL", flag: true, help: "debug, info, warn or error (default info)", set: logLevel},
	{name: "log_format", arg: "FORMAT", flag: true, help: "text or json (default text)",
		set: choice(func(s *settings) *string { return &s.logFormat }, "text", "json")},
	{name: "request_log", arg: "WHICH", flag: true, help: "requests at the gateway to log: off, denied or all (default off)",
		set: choice(func(s *settings) *string { return &s.RequestLog.Which }, serve.Off, serve.LogDenied, serve.LogAll)},

	{name: "routes", arg: "LIST", help: "upstreams by host and path, instead of upstream; see examples/gateway", set: onlyInFile, tree: true},
	{name: "exempt_paths", arg: "PATH", list: true, help: "paths that are never limited, or none (default " + strings.Join(serve.DefaultExempt(), ", ") + ")",
		set: exemptPaths(func(s *settings) *[]string { return &s.ExemptPaths })},
	{name: "state_interval", arg: "TIME", help: "how much of what was charged a kill may lose (default 1s)",
		set: duration(false, func(s *settings) *time.Duration { return &s.StateInterval })},
	{name: "show_keys", help: "show API keys, addresses and other values of keys in the clear to operators, not their hashes",
		set: toggle(func(s *settings) *bool { return &s.ShowKeys })},
	{name: "request_log_sample", arg: "SHARE", help: "the share of them that is logged, such as 0.01 (default 1)",
		set: share(func(s *settings) *float64 { return &s.RequestLog.Sample })},
	{name: "request_log_rate", arg: "N", help: fmt.Sprintf("how many lines of it are written in a second at most (default %d)", serve.DefaultRequestLogRate),
		set: number(1, 1<<20, func(s *settings) *int { return &s.RequestLog.Rate })},
	{name: "merge_domains", help: "let several files hold rules of one domain",
		set: toggle(func(s *settings) *bool { return &s.MergeDomains })},
	{name: "client_ip_header", arg: "NAME", help: "the header in which trusted proxies name their client (default X-Forwarded-For)",
		set: text(func(s *settings) *string { return &s.ClientIPHeader })},
	{name: "api_key_header", arg: "NAME", help: "the header that carries the API key (default X-API-Key)",
		set: text(func(s *settings) *string { return &s.APIKeyHeader })},
	{name: "bearer_api_key", help: "take a bearer token as API key as well as that header; two different keys are none",
		set: toggle(func(s *settings) *bool { return &s.BearerAPIKey })},
	{name: "jwt_keys", arg: "FILE", path: true, help: "what bearer tokens are verified with: PEM, a JSON Web Key Set or a secret (default: no tokens)",
		set: text(func(s *settings) *string { return &s.Who.Tokens.KeyFile })},
	{name: "jwt_issuer", arg: "TEXT", help: "the issuer that tokens must name",
		set: text(func(s *settings) *string { return &s.Who.Tokens.Issuer })},
	{name: "jwt_audience", arg: "TEXT", help: "the audience that tokens must name",
		set: text(func(s *settings) *string { return &s.Who.Tokens.Audience })},
	{name: "jwt_user_claim", arg: "NAME", help: "the claim that is the user (default sub)",
		set: text(func(s *settings) *string { return &s.Who.Tokens.UserClaim })},
	{name: "jwt_plan_claim", arg: "NAME", help: "the claim that is the plan (default plan)",
		set: text(func(s *settings) *string { return &s.Who.Tokens.PlanClaim })},
	{name: "user_header", arg: "NAME", help: "the header in which trusted proxies say who the user is",
		set: text(func(s *settings) *string { return &s.Who.UserHeader })},
	{name: "plan_header", arg: "NAME", help: "the header in which they say which plan the user has",
		set: text(func(s *settings) *string { return &s.Who.PlanHeader })},
	{name: "visitor", help: "know visitors again by a signed cookie; secret_file signs it",
		set: toggle(func(s *settings) *bool { return &s.Who.Visitor })},
	{name: "visitor_new", arg: "N", help: "how many newcomers of one address get one in an hour (default 20)",
		set: number(1, 1<<20, func(s *settings) *int { return &s.Who.VisitorNew })},
	{name: "body_field_bytes", arg: "N", help: "the longest body in which rules find a field (default 65536)",
		set: number(1, 1<<24, func(s *settings) *int64 { return &s.Who.MaxBody })},
	{name: "fold_path_case", help: "make upper and lower case one in paths",
		set: toggle(func(s *settings) *bool { return &s.FoldPathCase })},
	{name: "ipv4_prefix", arg: "BITS", help: "how many bits of an IPv4 address make one client (default 32)",
		set: number(1, 32, func(s *settings) *int { return &s.IPv4Prefix })},
	{name: "ipv6_prefix", arg: "BITS", help: "how many bits of an IPv6 address make one client (default 64)",
		set: number(1, 128, func(s *settings) *int { return &s.IPv6Prefix })},
	{name: "header_families", arg: "FAMILY", list: true, help: "rate-limit headers to send: legacy, draft, or none (default both)",
		set: families},
	{name: "reset_format", arg: "FORMAT", help: "X-RateLimit-Reset as epoch or delta (default epoch)", set: resetFormat},
	{name: "charge_preflight", help: "charge CORS preflight requests like others",
		set: toggle(func(s *settings) *bool { return &s.ChargePreflight })},
	{name: "denial_origins", arg: "ORIGIN", list: true, help: "origins whose scripts may read a denial (default all)",
		set: texts(func(s *settings) *[]string { return &s.DenialOrigins })},
	{name: "upstream_host", help: "send the upstream's host instead of the client's",
		set: toggle(func(s *settings) *bool { return &s.UpstreamHost })},
	{name: "upstream_dial_timeout", arg: "TIME", help: "for a connection to the upstream (default 5s)",
		set: duration(true, func(s *settings) *time.Duration { return &s.UpstreamTimeouts.Dial })},
	{name: "upstream_tls_timeout", arg: "TIME", help: "for securing it (default 5s)",
		set: duration(true, func(s *settings) *time.Duration { return &s.UpstreamTimeouts.TLSHandshake })},
	{name: "upstream_header_timeout", arg: "TIME", help: "for the upstream to begin its answer (default 60s)",
		set: duration(true, func(s *settings) *time.Duration { return &s.UpstreamTimeouts.ResponseHeader })},
	{name: "upstream_idle_timeout", arg: "TIME", help: "until an unused connection to the upstream is closed (default 90s)",
		set: duration(true, func(s *settings) *time.Duration { return &s.UpstreamTimeouts.Idle })},
	{name: "upstream_timeout", arg: "TIME", help: "for a whole call, other than event streams, upgraded connections and gRPC (default off)",
		set: duration(true, func(s *settings) *time.Duration { return &s.UpstreamTimeouts.Total })},
	{name: "upstream_retries", arg: "N", help: "how often a call is tried again that the upstream failed and that may be sent twice (default 0)",
		set: retries(func(s *settings) *gateway.Retries { return &s.Retries })},
	{name: "upstream_retry_statuses", arg: "STATUS", list: true, help: "statuses that are tried again (default 502, 503, 504)",
		set: retryStatuses(func(s *settings) *gateway.Retries { return &s.Retries })},
	{name: "max_hold", arg: "TIME", help: "how long Envoy's callers without a deadline are held by a leaky bucket (default 1s)",
		set: duration(false, func(s *settings) *time.Duration { return &s.RLS.MaxHold })},
	{name: "rls_headers", help: "ask Envoy to add RateLimit-Limit, -Remaining, -Reset and Retry-After to answers", set: rlsHeaders},
	{name: "rls_dynamic_metadata", help: "give Envoy the metadata of rules that were not over",
		set: toggle(func(s *settings) *bool { return &s.RLS.DynamicMetadata })},
	{name: "grpc_tls_cert", arg: "FILE", path: true, help: "the certificate of the gRPC listener, in PEM; read again when it changes",
		set: text(func(s *settings) *string { return &s.RLS.Certificates.Cert })},
	{name: "grpc_tls_key", arg: "FILE", path: true, help: "its private key",
		set: text(func(s *settings) *string { return &s.RLS.Certificates.Key })},
	{name: "grpc_tls_client_ca", arg: "FILE", path: true, help: "authorities whose certificates gRPC clients must show (default none)",
		set: text(func(s *settings) *string { return &s.RLS.Certificates.ClientCA })},
	{name: "grpc_tls_client_name", arg: "NAME", help: "a DNS name that a client's certificate must hold",
		set: text(func(s *settings) *string { return &s.RLS.Certificates.ClientName })},
	{name: "tls_cert", arg: "FILE", path: true, help: "the certificate of the gateway, in PEM; read again when it changes (default: no TLS)",
		set: text(func(s *settings) *string { return &s.TLS.Cert })},
	{name: "tls_key", arg: "FILE", path: true, help: "its private key",
		set: text(func(s *settings) *string { return &s.TLS.Key })},
	{name: "tls_client_ca", arg: "FILE", path: true, help: "authorities whose certificates clients must show (default none)",
		set: text(func(s *settings) *string { return &s.TLS.ClientCA })},
	{name: "tls_client_optional", help: "let clients in that show none",
		set: toggle(func(s *settings) *bool { return &s.TLS.ClientOptional })},
	{name: "http_tls_cert", arg: "FILE", path: true, help: "the same for the decision API, other than on unix sockets",
		set: text(func(s *settings) *string { return &s.HTTPTLS.Cert })},
	{name: "http_tls_key", arg: "FILE", path: true, help: "its private key",
		set: text(func(s *settings) *string { return &s.HTTPTLS.Key })},
	{name: "http_tls_client_ca", arg: "FILE", path: true, help: "authorities whose certificates clients must show (default none)",
		set: text(func(s *settings) *string { return &s.HTTPTLS.ClientCA })},
	{name: "read_header_timeout", arg: "TIME", help: "for a client to send a request's header (default 10s)",
		set: duration(true, func(s *settings) *time.Duration { return &s.ReadHeaderTimeout })},
	{name: "body_timeout", arg: "TIME", help: "for a client to send more of a body (default 1m)",
		set: duration(true, func(s *settings) *time.Duration { return &s.BodyTimeout })},
	{name: "send_timeout", arg: "TIME", help: "for a client to take more of a response (default 1m)",
		set: duration(true, func(s *settings) *time.Duration { return &s.SendTimeout })},
	{name: "read_timeout", arg: "TIME", help: "for a client to send a whole request (default off)",
		set: duration(true, func(s *settings) *time.Duration { return &s.ReadTimeout })},
	{name: "write_timeout", arg: "TIME", help: "for a whole response (default off)",
		set: duration(true, func(s *settings) *time.Duration { return &s.WriteTimeout })},
	{name: "idle_timeout", arg: "TIME", help: "until an unused connection of a client is closed (default 120s)",
		set: duration(true, func(s *settings) *time.Duration { return &s.IdleTimeout })},
	{name: "max_header_bytes", arg: "N", help: "the longest header of a request (default 65536)",
		set: number(1024, 1<<24, func(s *settings) *int { return &s.MaxHeaderBytes })},
	{name: "max_body_bytes", arg: "N", help: "the longest body of a request (default no bound)",
		set: number(1, maxBody, func(s *settings) *int64 { return &s.MaxBodyBytes })},
	{name: "secret_file", arg: "FILE", path: true, help: "what receipts and visitors' cookies are signed with; the same for all instances (default random)", set: secretFile},
	{name: "shed", help: "refuse the least important calls while an upstream is overloaded; see docs/overload.md",
		set: toggle(func(s *settings) *bool { return &s.Shed.Enabled })},
	{name: "shed_max_limit", arg: "N", help: "the most calls that may be under way at an upstream then (default 1000)",
		set: number(1, 1<<16, func(s *settings) *int { return &s.Shed.Options.MaxLimit })},
	{name: "shed_max_wait", arg: "TIME", help: "how long a call may wait for room (default 100ms)",
		set: duration(false, func(s *settings) *time.Duration { return &s.Shed.Options.MaxWait })},
	{name: "plan_weights", arg: "PLAN=N", list: true, pairs: true, help: "how much more than others the clients of a plan may have then (default 1)", set: planWeights},
	{name: "reserves", arg: "PRIORITY=PERCENT", list: true, pairs: true, help: "room of a priority's own (default critical=10)", set: reserves},
	{name: "shutdown_delay", arg: "TIME", help: "how long new calls are still taken at the end, while /readyz is 503 (default 0)",
		set: shutdownDelay},
	{name: "shutdown_timeout", arg: "TIME", help: "how long calls under way may take at the end (default 25s)",
		set: duration(false, func(s *settings) *time.Duration { return &s.ShutdownTimeout })},
}

func findSetting(name string) *setting {
	return findIn(allSettings, name)
}

func findIn(table []setting, name string) *setting {
	i := slices.IndexFunc(table, func(s setting) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return &table[i]
}

func settingNames() []string { return namesOf(allSettings) }

func namesOf(table []setting) []string {
	names := make([]string, len(table))
	for i, s := range table {
		names[i] = s.name
	}
	return names
}

// The one name of a setting, as the flag, the environment and caudal.yaml spell
// it.
func (s *setting) flagName() string { return strings.ReplaceAll(s.name, "_", "-") }
func (s *setting) envName() string  { return envPrefix + strings.ToUpper(s.name) }

func settingName(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// envPrefix begins the names of the environment.
const envPrefix = "CAUDAL_"

// split takes a text apart that may hold several values.
func (s *setting) split(text string) []string {
	if !s.list {
		return []string{text}
	}
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
