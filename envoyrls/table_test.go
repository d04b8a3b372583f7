package envoyrls_test

import (
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/caudal-dev/caudal/envoyrls"
)

// step is one request and its answer. compat is the answer under Compat, where it
// differs. Both modes count in the windows of the file.
type step struct {
	after          time.Duration
	req            *pb.RateLimitRequest
	strict, compat string
}

// conversation is steps against one service.
type conversation struct {
	name, why, rules string
	options          envoyrls.Options
	steps            []step
}

const windows = "domain: d\nalgorithm: fixed_window\ndescriptors:\n"

func TestConversations(t *testing.T) { runConversations(t, inMemory) }

func runConversations(t *testing.T, open openStore) {
	for _, c := range conversations() {
		for _, compat := range []bool{false, true} {
			name := c.name + "/strict"
			if compat {
				name = c.name + "/compat"
			}
			t.Run(name, func(t *testing.T) {
				o := c.options
				o.Compat = compat
				f := start(t, c.rules, o, open)
				for i, s := range c.steps {
					f.clock.Advance(s.after)
					want := s.strict
					if compat && s.compat != "" {
						want = s.compat
					}
					if got := f.ask(s.req); got != want {
						t.Errorf("%s\nstep %d: ShouldRateLimit(%s)\n got %s\nwant %s", c.why, i+1, s.req, got, want)
					}
				}
			})
		}
	}
}

func conversations() []conversation {
	return append(append(matching(), counting()...), kinds()...)
}

// one is a request with one descriptor.
func one(entries string) *pb.RateLimitRequest { return request(d(entries)) }

