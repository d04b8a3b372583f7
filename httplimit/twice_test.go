package httplimit

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestChargedTwice: two layers that share a rule are told of, once; two that do not
// are not.
func TestChargedTwice(t *testing.T) {
	const rule = "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { name: 'a, \"b\"', unit: minute, requests_per_unit: 100 }\n"
	for _, c := range []struct {
		name, inner, outer string
		want               int
	}{
		{"the same", rule, rule, 1},
		{"another name", rule, strings.Replace(rule, "a, ", "c, ", 1), 0},
		{"other numbers", rule, strings.Replace(rule, "100", "10", 1), 0},
		{"one of several", rule + "  - key: host\n    rate_limit: { unit: hour, requests_per_unit: 5000 }\n", rule, 1},
	} {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		clock := newClock()
		inner := rules(t, c.inner, nil, Options{Clock: clock}).Wrap(hello)
		// The outer one is a gateway: it sets its headers on the answer.
		outer := rules(t, c.outer, nil, Options{Clock: clock, Logger: logger})
		for range 3 {
			res := call(inner, "GET", "/")
			r, err := http.NewRequest("GET", "/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.RemoteAddr = "203.0.113.7:1"
			o := outer.Decide(r)
			o.SetHeaders(res.Header)
			o.Release()
		}
		if n := strings.Count(log.String(), "charged twice"); n != c.want {
			t.Errorf("%s: warned %d times, want %d:\n%s", c.name, n, c.want, &log)
		}
	}
}

// TestChargedTwiceByMiddleware: a handler that is wrapped twice.
func TestChargedTwiceByMiddleware(t *testing.T) {
	var log strings.Builder
	d := rules(t, spendingRules, nil, Options{Clock: newClock(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	wantStatus(t, "a request", call(d.Wrap(d.Wrap(hello)), "GET", "/"), 200)
	if !strings.Contains(log.String(), "charged twice") {
		t.Errorf("the log is %q", &log)
	}
}

func TestItems(t *testing.T) {
	for list, want := range map[string][]string{
		`"a";q=1;w=2`:              {`"a";q=1;w=2`},
		`"a, b";q=1 , "c\"d,";q=2`: {`"a, b";q=1`, `"c\"d,";q=2`},
		``:                         {""},
		`"open, `:                  {`"open,`},
		`"a"\`:                     {`"a"\`},
	} {
		if got := items(list); !slices.Equal(got, want) {
			t.Errorf("items(%s) = %q, want %q", list, got, want)
		}
	}
}
