package decisionapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/decisionapi"
)

const login = `{"attributes": {"path": "/login", "remote_address": "203.0.113.7"}}`

func TestCheckTellsTheWholeDecision(t *testing.T) {
	f := start(t, decisionapi.Options{})
	for i := range 3 {
		a := f.check(login)
		a.want(t, "login", true, "allowed")
		a.want(t, "login", "shop", "domain")
		a.want(t, "login", "login", "nearest")
		a.want(t, "login", "login", "limits", 0, "name")
		a.want(t, "login", "enforce", "limits", 0, "mode")
		a.want(t, "login", true, "limits", 0, "charged")
		a.want(t, "login", 3.0, "limits", 0, "limit")
		a.want(t, "login", float64(2-i), "limits", 0, "remaining")
		a.want(t, "login", 1.0, "receipt", "cost")
	}
	f.clock.advance(1500*time.Millisecond + time.Microsecond)
	a := f.check(login)
	a.want(t, "login 4", false, "allowed")
	a.want(t, "login 4", 58.499999, "retry_after")
	a.want(t, "login 4", 58.499999, "limits", 0, "retry_after")
	a.want(t, "login 4", nil, "receipt")
	if !strings.Contains(a.Body.String(), `"retry_after":58.499999,`) {
		t.Errorf("login 4 = %s, want a retry_after of six decimals", a.Body)
	}
	closed := f.check(`{"attributes": {"path": "/closed"}}`)
	closed.want(t, "closed", false, "allowed")
	closed.want(t, "closed", true, "never")
	closed.want(t, "closed", nil, "retry_after")
	f.check(`{"attributes": {"path": "/private"}}`).want(t, "private without a key", "api_key", "missing")
	free := f.check(`{"attributes": {"path": "/free"}}`)
	free.want(t, "free", true, "allowed")
	free.want(t, "free", nil, "receipt")
	if !strings.Contains(free.Body.String(), `"limits":[]`) {
		t.Errorf("free = %s, want an empty list of limits", free.Body)
	}
}

func TestCheckOfADescriptorCostAndPeek(t *testing.T) {
	f := start(t, decisionapi.Options{})
	body := func(more string) string {
		return `{"descriptors": [{"entries": [{"key": "api_key", "value": "alice"}]}]` + more + `}`
	}
	f.check(body(`, "cost": 7`)).want(t, "7 of 10", 3.0, "limits", 0, "remaining")
	f.check(body(`, "peek": true`)).want(t, "a peek", 3.0, "limits", 0, "remaining")
	f.check(body(`, "cost": 4`)).want(t, "4 of 3", false, "allowed")
	f.check(body(`, "cost": 11`)).want(t, "11 of 10", true, "never")
	f.check(body(`, "cost": 3, "domain": "shop"`)).want(t, "3 of 3", true, "allowed")
	f.check(`{"descriptors": [{"entries": [{"key": "none", "value": "x"}]}]}`).want(t, "no such rule", true, "allowed")
}

// TestC88OneCounterForAllSpellings: attributes are read as those of requests are.
func TestC88OneCounterForAllSpellings(t *testing.T) {
	f := start(t, decisionapi.Options{})
	for i, path := range []string{"/login", "//login", "/x/../login", "/%6cogin?a=b", "/login/"} {
		f.check(`{"attributes": {"path": "`+path+`", "remote_address": "::ffff:203.0.113.7"}}`).want(t, path, i < 3, "allowed")
	}
	for i, name := range []string{"header:X-Tenant", "header:x-tenant", "header:X-TENANT"} {
		f.check(`{"attributes": {"`+name+`": "a"}}`).want(t, name, float64(3-i), "limits", 0, "remaining")
	}
}

// TestC65EmptyIdentityIsNone: callers that fill in what they have send empty values for
// clients without one, who must not be one client with a key of its own.
func TestC65EmptyIdentityIsNone(t *testing.T) {
	f := start(t, decisionapi.Options{})
	f.check(`{"attributes": {"path": "/private", "api_key": ""}}`).want(t, "private with an empty key", "api_key", "missing")
	if a := f.check(`{"attributes": {"api_key": ""}}`); !strings.Contains(a.Body.String(), `"limits":[]`) {
		t.Errorf("an empty key under missing: skip = %s, want no limits", a.Body)
	}
	f.check(`{"attributes": {"header:X-Tenant": ""}}`).want(t, "an empty header, which is a value", 3.0, "limits", 0, "remaining")
}