func matching() []conversation {
	return []conversation{{
		name: "B4 exact before key alone", why: "an exact value beats a key without value",
		rules: windows + "- {key: k, value: v, rate_limit: {unit: minute, requests_per_unit: 10}}\n- {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n",
		steps: []step{
			{req: one("k=v"), strict: "OK: OK 10/MINUTE left 9 reset 1m0s"},
			{req: one("k=z"), strict: "OK: OK 5/MINUTE left 4 reset 1m0s"},
			{req: one("k="), strict: "OK: OK 5/MINUTE left 4 reset 1m0s"},
		},
	}, {
		name: "B4 listed without limit", why: "a node without limit exempts its branch and hides the key-only sibling",
		rules: windows + "- {key: k, value: v}\n- {key: k, rate_limit: {unit: minute, requests_per_unit: 20}}\n",
		steps: []step{
			{req: one("k=v"), strict: "OK: OK -"},
			{req: one("k=z"), strict: "OK: OK 20/MINUTE left 19 reset 1m0s"},
		},
	}, {
		name: "B4 depth", why: "only the limit at the depth of the last entry counts, in the order of the entries",
		rules: windows + "- key: k\n  value: v\n  descriptors: [{key: s, rate_limit: {unit: minute, requests_per_unit: 5}}]\n",
		steps: []step{
			{req: one("k=v,s=1"), strict: "OK: OK 5/MINUTE left 4 reset 1m0s"},
			{req: request(d("k=v"), d("k=v,s=1,t=2"), d("s=1,k=v")), strict: "OK: OK -; OK -; OK -"},
		},
	}, {
		name: "B4 no backtracking", why: "once a child is chosen its siblings are never tried",
		rules: windows + "- key: k\n  value: v\n  descriptors: [{key: s, value: \"1\", rate_limit: {unit: minute, requests_per_unit: 9}}]\n" +
			"- key: k\n  descriptors: [{key: s, rate_limit: {unit: minute, requests_per_unit: 3}}]\n",
		steps: []step{
			{req: request(d("k=v,s=2"), d("k=v,s=1"), d("k=w,s=2")), strict: "OK: OK -; OK 9/MINUTE left 8 reset 1m0s; OK 3/MINUTE left 2 reset 1m0s"},
		},
	}, {
		name: "B4 wildcards", why: "a star is any text; prefix and suffix do not overlap",
		rules: windows + "- {key: w, value: foo*, rate_limit: {unit: minute, requests_per_unit: 20}}\n- {key: m, value: bar*b, rate_limit: {unit: minute, requests_per_unit: 20}}\n" +
			"- {key: p, value: /api/*/act, rate_limit: {unit: minute, requests_per_unit: 20}}\n",
		steps: []step{
			{req: request(d("w=foo"), d("w=foo1"), d("w=xfoo")), strict: "OK: OK 20/MINUTE left 19 reset 1m0s; OK 20/MINUTE left 19 reset 1m0s; OK -"},
			{req: request(d("m=bar1b"), d("m=barb"), d("m=barba")), strict: "OK: OK 20/MINUTE left 19 reset 1m0s; OK 20/MINUTE left 19 reset 1m0s; OK -"},
			{req: request(d("p=/api/7/act"), d("p=/api/7/other")), strict: "OK: OK 20/MINUTE left 19 reset 1m0s; OK -"},
		},
	}, {
		name: "B4 share_threshold", why: "all values that match share one counter; an exact sibling has its own",
		rules: windows + "- {key: f, value: test1, rate_limit: {unit: minute, requests_per_unit: 50}}\n- {key: f, value: test*, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 100}}\n",
		steps: []step{
			{req: one("f=test1"), strict: "OK: OK 50/MINUTE left 49 reset 1m0s"},
			{req: one("f=test2"), strict: "OK: OK 100/MINUTE left 99 reset 1m0s"},
			{req: one("f=test3"), strict: "OK: OK 100/MINUTE left 98 reset 1m0s"},
		},
	}, {
		name: "B4 unknown domain", why: "a domain without rules has no limits, also for overrides",
		rules: windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
		steps: []step{
			{req: &pb.RateLimitRequest{Domain: "other", Descriptors: []*ratelimit.RateLimitDescriptor{d("k=v"), overriding("k=v", 0, envoytype.RateLimitUnit_MINUTE)}}, strict: "OK: OK -; OK -"},
		},
	}, {
		name: "C56, X4 no composed text", why: "key is compared with key and value with value: composed texts never match or share a counter",
		rules: windows + "- {key: type_example, rate_limit: {unit: minute, requests_per_unit: 1}}\n- {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}\n" +
			"- key: user\n  value: a\n  descriptors: [{key: role, rate_limit: {unit: minute, requests_per_unit: 2}}]\n",
		steps: []step{
			{req: one("type=example"), strict: "OK: OK -"},
			{req: one("user=a_role_b"), strict: "OK: OK 2/MINUTE left 1 reset 1m0s"},
			{req: one("user=a,role=b"), strict: "OK: OK 2/MINUTE left 1 reset 1m0s"},
		},
	}}
}

