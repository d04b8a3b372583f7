package serve

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caudal-dev/caudal/envoyrls"
)

// EnvoyEnv is what the environment of Envoy's reference rate limit service says
// beside a Config.
type EnvoyEnv struct {
	// LogLevel and LogFormat are the reference's, in our words; empty when not set.
	LogLevel, LogFormat string
	// Ignored are the names that are set and mean nothing here.
	Ignored []string
}

// ReadEnvoyEnv takes the environment of the reference service into c, as far as
// settings are not set already. The error says which name holds what, and a mend.
func ReadEnvoyEnv(environ []string, c *Config) (EnvoyEnv, error) {
	r := &envReader{values: map[string]string{}}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			r.values[name] = value
		}
	}
	r.refuse("BACKEND_TYPE", "memcache", "memcached cannot check and count in one step: use BACKEND_TYPE=redis and REDIS_URL, or leave both out to count in memory")
	r.refuse("CONFIG_TYPE", "GRPC_XDS_SOTW", "rules come from files: use CONFIG_TYPE=FILE and RUNTIME_ROOT")
	r.oneOf("BACKEND_TYPE", "redis")
	r.oneOf("CONFIG_TYPE", "FILE")
	r.addresses(c)
	r.rules(c)
	r.answers(&c.RLS)
	r.tls(&c.RLS)
	r.store(c)
	env := EnvoyEnv{LogLevel: r.logLevel(), LogFormat: strings.ToLower(r.values["LOG_FORMAT"])}
	for _, name := range meaningless {
		if r.values[name] != "" {
			env.Ignored = append(env.Ignored, name)
		}
	}
	slices.Sort(env.Ignored)
	return env, r.err
}

// meaningless are names of the reference that nothing here answers to.
var meaningless = []string{
	"FORCE_START_WITHOUT_INITIAL_CONFIG", "RUNTIME_IGNOREDOTFILES", "RUNTIME_WATCH_ROOT", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
	"EXPIRATION_JITTER_MAX_SECONDS", "LOCAL_CACHE_SIZE_IN_BYTES",
	"REDIS_POOL_SIZE", "REDIS_PIPELINE_WINDOW", "REDIS_PIPELINE_LIMIT", "REDIS_CLUSTER_PIPELINE_PARALLELISM", "REDIS_TIMEOUT",
	"REDIS_POOL_ON_EMPTY_BEHAVIOR", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "REDIS_STARTUP_INITIAL_INTERVAL",
	"REDIS_STARTUP_MAX_INTERVAL", "REDIS_STARTUP_MAX_ELAPSED_TIME", "REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR",
	"REDIS_PERSECOND", "REDIS_PERSECOND_SOCKET_TYPE", "REDIS_PERSECOND_TYPE", "REDIS_PERSECOND_URL", "REDIS_PERSECOND_AUTH",
	"REDIS_PERSECOND_SENTINEL_AUTH", "REDIS_PERSECOND_TLS", "REDIS_PERSECOND_POOL_SIZE", "REDIS_PERSECOND_PIPELINE_WINDOW",
	"REDIS_PERSECOND_PIPELINE_LIMIT", "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", "REDIS_PERSECOND_TIMEOUT",
	"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
	"MEMCACHE_HOST_PORT", "MEMCACHE_SRV", "MEMCACHE_SRV_REFRESH", "MEMCACHE_MAX_IDLE_CONNS", "MEMCACHE_TLS",
	"USE_STATSD", "STATSD_HOST", "STATSD_PORT", "STATS_FLUSH_INTERVAL", "EXTRA_TAGS", "DISABLE_STATS", "USE_DOG_STATSD",
	"USE_DOG_STATSD_MOGRIFIERS", "PROMETHEUS_MAPPER_YAML", "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
	"TRACING_ENABLED", "TRACING_EXPORTER_PROTOCOL", "TRACING_SERVICE_NAME", "TRACING_SERVICE_NAMESPACE",
	"TRACING_SERVICE_INSTANCE_ID", "TRACING_SAMPLING_RATE",
	"CONFIG_GRPC_XDS_NODE_ID", "CONFIG_GRPC_XDS_NODE_METADATA", "CONFIG_GRPC_XDS_SERVER_URL",
}

