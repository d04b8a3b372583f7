package serve

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCheckStore(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"memory", ""},
		{"redis://127.0.0.1:6379/0", ""},
		{"redis-sentinel://a:1,b:2/m", ""},
		{"memory:9", "takes nothing behind it"},
		{"redis", "must begin with redis://"},
		{"redis://:secret@127.0.0.1:99999", `"127.0.0.1:99999" is not a host and a port`},
		{"mysql://:secret@127.0.0.1", `of the kind "mysql" is not known`},
		{"postgres", `"postgres" is no store`},
	} {
		err := CheckStore(c.name)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("CheckStore(%q) = %v, want %q and no password", c.name, err, c.want)
		}
	}
}

// TestSettingsOfASharedStoreNeedOne: a webhook beside the store memory would never
// be called.
func TestSettingsOfASharedStoreNeedOne(t *testing.T) {
	for _, c := range []struct {
		config  Config
		want    string
		missing bool
	}{
		{Config{AlertURL: "https://hooks.example/x"}, "alert_url is for a store that instances share", true},
		{Config{StoreTimeout: time.Second}, "store_timeout is for", true},
		{Config{ExpectedInstances: 2}, "expected_instances is for", true},
		{Config{AlertURL: "hooks.example"}, "alert_url is no address of a webhook", false},
		{Config{Store: "redis://127.0.0.1:1", AlertURL: "ftp://hooks.example"}, "alert_url is no address of a webhook", false},
	} {
		c.config.Text, c.config.TextName = byAddress, "rules.yaml"
		_, err := Start(c.config, Deps{})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.What, c.want) || e.Missing != c.missing {
			t.Errorf("Start(%+v) = %v, want %q", c.config, err, c.want)
		}
	}
}
