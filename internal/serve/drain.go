package serve

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// track counts the calls under way: also those on connections that were upgraded,
// which net/http no longer knows.
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		defer s.calls.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// Close drains the server and ends it: for the shutdown delay it only says that it is
// not ready, then no new calls are accepted, and those under way may finish within the shutdown timeout, a call that is held until then gives
// back its turn. It may be called again; later calls wait for the first.
func (s *Server) Close() error { return s.close() }

// cancelGrace is how long calls have to end after they were cancelled.
const cancelGrace = 2 * time.Second

func (s *Server) drain() error {
	s.draining.Store(true)
	s.rls.server.SetServing(false)
	if d := s.config.ShutdownDelay; d > 0 {
		s.pause(d) // still taking calls
	}
	deadline := time.Now().Add(s.config.ShutdownTimeout)
	if !s.shutdown(s.config.ShutdownTimeout) {
		s.log.Warn("calls are still under way at the end of the shutdown timeout; they are cancelled", "calls", s.calls.Load())
		s.cancelCalls()
		s.shutdown(cancelGrace)
	}
	s.cancelCalls()
	var err error
	for _, e := range s.endpoints() {
		if e != s.admin {
			err = errors.Join(err, e.http.Close())
		}
	}
	if s.admin != nil {
		err = errors.Join(err, s.closeAdmin())
	}
	s.endControls()
	s.serving.Wait()
	if s.gateway != nil {
		err = errors.Join(err, s.gateway.Close())
	}
	err = errors.Join(err, s.store.close())
	s.closeTracing(deadline)
	s.log.Info("shut down", "calls", s.calls.Load())
	return err
}

// shutdown stops accepting and reports whether all calls ended in time.
func (s *Server) shutdown(timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if s.front != nil && s.front.http.Shutdown(ctx) != nil {
		return false
	}
	if len(s.rls.listeners) > 0 && s.rls.server.Shutdown(ctx) != nil {
		return false
	}
	for _, e := range s.api { // after the gateway: others still ask while it drains
		if e.http.Shutdown(ctx) != nil {
			return false
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.calls.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// closeAdmin ends the admin listener, last, so that health and metrics could be
// read while calls drained.
func (s *Server) closeAdmin() error {
	s.endAdmin()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.admin.http.Shutdown(ctx) == nil {
		return nil
	}
	return s.admin.http.Close()
}