// envReader reads the environment, and keeps the first thing that is wrong.
type envReader struct {
	values map[string]string
	err    error
}

func (r *envReader) fail(name, what, hint string) {
	if r.err == nil {
		r.err = &Error{Missing: true, What: name + ": " + what, Hint: hint}
	}
}

func (r *envReader) refuse(name, value, hint string) {
	if strings.EqualFold(r.values[name], value) {
		r.fail(name, value+" does not act here", hint)
	}
}

// oneOf reads a word in any letter case; empty when it is not set.
func (r *envReader) oneOf(name string, words ...string) string {
	v := r.values[name]
	for _, word := range words {
		if strings.EqualFold(v, word) {
			return word
		}
	}
	if v != "" {
		r.fail(name, fmt.Sprintf("%q is not known", v), "use "+strings.Join(words, " or "))
	}
	return ""
}

// flag reads a switch as the reference does.
func (r *envReader) flag(name string) bool {
	v := r.values[name]
	if v == "" {
		return false
	}
	on, err := strconv.ParseBool(v)
	if err != nil {
		r.fail(name, fmt.Sprintf("%q is neither true nor false", v), "use one of them")
	}
	return on
}

func (r *envReader) duration(name string) time.Duration {
	v := r.values[name]
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		r.fail(name, fmt.Sprintf("%q is no time", v), "write it like 24h or 90s")
	}
	return d
}

// address joins a host and a port, where one of them is set.
func (r *envReader) address(host, port, standard string) string {
	if r.values[host] == "" && r.values[port] == "" {
		return ""
	}
	p := r.values[port]
	if p == "" {
		p = standard
	}
	if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
		r.fail(port, fmt.Sprintf("%q is no port", p), "use a number from 1 to 65535")
	}
	return net.JoinHostPort(r.values[host], p)
}

func (r *envReader) addresses(c *Config) {
	if a := r.address("HOST", "PORT", "8080"); a != "" && c.HTTPListen == nil {
		c.HTTPListen = []string{a}
	}
	grpc := r.address("GRPC_HOST", "GRPC_PORT", "8081")
	if path := r.values["GRPC_UDS"]; path != "" {
		grpc = "unix:" + path
	}
	if grpc != "" && c.RLS.Listen == nil {
		c.RLS.Listen = []string{grpc}
	}
	if a := r.address("DEBUG_HOST", "DEBUG_PORT", "6070"); a != "" {
		setDefault(&c.AdminListen, a)
	}
	if r.flag("USE_PROMETHEUS") {
		setDefault(&c.RLS.PrometheusListen, or(r.values["PROMETHEUS_ADDR"], ":9090"))
		setDefault(&c.RLS.PrometheusPath, r.values["PROMETHEUS_PATH"])
	}
	setDefault(&c.RLS.MaxConnectionAge, r.duration("GRPC_MAX_CONNECTION_AGE"))
	setDefault(&c.RLS.MaxConnectionGrace, r.duration("GRPC_MAX_CONNECTION_AGE_GRACE"))
}

func or(v, standard string) string {
	if v == "" {
		return standard
	}
	return v
}

// rules finds the directory that the reference loads.
func (r *envReader) rules(c *Config) {
	if len(c.Rules) == 0 && c.Limit == "" && c.Text == "" {
		c.Rules = []string{filepath.Join(or(r.values["RUNTIME_ROOT"], "/srv/runtime_data/current"),
			r.values["RUNTIME_SUBDIRECTORY"], or(r.values["RUNTIME_APPDIRECTORY"], "config"))}
	}
	c.MergeDomains = r.flag("MERGE_DOMAIN_CONFIG") || c.MergeDomains
}

func (r *envReader) answers(c *RLS) {
	c.ShadowMode = r.flag("SHADOW_MODE") || c.ShadowMode
	c.QuotaMode = r.flag("QUOTA_MODE") || c.QuotaMode
	c.StopIncrement = r.flag("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT") || c.StopIncrement
	c.DynamicMetadata = r.flag("RESPONSE_DYNAMIC_METADATA") || c.DynamicMetadata
	if r.flag("LIMIT_RESPONSE_HEADERS_ENABLED") && c.Headers == nil {
		c.Headers = &envoyrls.Headers{Limit: r.values["LIMIT_LIMIT_HEADER"], Remaining: r.values["LIMIT_REMAINING_HEADER"], Reset: r.values["LIMIT_RESET_HEADER"]}
	}
	if v := r.values["NEAR_LIMIT_RATIO"]; v != "" {
		ratio, err := strconv.ParseFloat(v, 64)
		if err != nil || !(ratio > 0 && ratio <= 1) {
			r.fail("NEAR_LIMIT_RATIO", fmt.Sprintf("%q is no ratio", v), "use a number over 0 and at most 1")
		}
		setDefault(&c.NearRatio, ratio)
	}
}

