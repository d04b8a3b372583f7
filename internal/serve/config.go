package serve

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/caudal-dev/caudal/gateway"
	"github.com/caudal-dev/caudal/httplimit"
)

// Off is the address of a listener that is not wanted.
const Off = "off"

// Defaults of settings that are not left to the packages that they are for.
const (
	DefaultListen          = ":8000"
	DefaultHTTPListen      = ":8080"
	DefaultAdminListen     = "127.0.0.1:6070"
	DefaultStore           = "memory"
	DefaultBy              = "ip"
	DefaultShutdownTimeout = 25 * time.Second
)

// Config is every setting of a server. The zero value of a field means its
// default; one of Rules, Limit and Text is required. Without Upstream and Routes there is no
// gateway, and others ask for decisions.
type Config struct {
	// Rules are the files and directories of rules.
	Rules []string
	// Limit is one limit instead of rule files, as caudal.ParseLimit reads it, and
	// By says whose calls share its counters: ip (the default), api_key, path,
	// header:NAME and so on.
	Limit, By string
	// Text is rules given as text instead of files, and TextName what messages call
	// them.
	Text, TextName string
	// Domain names the domain to serve; empty when only one is loaded.
	Domain string
	// Region is where the server is, for limits that are shared among regions.
	Region string
	// ShowKeys shows values of keys in the clear where the busiest keys are shown.
	ShowKeys bool
	// RequestLog says which requests at the gateway are written to the log.
	RequestLog RequestLog
	// MergeDomains lets several files hold rules of one domain.
	MergeDomains bool

	// Upstream is where requests go.
	Upstream *url.URL
	// UpstreamHost sends the host of Upstream instead of the client's.
	UpstreamHost bool
	// Routes are the upstreams of several hosts and paths, instead of Upstream. What
	// they leave zero is as the other settings say.
	Routes []Route
	// UpstreamTimeouts bound the waiting for the upstream.
	UpstreamTimeouts gateway.Timeouts
	// Retries say when a call that the upstream failed is tried again.
	Retries gateway.Retries
	// ExemptPaths are never limited; see gateway.Options. Nil is DefaultExempt, an
	// empty list none.
	ExemptPaths []string
	// Shed says whether and how load is shed on all routes; see gateway.Options.
	Shed gateway.Shed

	// Listen is the gateway's address, AdminListen that of /metrics and the like,
	// or Off.
	Listen, AdminListen string
	// HTTPListen are the addresses of the decision API, or Off: host:port, and
	// unix:/path for a socket. Nil is DefaultHTTPListen without Upstream, and Off
	// with it: who runs a gateway did not ask for a second port.
	HTTPListen []string
	// TLS secures the gateway's listener, and HTTPTLS those of the decision API that
	// are no sockets in the file system.
	TLS, HTTPTLS Certificates
	// Secret signs the receipts of the decision API. Instances that share a store
	// need the same; nil is a random one.
	Secret []byte

	// RLS is about Envoy's rate limit protocol. Compat reads rules, counts and answers
	// as Envoy's reference service does.
	RLS    RLS
	Compat bool

	// Store says what counts, and MaxKeys how many keys it holds in memory.
	Store   string
	MaxKeys int
	// StateFile keeps what is counted in memory over a restart; empty forgets it.
	// StateInterval is how much a kill may lose; 0 is memstore.DefaultStateInterval.
	StateFile     string
	StateInterval time.Duration
	// AdminToken is what operators must show on the admin listener, from wherever;
	// empty lets in those on this machine alone. See internal/admin.
	AdminToken []byte
	// StorePrefix begins all keys in Redis; empty is redisstore.DefaultPrefix.
	StorePrefix string
	// StoreTimeout is how long a call may wait for a store that others share; 0 is
	// failover.DefaultDeadline. ExpectedInstances is how many share it, for what
	// each may let pass when it is gone; 0 is as many as are seen. AlertURL is told
	// when it is lost and when it is back.
	StoreTimeout      time.Duration
	ExpectedInstances int
	AlertURL          string

	// TrustedProxies, ClientIPHeader, APIKeyHeader, BearerAPIKey, FoldPathCase,
	// IPv4Prefix and IPv6Prefix say who is asking; see identity.Options.
	TrustedProxies               []netip.Prefix
	ClientIPHeader, APIKeyHeader string
	BearerAPIKey, FoldPathCase   bool
	IPv4Prefix, IPv6Prefix       int

	// Who says how clients are told apart beyond their address.
	Who Who

	// Families, Reset, DryRun, ChargePreflight and DenialOrigins say what clients
	// are told; see httplimit.Options.
	Families        httplimit.Families
	Reset           httplimit.ResetFormat
	DryRun          bool
	ChargePreflight bool
	DenialOrigins   []string

	// BodyTimeout and SendTimeout are for clients that stand still; see
	// gateway.Options.
	BodyTimeout, SendTimeout time.Duration
	// ReadHeaderTimeout, ReadTimeout, WriteTimeout and IdleTimeout bound how long a
	// client may take; see gateway.ServerOptions.
	ReadHeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// MaxHeaderBytes bounds a request's header, and MaxBodyBytes its body; 0 is no
	// bound on the body.
	MaxHeaderBytes int
	MaxBodyBytes   int64
	// ShutdownDelay is how long new calls are still taken when the server ends, while it
	// says that it is not ready, so that whoever sends calls can notice. Default 0.
	ShutdownDelay time.Duration
	// ShutdownTimeout is how long calls under way may take when the server ends,
	// after the delay.
	ShutdownTimeout time.Duration
}

