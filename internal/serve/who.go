package serve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/rule"
)

// DefaultVisitorNew is how many newcomers of one address get a cookie in an hour.
const DefaultVisitorNew = 20

// maxVisitorAddresses bounds the memory for newcomers: a table of some megabytes.
const maxVisitorAddresses = 100_000

// Who says how clients are told apart beyond their address.
type Who struct {
	// Keys is the file of the API keys that are known; empty takes keys as sent.
	Keys string
	// Tokens say which JSON Web Tokens are believed, when KeyFile is set.
	Tokens identity.TokenOptions
	// UserHeader and PlanHeader are believed from trusted proxies.
	UserHeader, PlanHeader string
	// Visitor gives those who pass the gateway a signed cookie, VisitorNew newcomers
	// of each address in an hour.
	Visitor    bool
	VisitorNew int
	// MaxBody is how much of a body is read for a field; 0 is 64 KiB.
	MaxBody int64
}

func (w *Who) check(trusted []netip.Prefix) error {
	switch {
	case (w.UserHeader != "" || w.PlanHeader != "") && len(trusted) == 0:
		return &Error{Missing: true, What: "user_header and plan_header are believed from trusted proxies only, and there is none",
			Hint: "name the proxy that sets them in trusted_proxies"}
	case w.Tokens.KeyFile == "" && w.Tokens.Issuer+w.Tokens.Audience+w.Tokens.UserClaim+w.Tokens.PlanClaim != "":
		return &Error{Missing: true, What: "jwt_issuer and the like are set, but no keys to verify tokens with",
			Hint: "name the file of the issuer's public keys in jwt_keys"}
	}
	return nil
}

// who is what clients are told apart by, and that can change while calls are
// served.
type who struct {
	keys     *identity.KeyRing // nil when keys are taken as sent
	tokens   *identity.Tokens
	visitors *identity.Visitors
	files    []*watchedFile
}

// watchedFile is a file that is read again when it changes.
type watchedFile struct {
	name, setting string
	read          func() error
	last, seen    os.FileInfo // when last read; when last looked at
}

// openWho reads the files.
func (s *Server) openWho() error {
	c := &s.config
	now := func() time.Time { return time.UnixMicro(s.deps.Clock.Now().Wall) }
	if c.Who.Keys != "" {
		s.who.keys = new(identity.KeyRing)
		if err := s.addFile("keys", c.Who.Keys, s.readKeys); err != nil {
			return err
		}
	}
	if c.Who.Tokens.KeyFile != "" {
		options := c.Who.Tokens
		options.Now = now
		var err error
		if s.who.tokens, err = identity.NewTokens(options); err != nil {
			return err
		}
		if err := s.addFile("jwt_keys", options.KeyFile, s.who.tokens.Reload); err != nil {
			return err
		}
	}
	if c.Who.Visitor {
		s.who.visitors = identity.NewVisitors(c.Secret, now)
	}
	return nil
}

// apiKeys gives what counts the keys that are known; nil when they are taken as sent.
func (s *Server) apiKeys() func() int {
	if s.config.Who.Keys == "" {
		return nil
	}
	return func() int {
		if s.who.keys == nil { // not read yet
			return 0
		}
		return s.who.keys.Keys().Len()
	}
}

func (s *Server) readKeys() error {
	keys, err := identity.LoadKeys(s.config.Who.Keys)
	if err != nil {
		return err
	}
	if info, err := os.Stat(s.config.Who.Keys); err == nil && info.Size() == 0 && s.who.keys.Keys().Len() > 0 {
		// A disk that is full leaves such files, and every client would be unknown.
		return &Error{What: "the file held keys and has no bytes now", Hint: "write the keys again; a comment (# none) is enough to take all of them away"}
	}
	s.who.keys.Set(keys)
	return nil
}

func (s *Server) addFile(setting, name string, read func() error) error {
	f := &watchedFile{name: name, setting: setting, read: read}
	f.last, _ = os.Stat(name) // before it is read, so that a change meanwhile is seen
	f.seen = f.last
	s.who.files = append(s.who.files, f)
	return read()
}

// newVisitors bounds the newcomers of each address; nil when visitors get no
// cookie. They are counted in this process alone: what they may take is bounded by
// the rules themselves.
func (s *Server) newVisitors() (*caudal.Limiter, error) {
	if s.who.visitors == nil {
		return nil, nil
	}
	store := memstore.New(memstore.Options{Clock: s.deps.Clock, MaxKeys: maxVisitorAddresses})
	n := s.config.Who.VisitorNew
	if n == 0 {
		n = DefaultVisitorNew
	}
	return caudal.New(store, caudal.Limit{Requests: uint32(n), Unit: caudal.Hour, Algorithm: caudal.SlidingWindow})
}

// lookEvery is how often the files are looked at. One that has changed is read when
// it looks the same twice in a row: somebody may still be writing.
const lookEvery = time.Second