func (r *envReader) tls(c *RLS) {
	if !r.flag("GRPC_SERVER_USE_TLS") || c.Certificates != (Certificates{}) {
		return
	}
	c.Certificates = Certificates{Cert: r.values["GRPC_SERVER_TLS_CERT"], Key: r.values["GRPC_SERVER_TLS_KEY"],
		ClientCA: r.values["GRPC_CLIENT_TLS_CACERT"], ClientName: r.values["GRPC_CLIENT_TLS_SAN"]}
	if c.Certificates.Cert == "" || c.Certificates.Key == "" {
		r.fail("GRPC_SERVER_USE_TLS", "there is no certificate", "set GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY")
	}
}

// store makes one URL of the reference's names.
func (r *envReader) store(c *Config) {
	setDefault(&c.StorePrefix, r.values["CACHE_KEY_PREFIX"])
	address := r.values["REDIS_URL"]
	if c.Store != "" || address == "" {
		return
	}
	if strings.Contains(address, "://") { // as a whole
		c.Store = address
		return
	}
	kind := r.oneOf("REDIS_TYPE", "SINGLE", "SENTINEL", "CLUSTER")
	if r.oneOf("REDIS_SOCKET_TYPE", "tcp", "unix") == "unix" || strings.HasPrefix(address, "/") {
		r.fail("REDIS_SOCKET_TYPE", "unix sockets to Redis are not supported", "let Redis listen on 127.0.0.1, and set REDIS_SOCKET_TYPE=tcp and REDIS_URL=127.0.0.1:6379")
		return
	}
	u := url.URL{Scheme: "redis", Host: address}
	if r.flag("REDIS_TLS") {
		u.Scheme = "rediss"
	}
	query := url.Values{}
	switch kind {
	case "SENTINEL": // the master's name, then the sentinels
		master, hosts, _ := strings.Cut(address, ",")
		u.Scheme, u.Host, u.Path = u.Scheme+"-sentinel", hosts, "/"+master
		r.credential("REDIS_SENTINEL_AUTH", func(user, password string) {
			setQuery(query, "sentinel_user", user)
			setQuery(query, "sentinel_password", password)
		})
	case "CLUSTER":
		u.Scheme += "-cluster"
	}
	r.credential("REDIS_AUTH", func(user, password string) { u.User = url.UserPassword(user, password) })
	if r.flag("REDIS_TLS") {
		setQuery(query, "ca", r.values["REDIS_TLS_CACERT"])
		setQuery(query, "cert", r.values["REDIS_TLS_CLIENT_CERT"])
		setQuery(query, "key", r.values["REDIS_TLS_CLIENT_KEY"])
		if r.flag("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") {
			query.Set("insecure", "true")
		}
	}
	u.RawQuery = query.Encode()
	c.Store = u.String()
}

// credential reads "password" or "user:password".
func (r *envReader) credential(name string, set func(user, password string)) {
	v := r.values[name]
	if v == "" {
		return
	}
	user, password, both := strings.Cut(v, ":")
	if !both {
		user, password = "", v
	}
	set(user, password)
}

func setQuery(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// logLevel reads the reference's level, whose default is WARN.
func (r *envReader) logLevel() string {
	switch level := strings.ToLower(r.values["LOG_LEVEL"]); level {
	case "":
		return ""
	case "trace", "debug":
		return "debug"
	case "info":
		return "info"
	case "warn", "warning":
		return "warn"
	case "error", "fatal", "panic":
		return "error"
	default:
		r.fail("LOG_LEVEL", fmt.Sprintf("%q is not known", level), "use DEBUG, INFO, WARN or ERROR")
		return ""
	}
}
