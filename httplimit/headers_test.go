package httplimit

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
)

func TestEffectiveWindows(t *testing.T) {
	clk := newClock() // a quarter second into a minute
	for _, c := range []struct {
		name  string
		limit caudal.Limit
		calls int
		want  string // RateLimit after the calls
		w     string // of RateLimit-Policy
	}{
		{"token bucket with room: r/t is the rate", caudal.PerMinute(60).WithBurst(30), 10, "r=20;t=20", "q=30;w=30"},
		{"token bucket, slow", caudal.PerHour(10), 1, "r=9;t=3240", "q=10;w=3600"},
		{"token bucket, empty: until one token", caudal.PerMinute(5), 5, "r=0;t=12", "q=5;w=60"},
		{"token bucket, denied", caudal.PerMinute(5), 6, "r=0;t=12", "q=5;w=60"},
		{"token bucket, fast", caudal.PerSecond(1000), 1, "r=999;t=1", "q=1000;w=1"},
		{"fixed window: to its end", caudal.PerMinute(5).With(caudal.FixedWindow), 2, "r=3;t=60", "q=5;w=60"},
		{"fixed window, denied", caudal.PerHour(5).With(caudal.FixedWindow), 6, "r=0;t=3600", "q=5;w=3600"},
		{"sliding window", caudal.PerMinute(5).With(caudal.SlidingWindow), 2, "r=3;t=60", "q=5;w=60"},
		{"sliding log", caudal.PerMinute(5).With(caudal.SlidingLog), 2, "r=3;t=60", "q=5;w=60"},
		{"leaky bucket: to drained", caudal.PerMinute(60).WithQueue(4, 0), 3, "r=2;t=3", "q=5;w=5"},
		{"nothing, ever", caudal.PerMinute(0), 1, "r=0", "q=0;w=60"},
		{"a month", caudal.Per(4294967295, caudal.Month).With(caudal.FixedWindow), 1, "r=4294967294;t=1857600", "q=4294967295;w=2592000"},
	} {
		m := one(t, c.limit, ByIP, Options{Clock: clk})
		h := http.Header{}
		for range c.calls {
			o := m.Decide(httptest.NewRequest("GET", "/", nil))
			h = http.Header{}
			o.SetHeaders(h)
			o.Release()
		}
		if got, want := h.Get("RateLimit"), `"default";`+c.want; got != want {
			t.Errorf("%s: RateLimit = %s, want %s", c.name, got, want)
		}
		if got, want := h.Get("RateLimit-Policy"), `"default";`+c.w; got != want {
			t.Errorf("%s: RateLimit-Policy = %s, want %s", c.name, got, want)
		}
	}
}

// TestHeadersAreApart: what somebody adds to one header of ours does not end up in
// another, and an outcome that is used again does not change headers written before.
func TestHeadersAreApart(t *testing.T) {
	m := one(t, caudal.PerMinute(5), ByIP, Options{Clock: newClock()})
	headers := func() http.Header {
		h := http.Header{}
		o := m.Decide(httptest.NewRequest("GET", "/", nil))
		defer o.Release()
		o.SetHeaders(h)
		return h
	}
	first := headers()
	want := first.Clone()
	for name := range want {
		first.Add(name, "more")
	}
	headers()
	for name, values := range want {
		if got := first[name]; len(got) != 2 || got[0] != values[0] || got[1] != "more" {
			t.Errorf("%s after Add = %q, want %q and more", name, got, values)
		}
	}
}