func counting() []conversation {
	return []conversation{{
		name: "B6, #4 denied hits", why: "charged together or not at all; the reference charges each and counts what it denies",
		rules: windows + "- {key: broad, rate_limit: {unit: minute, requests_per_unit: 10}}\n- {key: narrow, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
		steps: []step{
			{req: request(d("narrow=x"), d("broad=x")), strict: "OK: OK 1/MINUTE left 0 reset 1m0s; OK 10/MINUTE left 9 reset 1m0s"},
			{req: request(d("narrow=x"), d("broad=x")),
				strict: "OVER_LIMIT: OVER_LIMIT 1/MINUTE left 0 reset 1m0s; OK 10/MINUTE left 9 reset 1m0s",
				compat: "OVER_LIMIT: OVER_LIMIT 1/MINUTE left 0 reset 1m0s; OK 10/MINUTE left 8 reset 1m0s"},
		},
	}, {
		name: "C16 oversized hit", why: "a denied cost adds nothing; in the reference it poisons the window",
		rules: windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 10}}\n",
		steps: []step{
			{req: request(hits("k=v", 50)), strict: "OVER_LIMIT: OVER_LIMIT 10/MINUTE left 10 reset 1m0s", compat: "OVER_LIMIT: OVER_LIMIT 10/MINUTE left 0 reset 1m0s"},
			{req: one("k=v"), strict: "OK: OK 10/MINUTE left 9 reset 1m0s", compat: "OVER_LIMIT: OVER_LIMIT 10/MINUTE left 0 reset 1m0s"},
			{after: 60 * time.Second, req: one("k=v"), strict: "OK: OK 10/MINUTE left 9 reset 1m0s"},
		},
	}, {
		name: "B6, C17 peeks", why: "0 hits of a descriptor are a peek, which is over only when the window counts more than the limit",
		rules: windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 2}}\n",
		steps: []step{
			{req: request(hits("k=v", 0)), strict: "OK: OK 2/MINUTE left 2 reset 1m0s"},
			{after: 15 * time.Second, req: request(hits("k=v", 2)), strict: "OK: OK 2/MINUTE left 0 reset 45s"},
			{req: request(hits("k=v", 0)), strict: "OK: OK 2/MINUTE left 0 reset 45s"},
			{req: one("k=v"), strict: "OVER_LIMIT: OVER_LIMIT 2/MINUTE left 0 reset 45s"},
			{req: request(hits("k=v", 0)), strict: "OK: OK 2/MINUTE left 0 reset 45s", compat: "OVER_LIMIT: OVER_LIMIT 2/MINUTE left 0 reset 45s"},
		},
	}, {
		name: "B6 hits of the request", why: "0 is 1; a descriptor's own win",
		rules: windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 10}}\n",
		steps: []step{
			{req: &pb.RateLimitRequest{Domain: "d", HitsAddend: 0, Descriptors: []*ratelimit.RateLimitDescriptor{d("k=v")}}, strict: "OK: OK 10/MINUTE left 9 reset 1m0s"},
			{req: &pb.RateLimitRequest{Domain: "d", HitsAddend: 3, Descriptors: []*ratelimit.RateLimitDescriptor{d("k=v"), hits("k=w", 4)}}, strict: "OK: OK 10/MINUTE left 6 reset 1m0s; OK 10/MINUTE left 6 reset 1m0s"},
		},
	}, {
		name: "B6 duplicates", why: "the same descriptor twice counts twice",
		rules: windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 3}}\n",
		steps: []step{
			{req: request(d("k=v"), d("k=v")),
				strict: "OK: OK 3/MINUTE left 1 reset 1m0s; OK 3/MINUTE left 1 reset 1m0s",
				compat: "OK: OK 3/MINUTE left 2 reset 1m0s; OK 3/MINUTE left 1 reset 1m0s"},
			{req: request(d("k=v"), d("k=v")),
				strict: "OVER_LIMIT: OVER_LIMIT 3/MINUTE left 1 reset 1m0s; OVER_LIMIT 3/MINUTE left 1 reset 1m0s",
				compat: "OVER_LIMIT: OK 3/MINUTE left 0 reset 1m0s; OVER_LIMIT 3/MINUTE left 0 reset 1m0s"},
		},
	}, {
		name: "B21 negative hits", why: "given back down to nothing used, always OK, also beside a denial",
		rules: windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 5}}\n- {key: ban, rate_limit: {unit: minute, requests_per_unit: 0}}\n",
		steps: []step{
			{req: request(hits("k=v", 4)), strict: "OK: OK 5/MINUTE left 1 reset 1m0s"},
			{req: request(back("k=v", 1)), strict: "OK: OK 5/MINUTE left 2 reset 1m0s"},
			{req: request(back("k=v", 1<<40)), strict: "OK: OK 5/MINUTE left 5 reset 1m0s"},
			{req: request(back("k=fresh", 3)), strict: "OK: OK 5/MINUTE left 5 reset 1m0s"},
			{req: request(hits("k=v", 5)), strict: "OK: OK 5/MINUTE left 0 reset 1m0s"},
			{req: request(back("k=v", 2), d("ban=x")), strict: "OVER_LIMIT: OK 5/MINUTE left 2 reset 1m0s; OVER_LIMIT 0/MINUTE left 0 reset 1m0s"},
			{req: request(back("ban=x", 2)), strict: "OK: OK 0/MINUTE left 0 reset 1m0s"},
		},
	}, {
		name: "B5 windows", why: "duration is what is left of the window, whole seconds, never 0",
		rules: windows + "- {key: k, rate_limit: {unit: second, requests_per_unit: 1}}\n- {key: h, rate_limit: {unit: hour, requests_per_unit: 1}}\n",
		steps: []step{
			{after: 1300 * time.Millisecond, req: request(d("k=v"), d("h=v")), strict: "OK: OK 1/SECOND left 0 reset 1s; OK 1/HOUR left 0 reset 59m59s"},
			{after: 600 * time.Millisecond, req: one("k=v"), strict: "OVER_LIMIT: OVER_LIMIT 1/SECOND left 0 reset 1s"},
			{after: 100 * time.Millisecond, req: one("k=v"), strict: "OK: OK 1/SECOND left 0 reset 1s"},
		},
	}}
}

