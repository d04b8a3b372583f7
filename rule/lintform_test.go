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
	if got := found(t, opts, nodes+"  - {key: source_cluster, value: a}\n", "never-matches"); len(got) != 0 {
		t.Errorf("beside keys of Envoy the warnings are %q, want none: its values are as it sends them", got)
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
