package cli

import (
	"fmt"
	"log/slog"

	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/internal/serve"
)

// compat reads whom to be like.
func compat(s *settings, v []string) error {
	if v[0] != "envoy" {
		return fmt.Errorf("%q is not known: use envoy", v[0])
	}
	s.Compat = true
	return nil
}

func rlsHeaders(s *settings, v []string) error {
	on := false
	if err := toggle(func(*settings) *bool { return &on })(s, v); err != nil {
		return err
	}
	if s.RLS.Headers = nil; on {
		s.RLS.Headers = &envoyrls.Headers{}
	}
	return nil
}

// envoyEnvironment takes the environment of Envoy's reference service where that
// is asked for: what is not set in our own words. It gives the names that are set
// and mean nothing here.
func envoyEnvironment(s *settings, environ []string) (ignored []string, err error) {
	if !s.Compat {
		return nil, nil
	}
	env, err := serve.ReadEnvoyEnv(environ, &s.Config)
	if err != nil {
		return nil, err
	}
	if env.LogLevel != "" && s.logLevel == slog.LevelInfo {
		if err := logLevel(s, []string{env.LogLevel}); err != nil {
			return nil, err
		}
	}
	if env.LogFormat == "json" {
		s.logFormat = env.LogFormat
	}
	return env.Ignored, nil
}
