package envoyrls_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/memstore"
)

func overrideOf(unit envoytype.RateLimitUnit, multiplier uint32) *pb.RateLimitRequest {
	return request(multiplied("k=v", 1, unit, multiplier))
}

// TestB13BadRequests: the reference answers Unknown, or dies (#7).
func TestB13BadRequests(t *testing.T) {
	f := start(t, windows+"- {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n", envoyrls.Options{}, nil)
	many := func(n int) []*ratelimit.RateLimitDescriptor {
		list := make([]*ratelimit.RateLimitDescriptor, n)
		for i := range list {
			list[i] = d("k=v")
		}
		return list
	}
	wide := d(strings.Repeat("k=v,", envoyrls.MaxEntries) + "k=v")
	for _, c := range []struct {
		name string
		req  *pb.RateLimitRequest
		want string
	}{
		{"empty domain", &pb.RateLimitRequest{Descriptors: many(1)}, "rate limit domain must not be empty"},
		{"long domain", &pb.RateLimitRequest{Domain: strings.Repeat("d", envoyrls.MaxDomain+1), Descriptors: many(1)}, "too long"},
		{"no descriptors", &pb.RateLimitRequest{Domain: "d"}, "rate limit descriptor list must not be empty"},
		{"10 000 descriptors", request(many(10_000)...), "10000 descriptors are too many"},
		{"many entries", request(wide), "descriptors[0] has 65 entries"},
		{"a value of 1 MB", request(d("k=v"), d("k="+strings.Repeat("x", 1<<20))), "descriptors[1].entries[0] is too long"},
		{"all together too long", request(many(1)[0], d("k="+strings.Repeat("x,k=", 0)+strings.Repeat("y", envoyrls.MaxText)),
			d(strings.TrimSuffix(strings.Repeat("k="+strings.Repeat("z", envoyrls.MaxText)+",", 8), ","))), "too long: at most 262144 in a request"},
		{"hits of 33 bits", request(hits("k=v", 1<<32)), "descriptors[0].hits_addend 4294967296 is too large"},
		{"override without unit", overrideOf(envoytype.RateLimitUnit_UNKNOWN, 1), "descriptors[0].limit.unit is UNKNOWN"},
		{"override of a unit that is none", overrideOf(99, 1), "descriptors[0].limit.unit is 99"},
		{"override times 0", overrideOf(envoytype.RateLimitUnit_SECOND, 0), "descriptors[0].limit.unit_multiplier is 0"},
		{"override over 200 years", overrideOf(envoytype.RateLimitUnit_YEAR, 201), "over 200 years"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := f.send(c.req)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want InvalidArgument with %q", err, c.want)
			}
		})
	}
	f.want(request(d("k=v")), "OK: OK 5/MINUTE left 4 reset 1m0s") // and nothing was charged
}

func TestB13NoRulesYet(t *testing.T) {
	f := startSet(t, nil, envoyrls.Options{}, nil)
	if _, err := f.send(one("k=v")); status.Code(err) != codes.Unavailable {
		t.Errorf("error = %v, want Unavailable", err)
	}
	f.service.SetRules(parse(t, false, windows+"- {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n"))
	f.want(one("k=v"), "OK: OK 5/MINUTE left 4 reset 1m0s")
}

// badStore fails every call in its own way.
type badStore struct {
	caudal.Store
	take func(out []caudal.Decision) error
}

func (s badStore) Take(_ context.Context, _ caudal.Instant, _ []caudal.Call, out []caudal.Decision) error {
	return s.take(out)
}

// recorder is an observer.
type recorder struct{ decided, failed []string }

func (r *recorder) Decided(domain string, l *caudal.Compiled, result httplimit.Result) {
	r.decided = append(r.decided, fmt.Sprintf("%s %s %s", domain, l.Name(), result))
}

func (r *recorder) Failed(domain string, err error) {
	r.failed = append(r.failed, domain+": "+err.Error())
}

