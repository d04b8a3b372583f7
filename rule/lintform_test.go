package rule_test

import (
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

// found parses rules and gives the messages of one code.
func found(t *testing.T, opts rule.Options, nodes, code string) []string {
	t.Helper()
	_, warnings, err := opts.Parse("rules.yaml", []byte("domain: d\ndescriptors:\n"+nodes))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, w := range warnings {
		if w.Code == code {
			texts = append(texts, w.String())
		}
	}
	return texts
}

func TestValuesInAnotherFormAreWarnedOf(t *testing.T) {
	opts := rule.Options{ForAttributes: true, MatchForm: func(key, value string) string {
		if key == "path" {
			return strings.TrimSuffix(value, "/")
		}
		return value
	}}
	const nodes = "  - {key: path, value: /login/}\n  - {key: path, value: /login}\n  - {key: path, value: '/a*/'}\n  - {key: host, value: /x/}\n  - {key: path}\n"
	got := found(t, opts, nodes, "never-matches")
	if len(got) != 2 || !strings.Contains(got[0], "rules.yaml:3:5: descriptors[0]: warning: path \"/login/\" can never match: ") ||
		!strings.Contains(got[0], "; write /login [") || !strings.Contains(got[1], "write /a* [") {
		t.Errorf("the warnings are %q, want one of /login/ and one of /a*/, with what to write", got)
	}
	const below = "  - {key: source_cluster, value: a, descriptors: [{key: path, value: /login/}]}\n"
	if got := found(t, opts, below, "never-matches"); len(got) != 0 {
		t.Errorf("below a key of Envoy the warnings are %q, want none: its values are as it sends them", got)
	}
	opts.ForAttributes = false
	if got := found(t, opts, nodes, "never-matches"); len(got) != 0 {
		t.Errorf("matched by descriptor the warnings are %q, want none", got)
	}
}

func TestUnfoundAttributesAreNotedOnce(t *testing.T) {
	opts := rule.Options{ForAttributes: true, Unfound: func(key string) string {
		if key == "user" {
			return "set keys"
		}
		return ""
	}}
	const nodes = "  - {key: user, value: ann}\n  - {key: user}\n  - {key: plan}\n"
	got := found(t, opts, nodes, "unfound-attribute")
	if len(got) != 1 || !strings.Contains(got[0], "note: no request to the gateway has user") || !strings.Contains(got[0], "; set keys [") {
		t.Errorf("the notes are %q, want one of user that says to set keys", got)
	}
}

// TestHintsForSlips: the messages that newcomers meet first say what to write.
func TestHintsForSlips(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		opts             rule.Options
	}{
		{"a tab below a key", "domain: d\ndescriptors:\n  - key: a\n\t  rate_limit: {}\n",
			"x:4:1: this is not YAML: it does not allow tabs for indentation (use spaces)", rule.Options{}},
		{"a tab behind spaces", "domain: d\ndescriptors:\n  - key: a\n  \trate_limit:\n      unit: minute\n",
			"x:4:3: this is not YAML: it does not allow tabs for indentation (use spaces)", rule.Options{}},
		{"a burst under --compat envoy", "domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: minute, requests_per_unit: 5, burst: 9}}\n",
			"burst does not go with fixed_window (only a token_bucket has a burst; fixed_window is the default under --compat envoy, so write algorithm: token_bucket)",
			rule.Options{CompatEnvoy: true}},
		{"a burst of a window that is written", "domain: d\nalgorithm: fixed_window\ndescriptors:\n  - {key: a, rate_limit: {unit: minute, requests_per_unit: 5, burst: 9}}\n",
			"burst does not go with fixed_window (only a token_bucket has a burst)", rule.Options{CompatEnvoy: true}},
	} {
		_, _, err := c.opts.Parse("x", []byte(c.text))
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: Parse = %v, want %q", c.name, err, c.want)
		}
	}
	for key, want := range map[string]string{"ip": "write remote_address", "client_ip": "write remote_address", "apikey": "did you mean api_key?",
		"remote_address": "", "header:X-A": "", "header": "write header:NAME"} {
		if got := rule.AttributeHint(key); got != want {
			t.Errorf("AttributeHint(%q) = %q, want %q", key, got, want)
		}
	}
}
