package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/memstore"
)

const publicAPI = `
domain: public-api
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 600, burst: 100 }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { name: logins, unit: minute, requests_per_unit: 5, algorithm: sliding_log }
  - key: api_key
    rate_limit: { name: key, unit: hour, requests_per_unit: 1000, algorithm: fixed_window }
`

func TestDenialGolden(t *testing.T) {
	c := newClock()
	h := rules(t, publicAPI, nil, Options{Clock: c}).Wrap(hello)
	for i := range 5 {
		r := call(h, "POST", "/login")
		wantStatus(t, fmt.Sprintf("POST /login %d", i+1), r, 200)
		if i == 0 {
			wantHeaders(t, "first call", r.Header, map[string]string{
				"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "1773144061",
				"RateLimit-Policy": `"remote_address";q=100;w=10, "logins";q=5;w=60, "key";q=1000;w=3600`,
				"RateLimit":        `"remote_address";r=99;t=10, "logins";r=4;t=60, "key";r=999;t=3600`,
				"Retry-After":      "", "Cache-Control": "",
			})
		}
		c.advance(time.Second)
	}
	r := call(h, "POST", "/login")
	wantStatus(t, "6th POST /login", r, 429)
	wantHeaders(t, "denial", r.Header, map[string]string{
		"Retry-After": "55", "Cache-Control": "no-store", "Content-Type": "application/problem+json",
		"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1773144065",
		"RateLimit-Policy": `"remote_address";q=100;w=10, "logins";q=5;w=60, "key";q=1000;w=3600`,
		"RateLimit":        `"remote_address";r=100;t=10, "logins";r=0;t=55, "key";r=995;t=3595`,
	})
	want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
		`"detail":"limit \"logins\" (5/minute sliding_log) is used up; try again in 55s","violated-policies":["logins"]}`
	if got := body(r); got != want {
		t.Errorf("denial body = %s\nwant %s", got, want)
	}
	wantStatus(t, "another client's first POST /login", callFrom(h, "198.51.100.5:1", "POST", "/login"), 200)
	wantStatus(t, "another path", call(h, "GET", "/other"), 200)
	c.advance(55 * time.Second)
	wantStatus(t, "POST /login after Retry-After", call(h, "POST", "/login"), 200)
}

func TestEveryDenyingLimitIsNamed(t *testing.T) {
	h := rules(t, `
domain: d
descriptors:
  - key: remote_address
    rate_limits:
      - { name: rate, unit: minute, requests_per_unit: 1 }
      - { name: quota, unit: hour, requests_per_unit: 1 }
      - { name: wide, unit: day, requests_per_unit: 10 }
`, nil, Options{Clock: newClock()}).Wrap(hello)
	call(h, "GET", "/")
	r := call(h, "GET", "/")
	if got := body(r); !strings.Contains(got, `"violated-policies":["rate","quota"]`) || !strings.Contains(got, `limit \"quota\"`) {
		t.Errorf("body = %s, want violated-policies rate and quota, and the longest wait in the detail", got)
	}
	wantHeaders(t, "denial", r.Header, map[string]string{"Retry-After": "3600", "X-RateLimit-Limit": "1"})
}

func TestC68RetryAfter(t *testing.T) {
	for _, c := range []struct {
		limit caudal.Limit
		after time.Duration // from the call that takes all to the one that is denied
		want  string
	}{
		{caudal.PerSecond(1), 895 * time.Millisecond, "1"}, // 105 ms left
		{caudal.PerSecond(1), 999_999 * time.Microsecond, "1"},
		{caudal.Per(1, caudal.Minute), 58_100 * time.Millisecond, "2"}, // 1.9 s left
		{caudal.Per(1, caudal.Minute), 58 * time.Second, "2"},
		{caudal.Per(1, caudal.Minute), 0, "60"},
		{caudal.PerMinute(1).With(caudal.FixedWindow), 0, "60"}, // 59.75 s to the minute
		{caudal.PerMinute(0), 0, ""},                            // never
	} {
		clk := newClock()
		h := one(t, c.limit, ByIP, Options{Clock: clk}).Wrap(hello)
		call(h, "GET", "/")
		clk.advance(c.after)
		r := call(h, "GET", "/")
		wantStatus(t, fmt.Sprintf("%v after %v", c.limit, c.after), r, 429)
		wantHeaders(t, fmt.Sprintf("%v after %v", c.limit, c.after), r.Header, map[string]string{"Retry-After": c.want})
		if c.want == "" {
			continue
		}
		d, _ := time.ParseDuration(c.want + "s")
		clk.advance(d)
		wantStatus(t, fmt.Sprintf("%v after %v and Retry-After", c.limit, c.after), call(h, "GET", "/"), 200)
	}
}

