package decisionapi

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/rule"
)

// DefaultMaxHold is how long authorize holds a request for its turn in a queue.
const DefaultMaxHold = 25 * time.Millisecond

// minSecret is the shortest secret, in bytes.
const minSecret = 16

// Options are the settings of an API. The zero value is usable.
type Options struct {
	// Secret signs receipts, at least 16 bytes. Instances that share a store need
	// the same. Default a random one, so that receipts are worth something only
	// here and until the process ends.
	Secret []byte
	// FoldPathCase makes upper and lower case one in the path of a check, as
	// identity.Options.FoldPathCase does for requests.
	FoldPathCase bool
	// Clock tells when receipts expire. Default caudal.NewSystemClock.
	Clock caudal.Clock
	// Took, when set, is told how long each decision took, without holding.
	Took func(time.Duration)
	// Logger gets hints about proxies that are not set up right, at most one every
	// ten seconds. Default slog.Default().
	Logger *slog.Logger
}

// API is the handlers. Make it with New.
type API struct {
	opts    Options
	decider *httplimit.Decider
	who     *identity.Resolver
	signer  signer
	rules   atomic.Pointer[rules]
	hints   hints
}

// rules are what is in force.
type rules struct {
	set         *rule.Set
	standard    *rule.Domain // when a check names none
	limits      map[limitID]*caudal.Compiled
	concurrency map[limitID]*caudal.CompiledConcurrency
}

// New makes an API. decider decides, with who as its resolver: only peers that
// who trusts may ask authorize; see [Local].
func New(decider *httplimit.Decider, who *identity.Resolver, o Options) (*API, error) {
	switch {
	case decider == nil:
		return nil, errors.New("decisionapi: no decider: make one with httplimit.NewDecider")
	case who == nil:
		return nil, errors.New("decisionapi: no resolver: make one with identity.New")
	case o.Secret != nil && len(o.Secret) < minSecret:
		return nil, fmt.Errorf("decisionapi: a secret of %d bytes is too short: use at least %d", len(o.Secret), minSecret)
	}
	if o.Secret == nil {
		o.Secret = make([]byte, 32)
		_, _ = rand.Read(o.Secret) // never fails
	}
	if o.Clock == nil {
		o.Clock = caudal.NewSystemClock()
	}
	if o.Took == nil {
		o.Took = func(time.Duration) {}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	a := &API{opts: o, decider: decider, who: who, signer: signer{o.Secret}, hints: hints{log: o.Logger}}
	a.rules.Store(&rules{set: new(rule.Set), standard: decider.Domain()})
	return a, nil
}

// SetRules puts rules in force, and the domain of checks that name none. The
// decider is told by others.
func (a *API) SetRules(set *rule.Set, standard *rule.Domain) {
	r := &rules{set: set, standard: standard, limits: map[limitID]*caudal.Compiled{},
		concurrency: map[limitID]*caudal.CompiledConcurrency{}}
	for _, l := range set.Limits() {
		if l.Compiled != nil {
			r.limits[idOf(l.Compiled)] = l.Compiled
		}
	}
	for _, l := range set.Concurrencies() {
		r.concurrency[permitLimitID(l.Compiled)] = l.Compiled
	}
	a.rules.Store(r)
}

// Register puts the paths of the API on a mux.
func (a *API) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/check", a.check)
	mux.HandleFunc("POST /v1/refund", a.refund)
	mux.HandleFunc("POST /v1/renew", a.renew)
	mux.HandleFunc("POST /v1/release", a.release)
	mux.HandleFunc("GET /v1/authorize", a.authorize) // and HEAD
	mux.HandleFunc("GET /v1/openapi.yaml", document)
}

// Local gives the networks of peers on this machine, for identity.Options where
// no proxies are named: a proxy beside caudal may ask authorize then, also over a
// unix socket, and nobody else.
func Local() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}
