package ruletest

import (
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caudal-dev/caudal/rule"
)

func TestEveryKindOfExpectation(t *testing.T) {
	r, err := Run("testdata/shop_test.yaml", rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() > 0 || len(r.Cases) != 5 {
		t.Errorf("%d of %d tests failed, want none of 5:\n%s", r.Failed(), len(r.Cases), r)
	}
}

// TestFailureShowsOneTimeline: what passed, and where expected and got part.
func TestFailureShowsOneTimeline(t *testing.T) {
	r, err := Run("testdata/failing_test.yaml", rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `ok    this one passes
FAIL  six guesses (testdata/failing_test.yaml:7:5)
        0s  path=/login remote_address=203.0.113.7 user=a x3
            3 allowed, 0 denied, the last allowed, remaining 0, rule quota, limits [ceiling, login, quota]
        2s  path=/login remote_address=203.0.113.7 user=b x3  <- testdata/failing_test.yaml:12:9
            expected: allowed
            got:      2 allowed, 1 denied, the last denied, remaining 0, rule login, limits [ceiling, login, quota], retry_after 58s
`
	if got := r.String(); got != want {
		t.Errorf("the report says\n%s\nwant\n%s", got, want)
	}
	var b strings.Builder
	if err := WriteJUnit(&b, []*Report{r}); err != nil {
		t.Fatal(err)
	}
	var back junitSuites
	if err := xml.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	suite := back.Suites[0]
	if suite.Tests != 2 || suite.Failures != 1 || suite.Cases[0].Failure != nil || suite.Cases[1].Failure == nil {
		t.Errorf("JUnit = %+v, want 2 tests and 1 failure", suite)
	}
	if f := suite.Cases[1].Failure; f != nil && !strings.Contains(f.Message, "expected allowed, got 2 allowed, 1 denied") {
		t.Errorf("the message is %q", f.Message)
	}
}

// TestExpectationsFail: each expectation that is not met fails.
func TestExpectationsFail(t *testing.T) {
	for _, want := range []string{"denied", "rejected", "{allowed: 2}", "{denied: 1}", "{remaining: 0}", "{rule: quota}", "{limits: [login]}",
		"{retry_after: 1s}", "{delay: 1s}", "{rule: ceiling, remaining: 8}", "{outcome: allowed, remaining: 10}"} {
		name := filepath.Join(t.TempDir(), "x_test.yaml")
		rules, err := filepath.Abs("testdata/shop.yaml")
		if err != nil {
			t.Fatal(err)
		}
		write(t, name, "rules: "+rules+"\ntests: [{name: n, steps: [{descriptors: [remote_address=192.0.2.1], expect: "+want+"}]}]\n")
		r, err := Run(name, rule.Options{})
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if r.Failed() != 1 {
			t.Errorf("expect: %s is met by\n%+v", want, r.Cases[0].Timeline)
		}
	}
}

// TestResponses: what a call was charged is settled by its response.
func TestResponses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), `
domain: a
descriptors:
  - key: path
    value: /login
    count_when: { status: [401] }
    rate_limit: { name: failures, unit: day, requests_per_unit: 3, algorithm: fixed_window }
  - key: path
    value: /spend
    cost: { response_header: X-Spent, default: 2, max: 10 }
    rate_limit: { name: spent, unit: day, requests_per_unit: 20, algorithm: fixed_window }
`)
	name := filepath.Join(dir, "a_test.yaml")
	write(t, name, `
tests:
  - name: failures count
    steps:
      - { request: { path: /login }, response: 200, times: 9, expect: { outcome: allowed, remaining: 3 } }
      - { request: { path: /login }, response: 401, times: 2, expect: { outcome: allowed, remaining: 1 } }
      - { request: { path: /login }, expect: { outcome: allowed, remaining: 0 } }   # nobody sees the response
      - { request: { path: /login }, response: 200, expect: denied }
  - name: costs
    steps:
      - { request: { path: /spend }, response: { headers: { x-spent: 3 } }, expect: { outcome: allowed, remaining: 17 } }
      - { request: { path: /spend }, response: { status: 500 }, expect: { outcome: allowed, remaining: 15 } }
      - { request: { path: /spend }, expect: { outcome: allowed, remaining: 5 } }
      - { request: { path: /spend }, response: { headers: { x-spent: 0 } }, expect: denied }
`)
	r, err := Run(name, rule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() > 0 || len(r.Cases) != 2 {
		t.Errorf("%d of %d tests failed, want none of 2:\n%s", r.Failed(), len(r.Cases), r)
	}
	if got, want := r.Cases[1].Timeline[0].Request, "path=/spend -> 200 X-Spent: 3"; got != want {
		t.Errorf("the timeline says %q, want %q", got, want)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestStrictReading: every mistake has its place and a hint.
func TestStrictReading(t *testing.T) {
	const step = "{request: {path: /}, expect: allowed}"
	for _, c := range []struct{ text, want string }{
		{"", "x:1:1: this is not YAML: the file is empty"},
		{"tests: [", "x:1:1: this is not YAML"},
		{"a: 1\n", `x:1:1: unknown key "a"`},
		{"domain: d\ndescriptors: []\n", `unknown key "descriptors" (this is a file of rules: give it to caudal check`},
		{"tests: [{name: n, steps: [{request: {path: /}, exepct: allowed}]}]\n", `unknown key "exepct" (did you mean expect?)`},
		{"domain: d\n", "x:1:1: the file has no tests"},
		{"tests: []\n", "x:1:8: tests: the list is empty"},
		{"tests: [{name: n}]\n", "x:1:9: tests[0]: the test has no steps"},
		{"tests: [{steps: [" + step + "]}]\n", "x:1:9: tests[0]: the test has no name"},
		{"tests: [{name: n, steps: [{expect: allowed}]}]\n", "tests[0].steps[0]: a step needs one request"},
		{"tests: [{name: n, steps: [{request: {path: /}}]}]\n", "tests[0].steps[0]: the step expects nothing"},
		{"tests: [{name: n, steps: [{request: {path: /}, expect: ok}]}]\n", `expect: "ok" is no outcome`},
		{"tests: [{name: n, steps: [{request: {path: /}, expect: {}}]}]\n", "expect: nothing is expected"},
		{"tests: [{name: n, steps: [{request: {remote_address: x}, expect: denied}]}]\n", `"x" is not an address`},
		{"tests: [{name: n, steps: [{times: 0, request: {path: /}, expect: denied}]}]\n", `times: "0" where a number is wanted`},
		{"tests: [{name: n, steps: [{at: 5, request: {path: /}, expect: denied}]}]\n", `at: "5" where a time is wanted`},
		{"tests: [{name: n, steps: [{at: 5s, request: {path: /}, expect: denied}, {at: 0s, request: {path: /}, expect: denied}]}]\n", "tests[0].steps[1].at: 0s is before the step above"},
		{"tests: [{name: n, steps: [{request: {path: /}, response: 99, expect: allowed}]}]\n", `response: "99" where a number is wanted`},
		{"tests: [{name: n, steps: [{request: {path: /}, response: {code: 401}, expect: allowed}]}]\n", `unknown key "code"`},
		{"tests: [{name: n, steps: [{request: {path: /}, response: {headers: [x]}, expect: allowed}]}]\n", "response.headers: headers with values are wanted"},
		{"tests: [{name: n, steps: [{descriptors: [a=b], response: 401, expect: allowed}]}]\n", "response: nobody sees a response where rules are matched by descriptor"},
		{"start: now\ntests: [{name: n, steps: [" + step + "]}]\n", `start: "now" is no instant`},
		{"tests: [{name: n, name: m, steps: [" + step + "]}]\n", "key name stands twice; first at line 1"},
	} {
		_, err := parse("x", []byte(c.text))
		var errs rule.Errors
		if !errors.As(err, &errs) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("parse(%q) = %v, want %q", c.text, err, c.want)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a_test.yaml")
	const tests = "tests: [{name: n, steps: [{request: {path: /}, expect: allowed}]}]\n"
	if _, err := Run(name, rule.Options{}); err == nil {
		t.Error("Run of nothing gives no error")
	}
	write(t, name, tests)
	if _, err := Run(name, rule.Options{}); err == nil || !strings.Contains(err.Error(), "no rules in") {
		t.Errorf("Run without rules = %v", err)
	}
	write(t, filepath.Join(dir, "a.yaml"), "domain: a\ndescriptors: [{key: user}]\n")
	if _, err := Run(name, rule.Options{}); err != nil {
		t.Errorf("Run beside its rules = %v", err)
	}
	write(t, name, "tests: [{name: n, steps: [{request: {remote_addres: 192.0.2.1, user: a}, expect: allowed}]}]\n")
	if _, err := Run(name, rule.Options{}); err == nil || !strings.Contains(err.Error(), `a_test.yaml:1:38: tests[0].steps[0].request.remote_addres: "remote_addres" is no attribute of requests (did you mean remote_address?)`) {
		t.Errorf("Run with a mistyped attribute = %v", err)
	}
	write(t, name, "tests: [{name: n, steps: [{request: {tenant: a, usr: b}, expect: allowed}]}]\n")
	write(t, filepath.Join(dir, "a.yaml"), "domain: a\ndescriptors: [{key: tenant}]\n")
	if _, err := Run(name, rule.Options{}); err == nil || strings.Contains(err.Error(), `"tenant"`) || !strings.Contains(err.Error(), `"usr"`) {
		t.Errorf("Run with a key of the rules and a mistyped attribute = %v, want the latter refused", err)
	}
	write(t, filepath.Join(dir, "c.yaml"), "domain: c\ndescriptors: [{key: user}]\n")
	write(t, name, tests)
	if _, err := Run(name, rule.Options{}); err == nil || !strings.Contains(err.Error(), "a_test.yaml:1:1: 2 domains are loaded: name one of a, c (write domain: NAME at the top of the tests)") {
		t.Errorf("Run of two domains = %v", err)
	}
	write(t, name, "domain: b\n"+tests)
	if _, err := Run(name, rule.Options{}); err == nil || !strings.Contains(err.Error(), `no domain "b"`) {
		t.Errorf("Run of another domain = %v", err)
	}
	write(t, filepath.Join(dir, "a.yaml"), "domain: a\ndescriptors: [{kez: user}]\n")
	var errs rule.Errors
	if _, err := Run(name, rule.Options{}); !errors.As(err, &errs) {
		t.Errorf("Run with bad rules = %v, want rule.Errors", err)
	}
}

// FuzzParse: no text crashes the reader.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/shop_test.yaml", "testdata/failing_test.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if parsed, err := parse("x", data); (parsed == nil) == (err == nil) {
			t.Fatalf("parse = %v, %v", parsed, err)
		}
	})
}