func TestCheckGivesTheTurnOfAQueue(t *testing.T) {
	f := start(t, decisionapi.Options{})
	const legacy = `{"attributes": {"path": "/legacy"}}`
	f.check(legacy).want(t, "the first", 0.0, "delay")
	f.check(legacy).want(t, "the second", 0.5, "delay")
	third := f.check(legacy)
	third.want(t, "the third", 1.0, "delay")
	if a := f.post("/v1/refund", third.refundBody(t, "")); a.Code != http.StatusOK {
		t.Errorf("refund of a turn ahead = %d %s, want 200", a.Code, a.Body)
	}
	f.check(legacy).want(t, "after the third took back its turn", 1.0, "delay")
}

func TestBatch(t *testing.T) {
	f := start(t, decisionapi.Options{})
	list := strings.Repeat(login+",", 4)
	a := f.check(`{"checks": [` + strings.TrimSuffix(list, ",") + `]}`)
	for i := range 4 {
		a.want(t, "batch", i < 3, "results", i, "allowed")
	}
	// A mistake anywhere: nothing is charged.
	f = start(t, decisionapi.Options{})
	if a := f.post("/v1/check", `{"checks": [`+login+`, {"attributes": {}, "descriptors": []}]}`); a.Code != http.StatusBadRequest {
		t.Errorf("a batch with a mistake = %d %s, want 400", a.Code, a.Body)
	}
	f.check(login).want(t, "after a batch with a mistake", 2.0, "limits", 0, "remaining")
}

func TestCheckRefusesWithAReason(t *testing.T) {
	f := start(t, decisionapi.Options{})
	entries := strings.Repeat(`{"key":"a"},`, 33)
	for _, tc := range []struct{ name, body, detail string }{
		{"nothing", ``, "the body is empty"},
		{"no JSON", `{"cost": }`, "the body is no JSON"},
		{"half", `{"cost": 1`, "ends in the middle"},
		{"a list", `[]`, "an object is wanted"},
		{"two", login + login, "goes on behind"},
		{"unknown field", `{"atributes": {}}`, `unknown field "atributes"`},
		{"neither", `{}`, "attributes or descriptors"},
		{"both", `{"attributes": {"path": "/"}, "descriptors": [{"entries": [{"key": "a"}]}]}`, "one of them"},
		{"cost of a half", `{"attributes": {"path": "/"}, "cost": 0.5}`, "cost: a JSON number 0.5 will not do: a whole number from 0 to 4294967295"},
		{"negative cost", `{"attributes": {"path": "/"}, "cost": -1}`, "cost: a JSON number -1"},
		{"cost too large", `{"attributes": {"path": "/"}, "cost": 4294967296}`, "cost: a JSON number 4294967296"},
		{"peek as text", `{"attributes": {"path": "/"}, "peek": "yes"}`, "true or false is wanted"},
		{"value of an attribute", `{"attributes": {"path": 1}}`, "a text is wanted"},
		{"address", `{"attributes": {"remote_address": "203.0.113.007"}}`, "is no address"},
		{"domain", `{"attributes": {"path": "/"}, "domain": "office"}`, `"office" is not among the rules: they hold shop`},
		{"one header twice", `{"attributes": {"header:a": "1", "header:A": "2"}}`, "the same header"},
		{"long value", `{"attributes": {"path": "` + strings.Repeat("a", 9000) + `"}}`, "longer than 8192 bytes"},
		{"no descriptors", `{"descriptors": []}`, "the list is empty"},
		{"no entries", `{"descriptors": [{"entries": []}]}`, "descriptors[0].entries: 0 of them; send 1 to 32"},
		{"many entries", `{"descriptors": [{"entries": [` + entries[:len(entries)-1] + `]}]}`, "descriptors[0].entries: 33 of them"},
		{"no key", `{"descriptors": [{"entries": [{"value": "a"}]}]}`, "descriptors[0].entries[0].key is empty"},
		{"no checks", `{"checks": []}`, "checks: 0 of them; send 1 to 100"},
		{"checks and more", `{"checks": [` + login + `], "cost": 1}`, "write it into each"},
		{"bad check", `{"checks": [` + login + `, {}]}`, "checks[1]: send attributes"},
	} {
		a := f.post("/v1/check", tc.body)
		if detail, _ := a.json["detail"].(string); a.Code != http.StatusBadRequest || !strings.Contains(detail, tc.detail) {
			t.Errorf("%s: check = %d %q, want 400 %q", tc.name, a.Code, detail, tc.detail)
		}
	}
	if a := f.post("/v1/check", `{"domain": "`+strings.Repeat("a", 1<<20)+`"}`); a.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of over 1 MiB = %d %s, want 413", a.Code, a.Body)
	}
}