// TestC70StoreFailures: fail-closed is Unavailable, and a limiter that panics
// lets pass.
func TestC70StoreFailures(t *testing.T) {
	for _, c := range []struct {
		name string
		take func([]caudal.Decision) error
		code codes.Code
		want string
		seen string
	}{
		{"error", func([]caudal.Decision) error { return fmt.Errorf("%w: refused", caudal.ErrStore) }, codes.Unavailable, "", "d k error_denied"},
		{"a limit says deny", func(out []caudal.Decision) error {
			out[0] = caudal.Decision{Degraded: true, Unavailable: true}
			return nil
		}, codes.Unavailable, "", "d k error_denied"},
		{"a local count with more room than the limit", func(out []caudal.Decision) error {
			out[0] = caudal.Decision{Allowed: true, Charged: true, Degraded: true, Limit: 10, Remaining: 9, ResetAfter: time.Minute}
			return nil
		}, codes.OK, "OK: OK 5/MINUTE left 5 reset 1m0s", "d k allowed"},
		{"panic", func([]caudal.Decision) error { panic("bug") }, codes.OK, "OK: OK -", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := &recorder{}
			f := start(t, windows+"- {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n", envoyrls.Options{Observer: seen},
				func(testing.TB, caudal.Clock) caudal.Store { return badStore{take: c.take} })
			answer, err := f.send(one("k=v"))
			if status.Code(err) != c.code || err == nil && render(answer) != c.want {
				t.Errorf("answer = %v, %v, want %s %q", answer, err, c.code, c.want)
			}
			if got := strings.Join(seen.decided, ", "); got != c.seen {
				t.Errorf("decided = %q, want %q", got, c.seen)
			}
			if none := strings.HasPrefix(c.name, "a "); len(seen.failed) != 1 && !none {
				t.Errorf("failed = %q, want one", seen.failed)
			}
		})
	}
}

func TestNegativeHitsNeedARefunder(t *testing.T) {
	f := start(t, windows+"- {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n", envoyrls.Options{},
		func(_ testing.TB, clock caudal.Clock) caudal.Store {
			return struct{ caudal.Store }{memstore.New(memstore.Options{Clock: clock})}
		})
	if _, err := f.send(request(back("k=v", 1))); status.Code(err) != codes.Unimplemented {
		t.Errorf("error = %v, want Unimplemented", err)
	}
}

func TestObserverIsToldOnce(t *testing.T) {
	rules := windows + "- {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}\n- {key: b, rate_limit: {unit: minute, requests_per_unit: 9}}\n" +
		"- {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
	for _, c := range []struct {
		compat bool
		want   string
	}{
		{false, "d a allowed, d b allowed, d s allowed, d a denied, d s shadow_denied"},
		{true, "d a allowed, d b allowed, d s allowed, d a denied, d b allowed, d s shadow_denied"},
	} {
		seen := &recorder{}
		f := start(t, rules, envoyrls.Options{Compat: c.compat, Observer: seen}, nil)
		for range 2 {
			f.ask(request(d("a=x"), d("b=x"), d("s=x"), hits("b=x", 0)))
		}
		if got := strings.Join(seen.decided, ", "); got != c.want {
			t.Errorf("compat %t: decided = %s\nwant %s", c.compat, got, c.want)
		}
	}
}

// TestC71NarrowRuleSparesTheBroadOne is the top complaint about the reference
// (#4).
func TestC71NarrowRuleSparesTheBroadOne(t *testing.T) {
	rules := windows + "- {key: broad, rate_limit: {unit: minute, requests_per_unit: 10}}\n- {key: narrow, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
	for _, c := range []struct {
		compat bool
		want   int
	}{{false, 7}, {true, 5}} {
		f := start(t, rules, envoyrls.Options{Compat: c.compat}, nil)
		for range 5 {
			f.ask(request(d("broad=x"), d("narrow=x")))
		}
		admitted := 0
		for range 10 {
			if strings.HasPrefix(f.ask(request(d("broad=x"))), "OK: ") {
				admitted++
			}
		}
		if admitted != c.want {
			t.Errorf("compat %t: %d of 10 admitted by the broad limit, want %d", c.compat, admitted, c.want)
		}
	}
}