func TestJoiningWithAnotherLimiter(t *testing.T) {
	for _, c := range []struct {
		name    string
		present map[string]string
		want    map[string]string
	}{
		{"the other is tighter",
			map[string]string{"X-RateLimit-Limit": "7", "X-RateLimit-Remaining": "2", "X-RateLimit-Reset": "30", "RateLimit": `"app";r=2;t=30`, "RateLimit-Policy": `"app";q=7;w=60`},
			map[string]string{"X-RateLimit-Limit": "7", "X-RateLimit-Remaining": "2", "X-RateLimit-Reset": "30", "RateLimit": `"app";r=2;t=30, "default";r=9;t=9`, "RateLimit-Policy": `"app";q=7;w=60, "default";q=10;w=10`}},
		{"ours is tighter",
			map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "50", "X-RateLimit-Reset": "30"},
			map[string]string{"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "1773144002", "RateLimit": `"default";r=9;t=9`}},
		{"an older draft is left alone",
			map[string]string{"RateLimit": "limit=100, remaining=50, reset=30", "RateLimit-Policy": "100;w=60"},
			map[string]string{"RateLimit": "limit=100, remaining=50, reset=30", "RateLimit-Policy": "100;w=60", "X-RateLimit-Limit": "10"}},
		{"words are left alone",
			map[string]string{"X-RateLimit-Limit": "lots", "X-RateLimit-Remaining": "unlimited"},
			map[string]string{"X-RateLimit-Limit": "lots", "X-RateLimit-Remaining": "unlimited", "X-RateLimit-Reset": ""}},
	} {
		h := http.Header{}
		for name, v := range c.present {
			h.Set(name, v)
		}
		o := one(t, caudal.PerSecond(1).WithBurst(10), ByIP, Options{Clock: newClock()}).Decide(httptest.NewRequest("GET", "/", nil))
		o.SetHeaders(h)
		o.Release()
		wantHeaders(t, c.name, h, c.want)
	}
}

func TestTwoMiddlewaresJoin(t *testing.T) {
	c := newClock()
	inner := one(t, caudal.PerMinute(5), ByIP, Options{Clock: c})
	outer := one(t, caudal.PerMinute(100), ByIP, Options{Clock: c})
	r := call(outer.Wrap(inner.Wrap(hello)), "GET", "/")
	wantHeaders(t, "two middlewares", r.Header, map[string]string{
		"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "RateLimit": `"default";r=99;t=60, "default";r=4;t=48`,
	})
}

// rememberedStore answers as a store does that remembers a denial: it names that
// one, and has not asked the others.
type rememberedStore struct{}

func (rememberedStore) Take(_ context.Context, _ caudal.Instant, _ []caudal.Call, out []caudal.Decision) error {
	out[0] = caudal.Decision{Limit: 5, RetryAfter: 20 * time.Second}
	out[1] = caudal.Decision{Allowed: true, Unasked: true}
	return nil
}

// A limit that was not asked is not listed and counts nothing.
func TestUnaskedLimitsAreNotTold(t *testing.T) {
	seen := &recorder{}
	d := rules(t, `domain: d
descriptors:
  - key: remote_address
    rate_limits:
      - { name: narrow, unit: minute, requests_per_unit: 5 }
      - { name: broad, unit: hour, requests_per_unit: 100 }
`, rememberedStore{}, Options{Clock: newClock(), Observer: seen})
	r := call(d.Wrap(hello), "GET", "/")
	if r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("status = %d, want 429", r.StatusCode)
	}
	wantHeaders(t, "a remembered denial", r.Header, map[string]string{
		"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "Retry-After": "20",
		"RateLimit": `"narrow";r=0;t=20`, "RateLimit-Policy": `"narrow";q=5;w=60`,
	})
	if want := map[string]int{"narrow denied": 1}; !maps.Equal(seen.counts, want) {
		t.Errorf("counted %v, want %v", seen.counts, want)
	}
}

// sfString is a string of RFC 9651.
var sfString = regexp.MustCompile(`^"([ !#-\[\]-~]|\\["\\])*"$`)

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", `quo"te\`, "line\r\nSet-Cookie: x", "ñ\x00\x7f\xff", strings.Repeat("x", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := string(appendString(nil, s)); !sfString.MatchString(got) {
			t.Errorf("appendString(%q) = %q, which is no structured-field string", s, got)
		}
	})
}

func TestIntegersHaveAtMost15Digits(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999_999_999_999_999: "999999999999999", 1_000_000_000_000_000: "999999999999999", 1<<64 - 1: "999999999999999"} {
		if got := string(appendInteger(nil, n)); got != want {
			t.Errorf("appendInteger(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestCeilSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Second - 1: 1, time.Second: 1, time.Second + 1: 2} {
		if got := ceilSeconds(d); got != want {
			t.Errorf("ceilSeconds(%v) = %d, want %d", d, got, want)
		}
	}
}
