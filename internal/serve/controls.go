package serve

import (
	"cmp"
	"context"
	"net/http"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/control"
	"github.com/caudal-dev/caudal/internal/admin"
	"github.com/caudal-dev/caudal/internal/metrics"
	"github.com/caudal-dev/caudal/rule"
)

// openControls makes what operators say and who answers them. store is the one that
// decides.
func (s *Server) openControls(store caudal.Store) error {
	s.controls = control.New(control.Options{Shared: s.store.notes, Clock: s.deps.Clock, Logger: s.log})
	s.adminCtx, s.endAdmin = context.WithCancel(context.Background())
	for _, c := range metrics.Operators(s.controls) {
		if err := s.metrics.Register(c); err != nil {
			return err
		}
	}
	who, err := s.resolver(s.config.TrustedProxies)
	if err != nil {
		return err
	}
	header := http.CanonicalHeaderKey(cmp.Or(s.config.APIKeyHeader, "X-Api-Key"))
	s.operate, err = admin.New(admin.Options{Token: s.config.AdminToken, Rules: func() *rule.Set { return s.rules.Load().set },
		Store: store, Controls: s.controls, Who: who, KeyHeader: header,
		Status: s.snapshot, History: s.history, Logger: s.log})
	if err != nil {
		return &Error{What: "admin_token_file: " + err.Error()[len("admin: "):]}
	}
	return nil
}

// serveControls hears what is said to other instances, until endControls.
func (s *Server) serveControls() {
	ctx, cancel := context.WithCancel(context.Background())
	s.endControls = cancel
	s.serving.Go(func() { s.controls.Run(ctx) })
}