func TestHeaderSettings(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want map[string]string
	}{
		{"both", Options{}, map[string]string{"X-RateLimit-Reset": "1773144002", "X-RateLimit-Remaining": "9", "RateLimit": `"default";r=9;t=9`, "RateLimit-Policy": `"default";q=10;w=10`}},
		{"delta", Options{Reset: ResetDelta}, map[string]string{"X-RateLimit-Reset": "1"}},
		{"legacy", Options{Families: Legacy}, map[string]string{"X-RateLimit-Limit": "10", "RateLimit": "", "RateLimit-Policy": ""}},
		{"draft", Options{Families: Draft}, map[string]string{"X-RateLimit-Limit": "", "X-RateLimit-Reset": "", "RateLimit": `"default";r=9;t=9`}},
		{"none", Options{Families: NoFamily}, map[string]string{"X-RateLimit-Limit": "", "RateLimit": "", "RateLimit-Policy": ""}},
		{"dry run", Options{DryRun: true}, map[string]string{"X-RateLimit-Limit": "", "RateLimit": "", "RateLimit-Policy": ""}},
	} {
		c.o.Clock = newClock()
		r := call(one(t, caudal.PerSecond(1).WithBurst(10), ByIP, c.o).Wrap(hello), "GET", "/")
		wantStatus(t, c.name, r, 200)
		wantHeaders(t, c.name, r.Header, c.want)
	}
}

func TestHeadIsChargedAndHasNoBody(t *testing.T) {
	h := one(t, caudal.PerMinute(1), ByIP, Options{Clock: newClock()}).Wrap(hello)
	wantStatus(t, "HEAD", call(h, "HEAD", "/"), 200)
	r := call(h, "HEAD", "/")
	wantStatus(t, "second HEAD", r, 429)
	if got := body(r); got != "" || r.Header.Get("Content-Length") == "" {
		t.Errorf("denied HEAD: body %q, Content-Length %q, want no body and the length of GET's", got, r.Header.Get("Content-Length"))
	}
}

func TestC74Preflight(t *testing.T) {
	preflight := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "GET"}
	h := one(t, caudal.PerMinute(1), ByIP, Options{Clock: newClock()}).Wrap(hello)
	for range 3 {
		wantStatus(t, "preflight", call(h, "OPTIONS", "/", preflight...), 200)
	}
	wantStatus(t, "GET", call(h, "GET", "/", "Origin", "https://app.example"), 200)
	r := call(h, "GET", "/", "Origin", "https://app.example")
	wantStatus(t, "second GET", r, 429)
	wantHeaders(t, "cross-origin denial", r.Header, map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": exposed})
	wantStatus(t, "plain OPTIONS", call(h, "OPTIONS", "/", "Origin", "https://app.example"), 429)
	wantHeaders(t, "same-origin denial", call(h, "GET", "/").Header, map[string]string{"Access-Control-Allow-Origin": ""})

	h = one(t, caudal.PerMinute(0), ByIP, Options{Clock: newClock(), ChargePreflight: true, DenialOrigins: []string{"https://app.example"}}).Wrap(hello)
	r = call(h, "OPTIONS", "/", preflight...)
	wantStatus(t, "charged preflight", r, 429)
	wantHeaders(t, "listed origin", r.Header, map[string]string{"Access-Control-Allow-Origin": "https://app.example", "Access-Control-Allow-Credentials": "true", "Vary": "Origin"})
	wantHeaders(t, "other origin", call(h, "GET", "/", "Origin", "https://evil.example").Header, map[string]string{"Access-Control-Allow-Origin": ""})
}

