package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/admin"
	"github.com/caudal-dev/caudal/internal/serve"
)

// setter puts the texts of a setting, at least one, into the settings.
type setter = func(*settings, []string) error

func text(field func(*settings) *string) setter {
	return func(s *settings, v []string) error {
		if v[0] == "" {
			return errors.New("must not be empty: leave it out instead")
		}
		*field(s) = v[0]
		return nil
	}
}

func texts(field func(*settings) *[]string) setter {
	return func(s *settings, v []string) error {
		if slices.Contains(v, "") {
			return errors.New("holds an empty value: leave it out instead")
		}
		*field(s) = v
		return nil
	}
}

func choice(field func(*settings) *string, words ...string) setter {
	return func(s *settings, v []string) error {
		if !slices.Contains(words, v[0]) {
			list := strings.Join(words[:len(words)-1], ", ") // at least two, or one and nothing before it
			return fmt.Errorf("%q is not known: use %s", v[0], strings.TrimPrefix(list+" or "+words[len(words)-1], " or "))
		}
		*field(s) = v[0]
		return nil
	}
}

func toggle(field func(*settings) *bool) setter {
	return func(s *settings, v []string) error {
		if v[0] != "true" && v[0] != "false" {
			return fmt.Errorf("%q is neither true nor false", v[0])
		}
		*field(s) = v[0] == "true"
		return nil
	}
}

func number[T int | int64](least, most int64, field func(*settings) *T) setter {
	return func(s *settings, v []string) error {
		n, err := strconv.ParseInt(v[0], 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q must be a whole number from %d to %d", v[0], least, most)
		}
		*field(s) = T(n)
		return nil
	}
}

// share reads a number over 0 and at most 1.
func share(field func(*settings) *float64) setter {
	return func(s *settings, v []string) error {
		f, err := strconv.ParseFloat(v[0], 64)
		if err != nil || !(f > 0 && f <= 1) {
			return fmt.Errorf("%q must be a number over 0 and at most 1, such as 0.01", v[0])
		}
		*field(s) = f
		return nil
	}
}

// duration reads a time such as 10s and, where there may be no bound, the word
// off.
func duration(mayBeOff bool, field func(*settings) *time.Duration) setter {
	return func(s *settings, v []string) error {
		if mayBeOff && v[0] == "off" {
			*field(s) = -1
			return nil
		}
		d, err := time.ParseDuration(v[0])
		switch {
		case err == nil && d > 0:
			*field(s) = d
			return nil
		case mayBeOff:
			return fmt.Errorf("%q must be a time over zero such as 500ms, 10s or 2m, or off", v[0])
		}
		return fmt.Errorf("%q must be a time over zero such as 500ms, 10s or 2m", v[0])
	}
}

func upstreamOf(field func(*settings) **url.URL) setter {
	return func(s *settings, v []string) (err error) {
		*field(s), err = parseUpstream(v[0])
		return err
	}
}

func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		// Not the text itself: it may hold a password.
		return nil, errors.New("is no URL: write it as http://127.0.0.1:3000")
	}
	if u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" {
		return nil, fmt.Errorf("has the scheme %q: use http, https or h2c, as in http://127.0.0.1:3000", u.Scheme)
	}
	switch {
	case u.User != nil:
		return nil, errors.New("holds a user or password: leave them to the clients")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("has a query or fragment: only a path can be put before requests")
	}
	return u, nil
}

func storeName(s *settings, v []string) error {
	if err := serve.CheckStore(v[0]); err != nil && !s.withoutSecrets { // it may name files of keys
		return err
	}
	s.Store = v[0]
	return nil
}

func alertURL(s *settings, v []string) error {
	if err := serve.CheckAlertURL(v[0]); err != nil {
		return err
	}
	s.AlertURL = v[0]
	return nil
}

// limit takes a limit as it was written, once it is one.
func limit(s *settings, v []string) error {
	if _, err := caudal.ParseLimit(v[0]); err != nil {
		return fmt.Errorf(`%s (write it like 100/m, "1000/hour burst 100" or "5/m sliding_log")`,
			strings.TrimPrefix(err.Error(), caudal.ErrInvalidLimit.Error()+": "))
	}
	s.Limit = v[0]
	return nil
}

func countBy(s *settings, v []string) error {
	if err := serve.CheckBy(v[0]); err != nil {
		return err
	}
	s.By = v[0]
	return nil
}

// address reads where to listen.
func address(field func(*settings) *string) setter {
	return func(s *settings, v []string) error {
		if err := serve.CheckAddress(v[0]); err != nil {
			return err
		}
		*field(s) = v[0]
		return nil
	}
}

func addresses(field func(*settings) *[]string) setter {
	return func(s *settings, v []string) error {
		for _, a := range v {
			if err := serve.CheckAddress(a); err != nil {
				return err
			}
		}
		*field(s) = v
		return nil
	}
}

func networks(s *settings, v []string) (err error) {
	s.TrustedProxies, err = identity.ParsePrefixes(v)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "identity: "))
	}
	return nil
}

func families(s *settings, v []string) error {
	s.Families = 0
	for _, name := range v {
		switch name {
		case "legacy":
			s.Families |= httplimit.Legacy
		case "draft":
			s.Families |= httplimit.Draft
		case "none":
			s.Families |= httplimit.NoFamily
		default:
			return fmt.Errorf("%q is not known: use legacy, draft or none", name)
		}
	}
	if s.Families&httplimit.NoFamily != 0 && s.Families != httplimit.NoFamily {
		return errors.New("none goes with no other family")
	}
	return nil
}

func resetFormat(s *settings, v []string) error {
	switch v[0] {
	case "epoch":
		s.Reset = httplimit.ResetEpoch
	case "delta":
		s.Reset = httplimit.ResetDelta
	default:
		return fmt.Errorf("%q is not known: use epoch or delta", v[0])
	}
	return nil
}

func logLevel(s *settings, v []string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[v[0]]
	if !ok {
		return fmt.Errorf("%q is not known: use debug, info, warn or error", v[0])
	}
	s.logLevel = level
	return nil
}

// adminTokenFile reads what operators must show.
func adminTokenFile(s *settings, v []string) error {
	if s.withoutSecrets {
		return nil
	}
	token, err := readToken(v[0])
	s.AdminToken = token
	return err
}

// readToken reads a token from a file.
func readToken(path string) ([]byte, error) {
	token, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if token = bytes.TrimSpace(token); len(token) < admin.MinToken {
		return nil, fmt.Errorf("holds less than %d bytes: fill it with, for example, openssl rand -base64 32", admin.MinToken)
	}
	return token, nil
}

// secretFile reads what receipts are signed with.
func secretFile(s *settings, v []string) error {
	if s.withoutSecrets {
		return nil
	}
	secret, err := os.ReadFile(v[0])
	if err != nil {
		return err
	}
	s.Secret = bytes.TrimSpace(secret)
	if len(s.Secret) < 16 {
		return errors.New("holds less than 16 bytes: fill it with, for example, openssl rand -base64 32")
	}
	return nil
}

// shutdownDelay reads a time that may be 0.
func shutdownDelay(s *settings, v []string) error {
	d, err := time.ParseDuration(v[0])
	if err != nil || d < 0 {
		return fmt.Errorf("%q must be a time such as 5s, or 0s", v[0])
	}
	s.ShutdownDelay = d
	return nil
}