// watchWho reads the files of keys again when they change, until the function that
// it gives is called.
func (s *Server) watchWho(ctx context.Context) (stop func()) {
	if len(s.who.files) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.lookWho()
			}
		}
	}()
	return func() { cancel(); <-done }
}

// lookWho reads the files that have changed and come to rest.
func (s *Server) lookWho() {
	s.reloadingWho.Lock()
	defer s.reloadingWho.Unlock()
	for _, f := range s.who.files {
		now, err := os.Stat(f.name)
		if err != nil {
			continue // on its way to be replaced, or gone: what was read stays in force
		}
		rested := sameFile(now, f.seen)
		f.seen = now
		if rested && !sameFile(now, f.last) {
			_ = s.rereadWho(f) // it says what is wrong; the last good keys stay
		}
	}
}

func sameFile(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// reloadWho reads all the files of keys now.
func (s *Server) reloadWho() error {
	s.reloadingWho.Lock()
	defer s.reloadingWho.Unlock()
	var errs []error
	for _, f := range s.who.files {
		errs = append(errs, s.rereadWho(f))
	}
	return errors.Join(errs...)
}

func (s *Server) rereadWho(f *watchedFile) error {
	f.last, _ = os.Stat(f.name)
	start := time.Now()
	if err := f.read(); err != nil {
		s.log.Error("not reloaded; the last good one stays in force", "setting", f.setting, "file", f.name, "error", err)
		return err
	}
	attrs := []any{"setting", f.setting, "file", f.name, "took", time.Since(start).Round(time.Millisecond)}
	if f.setting == "keys" {
		attrs = append(attrs, "keys", s.who.keys.Keys().Len())
	}
	s.log.Info("reloaded", attrs...)
	if f.setting == "keys" {
		s.warnOwn()
	}
	return nil
}

// maxOwnWarnings bounds the lines of log about numbers that do not fit the rules.
const maxOwnWarnings = 10

// warnOwn warns of numbers of single keys that do not act: the file is read without
// the rules.
func (s *Server) warnOwn() {
	if s.who.keys == nil {
		return
	}
	warned := 0
	for _, own := range s.who.keys.Keys().OwnLimits() {
		if why := actsNowhere(s.rules.Load().domainsInForce(), own); why != "" {
			if warned++; warned > maxOwnWarnings {
				return
			}
			s.log.Warn("a number in the keys file does not act", "limit", own.Name, "requests_per_unit", own.Requests, "why", why)
		}
	}
}

// actsNowhere says why a number does not act in any of the domains; "" when it does.
func actsNowhere(domains []*rule.Domain, own identity.OwnLimit) (why string) {
	for _, d := range domains {
		reason := doesNotAct(d, own)
		if reason == "" {
			return ""
		}
		if why == "" || why == noSuchLimit {
			why = reason
		}
	}
	return why
}

const noSuchLimit = "no rule has a limit with this name"

// doesNotAct says why a number of some key does not act under the rules; "" when it
// does.
func doesNotAct(domain *rule.Domain, own identity.OwnLimit) string {
	for _, l := range domain.Limits() {
		switch {
		case l.Label != own.Name:
			continue
		case l.Unlimited:
			return "the rule is unlimited"
		case !l.PerClient():
			return "the rule does not count each api_key or user by itself"
		}
		c, err := l.WithRequests(own.Requests)
		switch {
		case err != nil:
			return err.Error()
		case own.Requests > 0 && c.Requests() == 0:
			return "the share of region " + l.Region + " rounds down to nothing, which denies everything here"
		}
		return ""
	}
	return noSuchLimit
}

// warnUnfound warns of attributes that the rules use and the settings let no request
// of the gateway have.
func (s *Server) warnUnfound(loaded *loadedRules) {
	if s.gateway == nil {
		return
	}
	var keys []string
	for _, d := range loaded.domainsInForce() {
		keys = append(keys, d.Keys()...)
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if mend := s.config.Unfound(key); mend != "" {
			s.log.Warn("the rules use an attribute that no request to the gateway has", "attribute", key, "mend", mend)
		}
	}
}

// unfound says how to make an attribute known, and nothing where it is.
func (w *Who) unfound(key string) string {
	family := key
	if name, _, ok := cutFamily(key); ok {
		family = name
	}
	tokens := w.Tokens.KeyFile != ""
	switch {
	case key == "user" && w.Keys == "" && !tokens && w.UserHeader == "",
		key == "plan" && w.Keys == "" && !tokens && w.PlanHeader == "":
		return fmt.Sprintf("set keys, jwt_keys or %s_header, which say who has which %s", key, key)
	case family == "jwt" && !tokens:
		return "set jwt_keys, which say whose tokens count"
	case key == "visitor" && !w.Visitor:
		return "set visitor: true, which gives visitors a cookie"
	}
	return ""
}