func TestKeys(t *testing.T) {
	h := one(t, caudal.PerMinute(1), FirstOf(ByHeader("X-User"), ByIP), Options{Clock: newClock()}).Wrap(hello)
	wantStatus(t, "user a", call(h, "GET", "/", "X-User", "a"), 200)
	wantStatus(t, "user a again", call(h, "GET", "/", "X-User", "a"), 429)
	wantStatus(t, "no user: the address", call(h, "GET", "/"), 200)
	wantStatus(t, "no user again", call(h, "GET", "/"), 429)
	wantStatus(t, "a header that names another's address", call(h, "GET", "/", "X-User", "198.51.100.5"), 200)
	wantStatus(t, "that address", callFrom(h, "198.51.100.5:1", "GET", "/"), 200)

	h = one(t, caudal.PerMinute(1), ByHeader("X-User"), Options{Clock: newClock()}).Wrap(hello)
	for range 3 {
		r := call(h, "GET", "/")
		wantStatus(t, "without a key", r, 200)
		wantHeaders(t, "without a key", r.Header, map[string]string{"X-RateLimit-Limit": "", "RateLimit": ""})
	}

	h = one(t, caudal.PerMinute(100), ByIP, Options{Clock: newClock(), OnError: DenyOnError, Logger: quiet()}).Wrap(hello)
	wantStatus(t, "no address, closed", callFrom(h, "nonsense", "GET", "/"), 503)
}

func TestC65MissingIdentity(t *testing.T) {
	file := func(missing string) string {
		return "domain: d\ndescriptors:\n  - key: header:x-user\n    missing: " + missing +
			"\n    rate_limit: { unit: minute, requests_per_unit: 3 }\n"
	}
	for missing, want := range map[string]map[int]int{ // statuses of 30 calls from 2 addresses
		"skip": {200: 30}, "ip": {200: 6, 429: 24}, "shared": {200: 3, 429: 27}, "reject": {401: 30},
	} {
		h := rules(t, file(missing), nil, Options{Clock: newClock()}).Wrap(hello)
		got := map[int]int{}
		for i := range 30 {
			got[callFrom(h, fmt.Sprintf("203.0.113.%d:1", i%2), "GET", "/").StatusCode]++
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("missing: %s: 30 calls without the header = %v, want %v", missing, got, want)
		}
	}
	h := rules(t, file("reject"), nil, Options{Clock: newClock()}).Wrap(hello)
	r := call(h, "GET", "/")
	wantHeaders(t, "401", r.Header, map[string]string{"Cache-Control": "no-store", "Content-Type": "application/problem+json", "WWW-Authenticate": `ApiKey realm="api"`, "Retry-After": ""})
	wantStatus(t, "with the header", call(h, "GET", "/", "X-User", "a"), 200)
	h = rules(t, file("reject"), nil, Options{Clock: newClock(), DryRun: true}).Wrap(hello)
	wantStatus(t, "reject in a dry run", call(h, "GET", "/"), 200)
}

func TestC65MadeUpKeysStayUnderTheCeiling(t *testing.T) {
	c := newClock()
	h := rules(t, publicAPI, nil, Options{Clock: c}).Wrap(hello)
	passed := 0
	for i := range 1000 {
		if call(h, "GET", "/", "X-API-Key", fmt.Sprint("made-up-", i)).StatusCode == 200 {
			passed++
		}
	}
	if passed != 100 {
		t.Errorf("1000 calls with made-up keys from one address: %d passed, want 100, the address's ceiling", passed)
	}
}

