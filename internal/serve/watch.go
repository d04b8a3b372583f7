package serve

import (
	"context"

	"github.com/caudal-dev/caudal/internal/rulewatch"
)

// watch reloads the rules when their files change, until the function that it
// gives is called. Rules that are no files are not watched.
func (s *Server) watch(ctx context.Context) (stop func()) {
	if len(s.config.Rules) == 0 || s.config.Text != "" || s.config.Limit != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	options := rulewatch.Options{Paths: s.config.Rules, Rules: ruleOptions(&s.config),
		Loaded: func(r rulewatch.Result) error {
			if last := s.reload.Load(); r.Set.Hash() == s.rules.Load().hash && (last == nil || last.err == nil) {
				return nil // in force already: the files say the same in other words
			}
			return s.Reload()
		},
		Failed: func(err error) {
			if last := s.reload.Load(); last == nil || last.err == nil || last.err.Error() != err.Error() {
				_ = s.Reload() // it says everywhere what is wrong, and the last good rules stay
			}
		}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Rules that do not load now have been refused like any others, and are
		// watched all the same.
		if w, _ := rulewatch.New(options); w != nil {
			w.Run(ctx)
		}
	}()
	return func() { cancel(); <-done }
}
