package serve

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/envoyrls"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
	"github.com/caudal-dev/caudal/internal/metrics"
	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/memstore"
	"github.com/caudal-dev/caudal/redisstore"
	"github.com/caudal-dev/caudal/rule"
)

// counting is both ways to match, in front of one store, with metrics.
type counting struct {
	metrics *metrics.Metrics
	set     *rule.Set
	decider *httplimit.Decider
	service *envoyrls.Service
}

func newCounting(t *testing.T, text string, store caudal.Store, o envoyrls.Options) *counting {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{metrics: metrics.New(metrics.Options{Extra: []string{envoyrls.OverrideName}}), set: set}
	c.metrics.SetDomains(set.Domains(), "abc", time.Now())
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.decider, err = httplimit.NewDecider(domain, store, who, httplimit.Options{Observer: c.metrics}); err != nil {
		t.Fatal(err)
	}
	o.Observer = c.metrics
	if c.service, err = envoyrls.New(set, store, o); err != nil {
		t.Fatal(err)
	}
	return c
}

// http decides about a request with a header X-Key, and says whether it may pass.
func (c *counting) http(key string) bool {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["X-Key"] = []string{key}
	o := c.decider.Decide(r)
	defer o.Release()
	return o.Action == httplimit.Pass
}

// rls decides about descriptors written as rule.ParseDescriptor reads them.
func (c *counting) rls(t *testing.T, domain string, descriptors ...[]rule.Entry) bool {
	t.Helper()
	req := &pb.RateLimitRequest{Domain: domain}
	for _, entries := range descriptors {
		d := new(ratelimit.RateLimitDescriptor)
		for _, e := range entries {
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	answer, err := c.service.ShouldRateLimit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return answer.OverallCode == pb.RateLimitResponse_OK
}

// scrape gives the lines of a scrape that are no comments.
func (c *counting) scrape() []string {
	rec := httptest.NewRecorder()
	c.metrics.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(rec.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// outcomes sums up caudal_decisions_total of all series whose rule begins so.
func (c *counting) outcomes(t *testing.T, name string) map[string]int {
	t.Helper()
	sums := map[string]int{}
	for _, line := range c.scrape() {
		if !strings.HasPrefix(line, "caudal_decisions_total{") || !strings.Contains(line, `rule="`+name) {
			continue
		}
		_, outcome, _ := strings.Cut(line, `outcome="`)
		outcome, _, _ = strings.Cut(outcome, `"`)
		n, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sums[outcome] += n
	}
	return sums
}

const c87Rules = `
domain: shop
descriptors:
  - key: header:X-Key
    shadow_mode: %t
    rate_limit: { name: ten, unit: hour, requests_per_unit: 10, algorithm: %s }
  - key: k
    shadow_mode: %t
    detailed_metric: %t
    rate_limit: { name: rls-ten, unit: hour, requests_per_unit: 10, algorithm: %s }
`

// stores are those to count in: memory, and Redis with denials remembered and not.
func stores(t *testing.T) map[string]caudal.Store {
	server := redistest.Start(t)
	all := map[string]caudal.Store{"memory": memstore.New(memstore.Options{})}
	for name, denials := range map[string]int{"redis": 0, "redis, denials remembered": 1000} {
		store, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{Denials: denials, Prefix: fmt.Sprint("p", denials)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		all[name] = store
	}
	return all
}

// TestC87CountersAddUp: of 100 calls with a limit of 10, what was within and what
// was over are all, in every mode, and the answers agree with them.
func TestC87CountersAddUp(t *testing.T) {
	n := 0
	for name, store := range stores(t) {
		for _, shadow := range []bool{false, true} {
			for _, compat := range []bool{false, true} {
				for _, detailed := range []bool{false, true} {
					for _, algorithm := range []string{"token_bucket", "fixed_window"} {
						n++
						key := fmt.Sprint("key", n)
						t.Run(fmt.Sprintf("%s/shadow %t/compat %t/detailed %t/%s", name, shadow, compat, detailed, algorithm), func(t *testing.T) {
							c := newCounting(t, fmt.Sprintf(c87Rules, shadow, algorithm, shadow, detailed, algorithm), store, envoyrls.Options{Compat: compat})
							c.check(t, "ten", shadow, func() bool { return c.http(key) })
							c.check(t, "rls-ten", shadow, func() bool { return c.rls(t, "shop", []rule.Entry{{Key: "k", Value: key}}) })
						})
					}
				}
			}
		}
	}
}

func (c *counting) check(t *testing.T, name string, shadow bool, ask func() bool) {
	t.Helper()
	passed := 0
	for range 100 {
		if ask() {
			passed++
		}
	}
	got := c.outcomes(t, name)
	over, wantPassed := "denied", 10
	if shadow {
		over, wantPassed = "shadow_denied", 100
	}
	total := 0
	for _, n := range got {
		total += n
	}
	if got["allowed"] != 10 || got[over] != 90 || total != 100 || passed != wantPassed {
		t.Errorf("100 calls of %s: %v, %d passed; want 10 allowed, 90 %s, %d passed", name, got, passed, over, wantPassed)
	}
}

// TestC87DetailedMetricOnEveryLevel: a call counts once, under its values.
func TestC87DetailedMetricOnEveryLevel(t *testing.T) {
	c := newCounting(t, `
domain: shop
descriptors:
  - key: tenant
    detailed_metric: true
    rate_limit: { name: tenant, unit: hour, requests_per_unit: 1 }
    descriptors:
      - key: method
        value_to_metric: true
        rate_limit: { name: method, unit: hour, requests_per_unit: 5 }
`, memstore.New(memstore.Options{}), envoyrls.Options{})
	c.rls(t, "shop", []rule.Entry{{Key: "tenant", Value: "acme"}})
	c.rls(t, "shop", []rule.Entry{{Key: "tenant", Value: "acme"}})
	c.rls(t, "shop", []rule.Entry{{Key: "tenant", Value: "acme"}, {Key: "method", Value: "GET"}})
	got := strings.Join(c.scrape(), "\n")
	for _, line := range []string{
		`caudal_decisions_total{domain="shop",outcome="allowed",rule="tenant:tenant_acme"} 1`,
		`caudal_decisions_total{domain="shop",outcome="denied",rule="tenant:tenant_acme"} 1`,
		`caudal_decisions_total{domain="shop",outcome="allowed",rule="method:tenant.method_GET"} 1`,
		`caudal_decisions_total{domain="shop",outcome="allowed",rule="tenant"} 0`,
	} {
		if !strings.Contains("\n"+got+"\n", "\n"+line+"\n") {
			t.Errorf("scrape has no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// hostile is a value that somebody makes up to break what counts it.
func hostile(i int) string {
	return fmt.Sprintf("%d\"}\n# TYPE evil counter\x00\xff caudal_degraded 1 %s", i, strings.Repeat("x", i%300))
}

// TestC85SeriesDoNotFollowClients: 100 000 distinct values, by attributes and by
// descriptors, of domains that do not exist too.
func TestC85SeriesDoNotFollowClients(t *testing.T) {
	const values = 100_000
	for _, detailed := range []bool{false, true} {
		t.Run(fmt.Sprintf("detailed %t", detailed), func(t *testing.T) {
			store := memstore.New(memstore.Options{MaxKeys: 1000})
			c := newCounting(t, fmt.Sprintf(c87Rules, false, "token_bucket", false, detailed, "token_bucket"), store, envoyrls.Options{})
			c.http("first")
			c.rls(t, "shop", []rule.Entry{{Key: "k", Value: "first"}})
			before := len(c.scrape())
			for i := range values {
				v := hostile(i)
				c.rls(t, "shop", []rule.Entry{{Key: "k", Value: v}})
				if i%4 == 0 {
					c.http(v)
					c.rls(t, "unknown "+v, []rule.Entry{{Key: v, Value: v}})
				}
			}
			c.metrics.Tick(time.Now())
			lines := c.scrape()
			more := len(lines) - before
			if !detailed && more != 0 {
				t.Errorf("%d values added %d series", values, more)
			}
			outcomes := 5
			if most := (metrics.MaxValues + 1) * outcomes; detailed && (more > most || more < most/2) {
				t.Errorf("%d values added %d series, want at most %d", values, more, most)
			}
			if got := c.outcomes(t, "rls-ten"); got["allowed"]+got["denied"] != values+1 {
				t.Errorf("%d calls were counted as %v", values+1, got)
			}
			text := strings.Join(lines, "\n")
			if detailed && !strings.Contains(text, `rule="rls-ten:other"`) {
				t.Error("values beyond the bound are not counted as other")
			}
			for _, line := range lines {
				if strings.HasPrefix(line, "caudal_degraded 1") || strings.HasPrefix(line, "# TYPE evil") {
					t.Errorf("a value has become a line: %q", line)
				}
			}
		})
	}
}

// TestDetailedMetricByAttributes: the values of a request stand in the series.
func TestDetailedMetricByAttributes(t *testing.T) {
	c := newCounting(t, `
domain: shop
descriptors:
  - key: method
    value: GET
    descriptors:
      - key: header:X-Key
        detailed_metric: true
        rate_limit: { name: keys, unit: hour, requests_per_unit: 1 }
`, memstore.New(memstore.Options{}), envoyrls.Options{})
	c.http("a")
	c.http("a")
	c.http("b")
	got := "\n" + strings.Join(c.scrape(), "\n") + "\n"
	for _, line := range []string{
		`caudal_decisions_total{domain="shop",outcome="allowed",rule="keys:method_GET.header_X-Key_a"} 1`,
		`caudal_decisions_total{domain="shop",outcome="denied",rule="keys:method_GET.header_X-Key_a"} 1`,
		`caudal_decisions_total{domain="shop",outcome="allowed",rule="keys:method_GET.header_X-Key_b"} 1`,
	} {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("scrape has no line %s; it has\n%s", line, got)
		}
	}
}

// TestReloadMakesRoomForOtherValues: values of rules that are gone take no room, and
// what is known of rules that stay is kept.
func TestReloadMakesRoomForOtherValues(t *testing.T) {
	c := newCounting(t, fmt.Sprintf(c87Rules, false, "token_bucket", false, true, "token_bucket"), memstore.New(memstore.Options{}), envoyrls.Options{})
	for i := range metrics.MaxValues + 10 {
		c.rls(t, "shop", []rule.Entry{{Key: "k", Value: fmt.Sprint("v", i)}})
	}
	for range 20 {
		c.http("denied")
	}
	next, _, err := rule.Parse("rules.yaml", []byte(strings.ReplaceAll(fmt.Sprintf(c87Rules, false, "token_bucket", false, true, "token_bucket"), "rls-ten", "other-ten")))
	if err != nil {
		t.Fatal(err)
	}
	c.metrics.SetDomains(next.Domains(), "def", time.Now())
	c.service.SetRules(next)
	c.rls(t, "shop", []rule.Entry{{Key: "k", Value: "w"}})
	got := strings.Join(c.scrape(), "\n")
	if !strings.Contains(got, `outcome="allowed",rule="other-ten:k_w"} 1`) || strings.Contains(got, "rls-ten") {
		t.Errorf("after a reload the values of rules that are gone still take the room:\n%.2000s", got)
	}
	top := c.metrics.Denied("shop", "ten", 1)
	if len(top.Entries) != 1 || top.Entries[0].Count != 10 || top.Entries[0].Hash != identity.HashKey("denied").String() {
		t.Errorf("most denied after a reload = %+v, want 10 of the one key", top)
	}
}