func TestC67TwoKeysGainNothing(t *testing.T) {
	h := rules(t, "domain: d\ndescriptors:\n  - key: api_key\n    rate_limit: { unit: minute, requests_per_unit: 3 }\n", nil, Options{Clock: newClock()}).Wrap(hello)
	passed := 0
	for i := range 30 {
		if call(h, "GET", "/", "X-API-Key", "real", "X-API-Key", fmt.Sprint("made-up-", i)).StatusCode == 200 {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("30 calls with the real key and a made-up one: %d passed, want 3", passed)
	}
}

func TestStoreFailure(t *testing.T) {
	failure := fmt.Errorf("%w: gone", caudal.ErrStore)
	for _, c := range []struct {
		name  string
		store brokenStore
		o     Options
		want  int
		count string
	}{
		{"open", brokenStore{err: failure}, Options{}, 200, "remote_address error_allowed"},
		{"closed", brokenStore{err: failure}, Options{OnError: DenyOnError}, 503, "remote_address error_denied"},
		{"closed, dry run", brokenStore{err: failure}, Options{OnError: DenyOnError, DryRun: true}, 200, "remote_address error_allowed"},
		{"panic passes", brokenStore{panic: "boom"}, Options{}, 200, "remote_address error_allowed"},
		{"panic passes where errors do not", brokenStore{panic: "boom"}, Options{OnError: DenyOnError}, 200, "remote_address error_allowed"},
	} {
		seen := &recorder{}
		c.o.Observer, c.o.Clock = seen, newClock()
		h := rules(t, publicAPI, c.store, c.o).Wrap(hello)
		r := call(h, "GET", "/")
		wantStatus(t, c.name, r, c.want)
		if c.want == 503 {
			wantHeaders(t, c.name, r.Header, map[string]string{"Retry-After": "1", "Cache-Control": "no-store", "Content-Type": "application/problem+json", "RateLimit": ""})
		}
		if seen.counts[c.count] != 1 || len(seen.counts) != 2 { // and the api_key's, by address
			t.Errorf("%s: counted %v, want %q once and the other limit", c.name, seen.counts, c.count)
		}
		var p *PanicError
		if len(seen.errs) != 1 || errors.As(seen.errs[0], &p) != (c.store.panic != nil) {
			t.Errorf("%s: reported %v", c.name, seen.errs)
		}
	}
}

func TestPanicOfTheHandlerIsNotTouched(t *testing.T) {
	h := one(t, caudal.PerMinute(1), ByIP, Options{Clock: newClock()}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("recovered %v, want the handler's own panic", v)
		}
	}()
	call(h, "GET", "/")
}

func TestPanicOfTheKeyFunctionPasses(t *testing.T) {
	seen := &recorder{}
	h := one(t, caudal.PerMinute(1), func(*http.Request) (string, error) { panic("boom") }, Options{Observer: seen, Logger: quiet()}).Wrap(hello)
	wantStatus(t, "call", call(h, "GET", "/"), 200)
	if len(seen.errs) != 1 {
		t.Errorf("reported %v, want one panic", seen.errs)
	}
}

func TestObserverCounts(t *testing.T) {
	seen := &recorder{}
	h := rules(t, `
domain: d
descriptors:
  - key: remote_address
    rate_limit: { name: wide, unit: minute, requests_per_unit: 100 }
  - key: method
    rate_limit: { name: narrow, unit: minute, requests_per_unit: 3 }
  - key: path
    rate_limit: { name: shadow, unit: minute, requests_per_unit: 1 }
    shadow_mode: true
  - key: host
    rate_limit: { name: roomy, unit: minute, requests_per_unit: 100 }
    shadow_mode: true
`, nil, Options{Clock: newClock(), Observer: seen}).Wrap(hello)
	for i := range 5 {
		r := call(h, "GET", "/")
		wantStatus(t, fmt.Sprintf("call %d", i+1), r, map[bool]int{true: 200, false: 429}[i < 3])
		if got := r.Header.Get("RateLimit"); strings.Contains(got, "shadow") || strings.Contains(got, "roomy") {
			t.Errorf("RateLimit = %s, want no limit that is not enforced", got)
		}
	}
	want := map[string]int{
		"wide allowed": 3, "narrow allowed": 3, "narrow denied": 2, // wide has room in the denied calls: nothing
		"shadow allowed": 1, "shadow shadow_denied": 4, // its own denial counts always, its pass only when the call passes
		"roomy allowed": 3,
	}
	if !reflect.DeepEqual(seen.counts, want) {
		t.Errorf("counts = %v, want %v", seen.counts, want)
	}
}