// TestC50RaisedLimit: denied hits are counted only where the reference's way is
// asked for.
func TestC50RaisedLimit(t *testing.T) {
	rules := func(n int) string {
		return windows + fmt.Sprintf("- {key: k, rate_limit: {unit: hour, requests_per_unit: %d}}\n", n)
	}
	for _, c := range []struct {
		compat bool
		want   string
	}{{false, "OK: OK 20/HOUR left 9 reset 1h0m0s"}, {true, "OVER_LIMIT: OVER_LIMIT 20/HOUR left 0 reset 1h0m0s"}} {
		f := start(t, rules(10), envoyrls.Options{Compat: c.compat}, nil)
		for range 50 {
			f.ask(one("k=v"))
		}
		f.service.SetRules(parse(t, c.compat, rules(20)))
		f.want(one("k=v"), c.want)
	}
}

// TestB11StopIncrement: nobody is charged when one is over, and who is over is
// counted on.
func TestB11StopIncrement(t *testing.T) {
	rules := windows + "- {key: broad, rate_limit: {unit: minute, requests_per_unit: 10}}\n- {key: narrow, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
	f := start(t, rules, envoyrls.Options{Compat: true, StopIncrement: true}, nil)
	both := request(d("broad=x"), d("narrow=x"))
	f.want(both, "OK: OK 10/MINUTE left 9 reset 1m0s; OK 1/MINUTE left 0 reset 1m0s")
	f.want(both, "OVER_LIMIT: OK 10/MINUTE left 9 reset 1m0s; OVER_LIMIT 1/MINUTE left 0 reset 1m0s")
	f.service.SetRules(parse(t, true, strings.ReplaceAll(rules, "requests_per_unit: 1}", "requests_per_unit: 2}")))
	f.want(request(hits("narrow=x", 0)), "OK: OK 2/MINUTE left 0 reset 1m0s") // both tries were counted
	if _, err := envoyrls.New(nil, memstore.New(memstore.Options{}), envoyrls.Options{StopIncrement: true}); err == nil {
		t.Error("New with StopIncrement and without Compat gives no error")
	}
}

func headersOf(t *testing.T, f *fixture, req *pb.RateLimitRequest) string {
	t.Helper()
	answer, err := f.send(req)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, h := range answer.ResponseHeadersToAdd {
		list = append(list, h.Key+": "+h.Value)
	}
	return strings.Join(list, ", ")
}

// TestB7Headers also covers C68: the wait is rounded up and never 0.
func TestB7Headers(t *testing.T) {
	rules := windows + "- {key: a, rate_limit: {unit: minute, requests_per_unit: 2}}\n- {key: b, rate_limit: {unit: second, requests_per_unit: 9}}\n" +
		"- {key: z, rate_limit: {unit: minute, requests_per_unit: 0}}\n- {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
	for _, compat := range []bool{false, true} {
		f := start(t, rules, envoyrls.Options{Compat: compat, Headers: &envoyrls.Headers{}}, nil)
		f.clock.Advance(59_100e6) // 0.9 s before the minute ends
		for _, c := range []struct {
			req            *pb.RateLimitRequest
			strict, compat string
		}{
			{one("none=x"), "", ""},
			{request(d("b=x"), d("a=x"), d("s=x")), "RateLimit-Limit: 2, RateLimit-Remaining: 1, RateLimit-Reset: 1",
				"RateLimit-Limit: 1, RateLimit-Remaining: 0, RateLimit-Reset: 1"},
			{request(d("a=x")), "RateLimit-Limit: 2, RateLimit-Remaining: 0, RateLimit-Reset: 1", ""},
			{request(d("a=x"), d("b=x")), "RateLimit-Limit: 2, RateLimit-Remaining: 0, RateLimit-Reset: 1, Retry-After: 1",
				"RateLimit-Limit: 2, RateLimit-Remaining: 0, RateLimit-Reset: 1"},
			{request(d("z=x"), d("a=x")), "RateLimit-Limit: 0, RateLimit-Remaining: 0, RateLimit-Reset: 1",
				"RateLimit-Limit: 2, RateLimit-Remaining: 0, RateLimit-Reset: 1"},
		} {
			want := c.strict
			if compat && c.compat != "" {
				want = c.compat
			}
			if got := headersOf(t, f, c.req); got != want {
				t.Errorf("compat %t: headers of %s = %q, want %q", compat, c.req, got, want)
			}
		}
	}
}