func kinds() []conversation {
	return []conversation{{
		name: "B9 unlimited and zero", why: "unlimited is told by the largest number, 0 denies all",
		rules: windows + "- {key: u, rate_limit: {unlimited: true}}\n- {key: z, rate_limit: {unit: minute, requests_per_unit: 0}}\n",
		steps: []step{
			{req: request(d("u=1"), d("none=1")), strict: "OK: OK unlimited; OK -"},
			{req: request(d("z=1"), d("u=1")), strict: "OVER_LIMIT: OVER_LIMIT 0/MINUTE left 0 reset 1m0s; OK unlimited"},
		},
	}, {
		name: "B9, C72 shadow", why: "a shadow limit counts, is told as OK with nothing left, and stops no enforced limit",
		rules: windows + "- {key: s, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n- {key: e, rate_limit: {unit: minute, requests_per_unit: 2}}\n",
		steps: []step{
			{req: request(d("s=x"), d("e=x")), strict: "OK: OK 1/MINUTE left 0 reset 1m0s; OK 2/MINUTE left 1 reset 1m0s"},
			{req: request(d("s=x"), d("e=x")), strict: "OK: OK 1/MINUTE left 0 reset 1m0s; OK 2/MINUTE left 0 reset 1m0s"},
			{req: request(d("s=x"), d("e=x")), strict: "OVER_LIMIT: OK 1/MINUTE left 0 reset 1m0s; OVER_LIMIT 2/MINUTE left 0 reset 1m0s"},
		},
	}, {
		name: "B9 global shadow mode", why: "statuses tell the truth, the overall code lets pass",
		rules:   windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
		options: envoyrls.Options{ShadowMode: true},
		steps: []step{
			{req: one("k=v"), strict: "OK: OK 1/MINUTE left 0 reset 1m0s"},
			{req: one("k=v"), strict: "OK: OVER_LIMIT 1/MINUTE left 0 reset 1m0s"},
		},
	}, {
		name: "B9 quota", why: "over only when all quota descriptors are over",
		rules: windows + "- {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n- {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}\n",
		steps: []step{
			{req: request(d("a=x"), d("b=x")), strict: "OK: OK 1/MINUTE left 0 reset 1m0s; OK 2/MINUTE left 1 reset 1m0s"},
			{req: request(d("a=x"), d("b=x")), strict: "OK: OVER_LIMIT 1/MINUTE left 0 reset 1m0s; OK 2/MINUTE left 0 reset 1m0s"},
			{req: request(d("a=x"), d("b=x")), strict: "OVER_LIMIT: OVER_LIMIT 1/MINUTE left 0 reset 1m0s; OVER_LIMIT 2/MINUTE left 0 reset 1m0s"},
		},
	}, {
		name: "B9 global quota mode", why: "a descriptor without limits always has room",
		rules:   windows + "- {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
		options: envoyrls.Options{QuotaMode: true},
		steps: []step{
			{req: one("a=x"), strict: "OK: OK 1/MINUTE left 0 reset 1m0s"},
			{req: request(d("a=x"), d("none=x")), strict: "OK: OVER_LIMIT 1/MINUTE left 0 reset 1m0s; OK -"},
			{req: one("a=x"), strict: "OVER_LIMIT: OVER_LIMIT 1/MINUTE left 0 reset 1m0s"},
		},
	}, {
		name: "B9 replaces", why: "a replaced limit is none, uncounted; unlimited can replace and not be replaced",
		rules: windows + "- {key: a, rate_limit: {name: slow, unit: minute, requests_per_unit: 5}}\n" +
			"- {key: b, rate_limit: {unit: minute, requests_per_unit: 10, replaces: [{name: slow}]}}\n" +
			"- {key: u, rate_limit: {unlimited: true, replaces: [{name: slow}]}}\n",
		steps: []step{
			{req: one("a=x"), strict: "OK: OK 5/MINUTE slow left 4 reset 1m0s"},
			{req: request(d("a=x"), d("b=x"), d("none=x")), strict: "OK: OK -; OK 10/MINUTE left 9 reset 1m0s; OK -"},
			{req: request(d("b=x"), d("a=x")), strict: "OK: OK 10/MINUTE left 8 reset 1m0s; OK -"},
			{req: request(d("u=x"), d("a=x")), strict: "OK: OK unlimited; OK -"},
			{req: one("a=x"), strict: "OK: OK 5/MINUTE slow left 3 reset 1m0s"},
		},
	}, {
		name: "F01 nested rules", why: "inner and outer nodes each have their own limit; a named one is replaced by another descriptor's",
		rules: windows + "- key: user\n  rate_limit: {unit: minute, requests_per_unit: 2}\n  descriptors:\n" +
			"  - {key: call, rate_limit: {unit: minute, requests_per_unit: 3}}\n  - {key: call, value: banned, rate_limit: {unit: minute, requests_per_unit: 0}}\n" +
			"  - {key: call, value: priced, rate_limit: {name: each, unit: minute, requests_per_unit: 7}}\n  - {key: free, rate_limit: {unlimited: true}}\n" +
			"- {key: plan, value: account, rate_limit: {unit: minute, requests_per_unit: 4, replaces: [{name: each}]}}\n",
		steps: []step{
			{req: request(d("user=x"), d("user=x,call=y"), d("user=x,free=1")), strict: "OK: OK 2/MINUTE left 1 reset 1m0s; OK 3/MINUTE left 2 reset 1m0s; OK unlimited"},
			{req: one("user=x,call=banned"), strict: "OVER_LIMIT: OVER_LIMIT 0/MINUTE left 0 reset 1m0s"},
			{req: request(d("user=x,call=priced"), d("plan=account")), strict: "OK: OK -; OK 4/MINUTE left 3 reset 1m0s"},
			{req: one("user=x,call=priced"), strict: "OK: OK 7/MINUTE each left 6 reset 1m0s"},
		},
	}, {
		name: "F07 two rates of a day", why: "the overall code is over when one descriptor is",
		rules: windows + "- key: kind\n  value: marketing\n  descriptors: [{key: number, rate_limit: {unit: day, requests_per_unit: 2}}]\n- {key: number, rate_limit: {unit: day, requests_per_unit: 100}}\n",
		steps: []step{
			{req: request(hits("kind=marketing,number=1", 2), d("number=1")), strict: "OK: OK 2/DAY left 0 reset 24h0m0s; OK 100/DAY left 99 reset 24h0m0s"},
			{req: request(d("kind=marketing,number=1"), d("number=1")),
				strict: "OVER_LIMIT: OVER_LIMIT 2/DAY left 0 reset 24h0m0s; OK 100/DAY left 99 reset 24h0m0s",
				compat: "OVER_LIMIT: OVER_LIMIT 2/DAY left 0 reset 24h0m0s; OK 100/DAY left 98 reset 24h0m0s"},
		},
	}, {
		name: "B8 override", why: "a limit that the request brings is used instead of the tree, even of unlimited",
		rules: windows + "- {key: k, rate_limit: {unlimited: true}}\n",
		steps: []step{
			{req: request(d("k=v")), strict: "OK: OK unlimited"},
			{req: request(overriding("k=v", 1, envoytype.RateLimitUnit_HOUR)), strict: "OK: OK 1/HOUR left 0 reset 1h0m0s"},
			{req: request(overriding("k=v", 1, envoytype.RateLimitUnit_HOUR)), strict: "OVER_LIMIT: OVER_LIMIT 1/HOUR left 0 reset 1h0m0s"},
			{req: request(overriding("k=w", 1, envoytype.RateLimitUnit_HOUR)), strict: "OK: OK 1/HOUR left 0 reset 1h0m0s"},
		},
	}, {
		name: "B8, X3 overrides of two units", why: "limits of different periods never share a counter",
		rules: windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
		steps: []step{
			{req: request(overriding("k=v", 1, envoytype.RateLimitUnit_SECOND), overriding("k=v", 1, envoytype.RateLimitUnit_MINUTE)),
				strict: "OK: OK 1/SECOND left 0 reset 1s; OK 1/MINUTE left 0 reset 1m0s"},
		},
	}, {
		name: "#2 override with unit_multiplier", why: "30 seconds are said as 30 times a second",
		rules: windows + "- {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
		steps: []step{
			{req: request(multiplied("k=v", 1, envoytype.RateLimitUnit_SECOND, 30)), strict: "OK: OK 1/30 SECOND left 0 reset 30s"},
			{after: 29 * time.Second, req: request(multiplied("k=v", 1, envoytype.RateLimitUnit_SECOND, 30)), strict: "OVER_LIMIT: OVER_LIMIT 1/30 SECOND left 0 reset 1s"},
			{after: time.Second, req: request(multiplied("k=v", 1, envoytype.RateLimitUnit_SECOND, 30)), strict: "OK: OK 1/30 SECOND left 0 reset 30s"},
		},
	}, {
		name: "#3 several limits of a node", why: "the one status tells of the denying limit with the longest wait, else of the one with least remaining",
		rules: windows + "- key: k\n  rate_limits:\n  - {name: per-minute, unit: minute, requests_per_unit: 2}\n  - {name: per-day, unit: day, requests_per_unit: 3}\n",
		steps: []step{
			{req: one("k=v"), strict: "OK: OK 2/MINUTE per-minute left 1 reset 1m0s"},
			{req: one("k=v"), strict: "OK: OK 2/MINUTE per-minute left 0 reset 1m0s"},
			{req: one("k=v"), strict: "OVER_LIMIT: OVER_LIMIT 2/MINUTE per-minute left 0 reset 1m0s"},
			{after: 60 * time.Second, req: one("k=v"),
				strict: "OK: OK 3/DAY per-day left 0 reset 23h59m0s",
				compat: "OVER_LIMIT: OVER_LIMIT 3/DAY per-day left 0 reset 23h59m0s"},
		},
	}, {
		name: "#2 unit_multiplier and week", why: "the answer names the period as the file does",
		rules: windows + "- {key: k, rate_limit: {unit: minute, unit_multiplier: 5, requests_per_unit: 2}}\n- {key: w, rate_limit: {unit: week, requests_per_unit: 2}}\n",
		steps: []step{
			{req: one("k=v"), strict: "OK: OK 2/5 MINUTE left 1 reset 5m0s"},
			{req: one("w=v"), strict: "OK: OK 2/WEEK left 1 reset 168h0m0s", compat: "OK: OK 2/WEEK left 1 reset 72h0m0s"},
		},
	}}
}

// overriding is d with a limit of its own.
func overriding(entries string, n uint32, unit envoytype.RateLimitUnit) *ratelimit.RateLimitDescriptor {
	desc := d(entries)
	desc.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return desc
}

func multiplied(entries string, n uint32, unit envoytype.RateLimitUnit, multiplier uint32) *ratelimit.RateLimitDescriptor {
	desc := overriding(entries, n, unit)
	desc.Limit.UnitMultiplier = wrapperspb.UInt32(multiplier)
	return desc
}
