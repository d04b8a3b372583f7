package serve

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/caudal-dev/caudal/redisstore"
)

// CheckStore says what is wrong with the name of a store, without opening it. The
// error never shows a password.
func CheckStore(name string) error {
	scheme, _, _ := strings.Cut(name, ":")
	switch {
	case openers[scheme] == nil && !strings.Contains(name, ":"):
		return fmt.Errorf("%q is no store: use memory, redis://, rediss://, redis-sentinel:// or redis-cluster://", scheme)
	case openers[scheme] == nil:
		return fmt.Errorf("of the kind %q is not known: use memory, redis://, rediss://, redis-sentinel:// or redis-cluster://", scheme)
	case scheme != DefaultStore:
		if err := redisstore.CheckURL(name); err != nil {
			return fmt.Errorf("cannot be used: %w", err)
		}
	case name != DefaultStore:
		return errors.New("memory takes nothing behind it: write memory, and its size as max_keys")
	}
	return nil
}

// CheckAlertURL says what is wrong with the address of a webhook, which may hold a
// secret and is not shown.
func CheckAlertURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("is no address of a webhook: write it as https://hooks.example/caudal")
	}
	return nil
}

// checkStore refuses settings of a shared store beside one that nobody shares:
// somebody would wait for an alert that cannot come.
func (c *Config) checkStore() error {
	if c.AlertURL != "" {
		if err := CheckAlertURL(c.AlertURL); err != nil {
			return &Error{What: "alert_url " + err.Error()}
		}
	}
	if c.Store != DefaultStore {
		return nil
	}
	for _, s := range []struct {
		name  string
		given bool
	}{{"alert_url", c.AlertURL != ""}, {"store_timeout", c.StoreTimeout != 0}, {"expected_instances", c.ExpectedInstances != 0}} {
		if s.given {
			return &Error{Missing: true, What: s.name + " is for a store that instances share, and the store is memory",
				Hint: "leave it out, or name the shared store, such as --store redis://127.0.0.1:6379"}
		}
	}
	return nil
}