func TestB7HeaderNames(t *testing.T) {
	names := &envoyrls.Headers{Limit: "X-L", Remaining: "X-R", Reset: "X-S", RetryAfter: "X-W"}
	f := start(t, windows+"- {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}\n", envoyrls.Options{Headers: names}, nil)
	f.ask(one("a=x"))
	if got, want := headersOf(t, f, one("a=x")), "X-L: 1, X-R: 0, X-S: 60, X-W: 60"; got != want {
		t.Errorf("headers = %q, want %q", got, want)
	}
	names.Reset = "not a name"
	if _, err := envoyrls.New(nil, memstore.New(memstore.Options{}), envoyrls.Options{Headers: names}); err == nil {
		t.Error("New with a header name that holds spaces gives no error")
	}
}

// TestB7DynamicMetadata also covers X2: metadata is kept on rules that are
// counted by value.
func TestB7DynamicMetadata(t *testing.T) {
	rules := windows + "- {key: a, detailed_metric: true, metadata: {team: red, deep: {x: 1}}, rate_limit: {unit: minute, requests_per_unit: 1}}\n" +
		"- {key: b, metadata: {team: blue, deep: {y: [true]}}, rate_limit: {unit: minute, requests_per_unit: 9}}\n"
	f := start(t, rules, envoyrls.Options{DynamicMetadata: true}, nil)
	req := request(hits("a=x", 1), overriding("c=y,e=z", 7, envoytype.RateLimitUnit_HOUR), d("b=x"))
	req.HitsAddend = 2
	asked := `"descriptors":[{"entries":["a=x"],"hitsAddend":1},{"entries":["c=y","e=z"],"limit":"requests_per_unit:7 unit:HOUR"},{"entries":["b=x"]}],"domain":"d","hitsAddend":2,`
	for _, want := range []string{
		`{` + asked + `"metadata":{"deep":{"x":1,"y":[true]},"team":"red"}}`,
		`{` + asked + `"metadata":{"deep":{"y":[true]},"team":"blue"}}`, // a is over now
	} {
		answer, err := f.send(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := protojson.Marshal(answer.DynamicMetadata)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(string(got), ", ", ","); got != want && strings.ReplaceAll(got, ": ", ":") != want {
			t.Errorf("dynamic metadata\n got %s\nwant %s", got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := envoyrls.New(nil, nil, envoyrls.Options{}); err == nil {
		t.Error("New without a store gives no error")
	}
	if _, err := envoyrls.New(nil, memstore.New(memstore.Options{}), envoyrls.Options{MaxHold: -1}); err == nil {
		t.Error("New with a negative MaxHold gives no error")
	}
	if _, err := envoyrls.NewServer(nil, envoyrls.ServerOptions{}); err == nil {
		t.Error("NewServer without a service gives no error")
	}
	if _, err := envoyrls.NewStats(1.5); err == nil {
		t.Error("NewStats(1.5) gives no error")
	}
}