func (c Config) withDefaults() Config {
	setDefault(&c.By, DefaultBy)
	setDefault(&c.Listen, DefaultListen)
	setDefault(&c.AdminListen, DefaultAdminListen)
	if c.HTTPListen == nil {
		c.HTTPListen = []string{DefaultHTTPListen}
		if c.HasGateway() {
			c.HTTPListen = []string{Off}
		}
	}
	if c.ExemptPaths == nil {
		c.ExemptPaths = DefaultExempt()
	}
	c.RLS.setDefaults(c.HasGateway())
	setDefault(&c.Store, DefaultStore)
	setDefault(&c.ShutdownTimeout, DefaultShutdownTimeout)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check finds settings that are missing or do not go together. What a setting
// may hold is checked by the package that it is for.
func (c *Config) check() error {
	sources := 0
	for _, given := range []bool{len(c.Rules) > 0, c.Limit != "", c.Text != ""} {
		if given {
			sources++
		}
	}
	switch {
	case !c.HasGateway() && (sources == 0 || c.httpOff() && c.RLS.off()):
		return &Error{Missing: true, What: "nothing to serve: no upstream is set",
			Hint: "say where requests go, such as --upstream http://127.0.0.1:3000, or name rules that other proxies ask about, with --rules PATH"}
	case sources == 0:
		return &Error{Missing: true, What: "no limit is set",
			Hint: "name rule files with --rules PATH, or give one limit such as --limit 100/m --by ip"}
	case sources > 1:
		return &Error{Missing: true, What: "both rules and limit are set",
			Hint: "write the limit into a rule file, or leave out the rule files"}
	case c.Limit == "" && c.By != DefaultBy:
		return &Error{Missing: true, What: "by says whose calls limit counts together, and no limit is set",
			Hint: "leave it out; in rules the key of a descriptor says it"}
	case c.ShutdownDelay < 0:
		return &Error{What: "shutdown_delay must not be negative"}
	case c.ShutdownTimeout < 0:
		return &Error{What: "shutdown_timeout must not be negative"}
	}
	if err := c.checkRoutes(); err != nil {
		return err
	}
	if err := c.Who.check(c.TrustedProxies); err != nil {
		return err
	}
	if err := c.checkStore(); err != nil {
		return err
	}
	if err := c.RequestLog.check(); err != nil {
		return err
	}
	for _, err := range []error{c.TLS.check("tls_", c.HasGateway()), c.HTTPTLS.check("http_tls_", !c.httpOff()),
		c.RLS.Certificates.check("grpc_tls_", !c.RLS.off())} {
		if err != nil {
			return err
		}
	}
	return c.checkListeners()
}

// checkListeners finds two listeners with one address. The system would say of the
// second only that somebody holds it.
func (c *Config) checkListeners() error {
	used := map[string]string{}
	for _, l := range []struct {
		setting   string
		addresses []string
	}{
		{"listen", []string{c.Listen}}, {"http_listen", c.HTTPListen},
		{"grpc_listen", c.RLS.Listen}, {"admin_listen", []string{c.AdminListen}},
	} {
		if l.setting == "listen" && !c.HasGateway() {
			continue // no gateway
		}
		for _, a := range l.addresses {
			if a == Off || strings.HasSuffix(a, ":0") { // any free port
				continue
			}
			if other := used[a]; other != "" {
				return &Error{Missing: true, What: fmt.Sprintf("%s and %s are both %s", other, l.setting, a),
					Hint: "give each listener an address of its own, or turn one off"}
			}
			used[a] = l.setting
		}
	}
	return nil
}

// httpOff reports whether there is no decision API.
func (c *Config) httpOff() bool { return len(c.HTTPListen) == 1 && c.HTTPListen[0] == Off }

// Error is something wrong with how a server is set up.
type Error struct {
	// Missing says that a setting is missing, or one too many: a mistake in the
	// command and not in a file.
	Missing bool
	// What says what is wrong, Hint how to mend it; Hint may be empty.
	What, Hint string
}

// Error gives What.
func (e *Error) Error() string { return e.What }
