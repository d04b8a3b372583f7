package serve

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/caudal-dev/caudal/dashboard"
	"github.com/caudal-dev/caudal/internal/admin"
)

// adminHandler answers operators. What changes something, and what shows keys, is
// behind the guard of internal/admin.
func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	page := dashboard.Handler()
	mux.Handle("GET /{$}", page)
	mux.Handle("GET /dashboard/", page)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.metrics.Handler())
	mux.Handle("GET /rlconfig", s.rls.service.Config())
	s.operate.Register(mux)
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/", fromHere(profiles))
	return mux
}

// fromHere lets only clients on this machine through: a profile shows what is in
// memory and takes time.
func fromHere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admin.FromHere(r) {
			http.Error(w, "profiles are for clients on this machine: use 127.0.0.1, or a tunnel to it", http.StatusForbidden)
			return
		}
		// A name that leads here may stand in somebody's page.
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if host != "localhost" && net.ParseIP(host) == nil {
			http.Error(w, "profiles are for 127.0.0.1 and localhost", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// health is the body of /healthz.
type health struct {
	State   string    `json:"state"` // ok, degraded or draining
	Version string    `json:"version,omitempty"`
	Since   time.Time `json:"since"`
	DryRun  bool      `json:"dry_run"`
	// Enforcing is false while an operator has turned enforcement off, until
	// EnforcingAgain if that is known; Blocks is how many clients are blocked by hand.
	Enforcing      bool         `json:"enforcing"`
	EnforcingAgain *time.Time   `json:"enforcing_again,omitempty"`
	Blocks         int          `json:"blocks,omitempty"`
	Rules          healthRules  `json:"rules"`
	Reload         *healthLoad  `json:"last_reload,omitempty"`
	Store          healthStore  `json:"store"`
	Gateway        healthListen `json:"gateway"`
}

type healthRules struct {
	Domain   string    `json:"domain"`
	Limits   int       `json:"limits"`
	Warnings int       `json:"warnings"`
	Hash     string    `json:"hash"`
	LoadedAt time.Time `json:"loaded_at"`
}

type healthLoad struct {
	At    time.Time `json:"at"`
	OK    bool      `json:"ok"`
	Error string    `json:"error,omitempty"`
}

type healthStore struct {
	Kind string `json:"kind"`
	Keys int64  `json:"keys"`
	// The rest is there for a store that other processes share.
	Degraded  bool       `json:"degraded,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	Failure   string     `json:"failure,omitempty"` // the kind of the last one, while degraded
	Instances int        `json:"instances,omitempty"`
}

type healthListen struct {
	Address string `json:"address"`
	Calls   int64  `json:"calls"`
}

func (s *Server) health() health {
	loaded := s.rules.Load()
	h := health{
		State: "ok", Version: s.deps.Version, Since: s.started.UTC(), DryRun: s.config.DryRun,
		Rules:   healthRules{loaded.domain.Name(), loaded.limits(), loaded.warned(), loaded.hash, loaded.at.UTC()},
		Store:   healthStore{Kind: s.store.kind, Keys: s.store.stats().Keys},
		Gateway: healthListen{s.Addr(), s.calls.Load()},
	}
	e := admin.EnforcementOf(s.controls)
	h.Enforcing, h.EnforcingAgain, h.Blocks = e.On, e.Until, len(s.controls.Blocks())
	if s.store.state != nil {
		st := s.store.state()
		since := st.Since.UTC()
		h.Store.Degraded, h.Store.Since, h.Store.Instances = st.Degraded, &since, st.Instances
		if st.Degraded {
			h.State, h.Store.Failure = "degraded", st.Kind
		}
	}
	if s.draining.Load() {
		h.State = "draining"
	}
	if last := s.reload.Load(); last != nil {
		h.Reload = &healthLoad{At: last.at.UTC(), OK: last.err == nil}
		if last.err != nil {
			h.Reload.Error = last.err.Error()
		}
	}
	return h
}

// healthz says that the process lives, and how it is.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.health())
}

// readyz says whether calls should be sent here: not while the server drains.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	status := http.StatusOK
	if s.draining.Load() {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, s.health())
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone needs no answer
}
