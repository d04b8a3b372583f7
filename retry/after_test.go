package retry

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func TestAfter(t *testing.T) {
	tests := []struct {
		retryAfter, rateLimit, age string
		want                       time.Duration
		ok                         bool
	}{
		{retryAfter: "3", want: 3 * time.Second, ok: true},
		{retryAfter: "0", want: 0, ok: true},
		{retryAfter: " 7 ", want: 7 * time.Second, ok: true},
		{retryAfter: "Tue, 10 Mar 2026 12:01:00 GMT", want: time.Minute, ok: true},
		{retryAfter: "Tue, 10 Mar 2026 11:00:00 GMT", want: 0, ok: true},
		{retryAfter: "99999999999999999999999", want: longest, ok: true},
		{retryAfter: "9223372036854775807", want: longest, ok: true},
		{retryAfter: "Fri, 31 Dec 9999 23:59:59 GMT", want: longest, ok: true},
		// C68: what servers send that is no Retry-After. Decimals are plain all the same.
		{retryAfter: "0.493", want: time.Second, ok: true},
		{retryAfter: "2.0", want: 2 * time.Second, ok: true},
		{retryAfter: "2.001", want: 3 * time.Second, ok: true},
		{retryAfter: "0.0", want: 0, ok: true},
		{retryAfter: "18446744073709551615.5", want: longest, ok: true},
		{retryAfter: ".5"},
		{retryAfter: "5."},
		{retryAfter: "1.2.3"},
		{retryAfter: "-0.5"},
		{retryAfter: "1.5e3"},
		{retryAfter: "-1484742195"},
		{retryAfter: "1s"},
		{retryAfter: ""},
		// Retry-After wins over RateLimit; a bad one is as none.
		{retryAfter: "3", rateLimit: `"a";r=0;t=60`, want: 3 * time.Second, ok: true},
		{retryAfter: "soon", rateLimit: `"a";r=0;t=60`, want: time.Minute, ok: true},
		{rateLimit: `"a";r=0;t=60`, want: time.Minute, ok: true},
		{rateLimit: `"a";r=0;t=60, "b";r=0;t=90, "c";r=5;t=900`, want: 90 * time.Second, ok: true},
		{rateLimit: `"a\"b\\";r=0;t=6;pk=:sdfjLJUOUH==:;acme-x;acme-y="q;,"`, want: 6 * time.Second, ok: true},
		{rateLimit: `"a";r=5;t=60`},
		{rateLimit: `"a";r=0`},
		{rateLimit: `"a";r=0;t=999999999999999`, want: longest, ok: true},
		{rateLimit: `"a";r=0;t=60`, age: "5"},
		{rateLimit: `"a";r=0;t=60`, age: "0", want: time.Minute, ok: true},
		// Malformed: the whole field counts for nothing.
		{rateLimit: `a;r=0;t=60`},
		{rateLimit: `"a";r=0;t=60,`},
		{rateLimit: `"a";r=0;t=60 "b";r=0;t=1`},
		{rateLimit: `"a";r=0;t=60, "b";t=1`},
		{rateLimit: `"a";r=0;t=-60`},
		{rateLimit: `"a";r=0;t=1.5`},
		{rateLimit: `"a";r=0;t=1234567890123456`},
		{rateLimit: `"a;r=0;t=60`},
		{rateLimit: `"a";R=0;t=60`},
		{rateLimit: `limit=100, remaining=0, reset=30`},
		{rateLimit: `"a";r=0;t=60;x="` + strings.Repeat("y", maxField) + `"`},
	}
	for _, test := range tests {
		h := http.Header{}
		for name, v := range map[string]string{"Retry-After": test.retryAfter, "RateLimit": test.rateLimit, "Age": test.age} {
			if v != "" {
				h.Set(name, v)
			}
		}
		got, ok := After(h, noon)
		if got != test.want || ok != test.ok {
			t.Errorf("After(%v) = %s %t, want %s %t", h, got, ok, test.want, test.ok)
		}
	}
}

func TestAfterOfSeveralLines(t *testing.T) {
	h := http.Header{"Ratelimit": {`"a";r=0;t=1`, `"b";r=0;t=2`}}
	if got, ok := After(h, noon); got != 2*time.Second || !ok {
		t.Errorf("After(%v) = %s %t, want 2s true", h, got, ok)
	}
	h = http.Header{"Retry-After": {"1", "bad", "5"}}
	if got, ok := After(h, noon); got != 5*time.Second || !ok {
		t.Errorf("After(%v) = %s %t, want 5s true", h, got, ok)
	}
}

func FuzzAfter(f *testing.F) {
	f.Add("3", `"a";r=0;t=60`)
	f.Add("x", `"a\"";r=0;t=6;pk=:sdf=:;acme;b="q;,", "b";r=1`)
	f.Fuzz(func(t *testing.T, retryAfter, rateLimit string) {
		got, ok := After(http.Header{"Retry-After": {retryAfter}, "Ratelimit": {rateLimit}}, noon)
		if got < 0 || got > longest || !ok && got != 0 {
			t.Errorf("After(%q, %q) = %s %t, want 0 to %s", retryAfter, rateLimit, got, ok, longest)
		}
	})
}