func TestDryRunCountsAndPasses(t *testing.T) {
	seen := &recorder{}
	h := rules(t, publicAPI, nil, Options{Clock: newClock(), Observer: seen, DryRun: true}).Wrap(hello)
	for range 7 {
		wantStatus(t, "dry run", call(h, "POST", "/login"), 200)
	}
	if seen.counts["logins allowed"] != 5 || seen.counts["logins shadow_denied"] != 2 {
		t.Errorf("counts = %v, want 5 logins allowed and 2 shadow_denied", seen.counts)
	}
}

func TestGRPCDenial(t *testing.T) {
	h := one(t, caudal.Per(1, caudal.Minute), ByIP, Options{Clock: newClock()}).Wrap(hello)
	grpc := []string{"Content-Type", "application/grpc+proto"}
	call(h, "POST", "/pkg.Service/Method", grpc...)
	r := call(h, "POST", "/pkg.Service/Method", grpc...)
	wantStatus(t, "gRPC denial", r, 200)
	wantHeaders(t, "gRPC denial", r.Header, map[string]string{
		"Content-Type": "application/grpc+proto", "Grpc-Status": "8", "Grpc-Retry-Pushback-Ms": "60000", "Retry-After": "",
		"Grpc-Message": `limit "default" (1/minute) is used up; try again in 1m0s`,
	})
	if got := body(r); got != "" {
		t.Errorf("gRPC denial body = %q, want none: trailers only", got)
	}
	h = one(t, caudal.PerMinute(0), ByIP, Options{Clock: newClock()}).Wrap(hello)
	wantHeaders(t, "never", call(h, "POST", "/x", grpc...).Header, map[string]string{"Grpc-Status": "8", "Grpc-Retry-Pushback-Ms": "-1"})
	wantStatus(t, "not gRPC", call(h, "POST", "/x", "Content-Type", "application/grpcish"), 429)
	if got := grpcMessage("a%b\nñ"); got != "a%25b%0A%C3%B1" {
		t.Errorf("grpcMessage = %q", got)
	}
}

func TestSetDomainAppliesAtOnce(t *testing.T) {
	c := newClock()
	d := rules(t, "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n", nil, Options{Clock: c})
	h := d.Wrap(hello)
	call(h, "GET", "/")
	wantStatus(t, "before", call(h, "GET", "/"), 429)
	d.SetDomain(rules(t, "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 3 }\n", nil, Options{Clock: c}).Domain())
	r := call(h, "GET", "/")
	wantStatus(t, "after", r, 200)
	wantHeaders(t, "after", r.Header, map[string]string{"X-RateLimit-Limit": "3", "X-RateLimit-Remaining": "1"})
}

func TestConstructorsRefuse(t *testing.T) {
	limiter := caudal.Must(caudal.New(memstore.New(memstore.Options{}), caudal.PerMinute(1)))
	who, _ := identity.New(identity.Options{})
	domain := rules(t, publicAPI, nil, Options{}).Domain()
	for want, make := range map[string]func() error{
		"no limiter":      func() error { _, err := New(nil, ByIP, Options{}); return err },
		"no key function": func() error { _, err := New(limiter, nil, Options{}); return err },
		"header families": func() error { _, err := New(limiter, ByIP, Options{Families: NoFamily | Draft}); return err },
		"reset format":    func() error { _, err := New(limiter, ByIP, Options{Reset: 7}); return err },
		"error policy":    func() error { _, err := New(limiter, ByIP, Options{OnError: 7}); return err },
		"no domain":       func() error { _, err := NewDecider(nil, brokenStore{}, who, Options{}); return err },
		"no store":        func() error { _, err := NewDecider(domain, nil, who, Options{}); return err },
		"no resolver":     func() error { _, err := NewDecider(domain, brokenStore{}, nil, Options{}); return err },
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}
