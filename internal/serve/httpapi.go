package serve

import (
	"context"
	"io"
	"net/http"
)

// healthcheckPath is asked by whoever balances load.
const healthcheckPath = "/healthcheck"

// openAPI listens for the protocols that others ask for decisions by over HTTP.
func (s *Server) openAPI(ctx context.Context) error {
	if s.config.httpOff() {
		return nil
	}
	secure, err := s.openCertificates("http_tls_", s.config.HTTPTLS, "h2", "http/1.1")
	if err != nil {
		return err
	}
	handler := boundBodies(s.track(s.traceAsked(s.apiHandler())), bodyTime)
	for _, address := range s.config.HTTPListen {
		ln, err := listen("http_listen", address)
		if err != nil {
			return err
		}
		e := &endpoint{name: "http", http: s.newHTTP(ctx, handler), ln: ln}
		if ln.Addr().Network() != "unix" { // who may open that is said by its mode
			e.http.TLSConfig = secure
		}
		s.api = append(s.api, e)
	}
	return nil
}

// apiHandler is what answers there. Each protocol registers its own paths.
func (s *Server) apiHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+healthcheckPath, s.healthcheck)
	s.decisions.api.Register(mux)
	mux.Handle("/json", s.rls.service.JSON())
	return mux
}

// healthcheck says whether this instance should be asked.
func (s *Server) healthcheck(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK") // a client that has gone needs no answer
}

// APIAddrs gives the addresses on which the decision API listens.
func (s *Server) APIAddrs() []string {
	var all []string
	for _, e := range s.api {
		all = append(all, e.ln.Addr().String())
	}
	return all
}
