package metrics

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/rule"
)

const twoRules = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 600 }
  - key: api_key
    rate_limit: { unit: minute, requests_per_unit: 100 }
`

func load(t testing.TB, text string) *rule.Domain {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	domain, err := set.Default()
	if err != nil {
		t.Fatal(err)
	}
	return domain
}

func limitOf(t testing.TB, d *rule.Domain, name string) *caudal.Compiled {
	t.Helper()
	for _, l := range d.Limits() {
		if l.Name == name {
			return l.Compiled
		}
	}
	t.Fatalf("no limit %q in %s", name, d.Name())
	return nil
}

// scrape gives the lines of a scrape that begin with the prefix.
func scrape(t *testing.T, m *Metrics, prefix string) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(rec.Body)
	if err != nil || rec.Code != http.StatusOK {
		t.Fatalf("scrape = %d, %v", rec.Code, err)
	}
	var lines []string
	for _, line := range strings.Split(string(body), "\n") {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

func wantLine(t *testing.T, scraped, line string) {
	t.Helper()
	if !strings.Contains("\n"+scraped+"\n", "\n"+line+"\n") {
		t.Errorf("scrape has no line\n%s\nit has\n%s", line, scraped)
	}
}

func TestSeriesOfRulesBeginAtZero(t *testing.T) {
	m := New(Options{})
	m.SetRules(load(t, twoRules), "abc", time.Unix(1_700_000_000, 0))
	got := scrape(t, m, "caudal_")
	for _, outcome := range []string{"allowed", "denied", "shadow_denied", "error_allowed", "error_denied"} {
		wantLine(t, got, fmt.Sprintf(`caudal_decisions_total{domain="shop",outcome=%q,rule="api_key"} 0`, outcome))
	}
	wantLine(t, got, `caudal_config_info{hash="abc"} 1`)
	wantLine(t, got, `caudal_config_loaded_timestamp_seconds 1.7e+09`)
	wantLine(t, got, `caudal_config_loads_total{result="success"} 1`)
	wantLine(t, got, `caudal_config_loads_total{result="failure"} 0`)
	wantLine(t, got, `caudal_config_last_load_success 1`)
}

func TestCountsAreExactFromManyGoroutines(t *testing.T) {
	m := New(Options{})
	d := load(t, twoRules)
	m.SetRules(d, "abc", time.Now())
	limit := limitOf(t, d, "api_key")
	const goroutines, each = 16, 5000
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range each {
				m.Decided("shop", limit, httplimit.Result(i%2))
			}
		})
	}
	wg.Wait()
	got := scrape(t, m, "caudal_decisions_total")
	wantLine(t, got, `caudal_decisions_total{domain="shop",outcome="allowed",rule="api_key"} 40000`)
	wantLine(t, got, `caudal_decisions_total{domain="shop",outcome="denied",rule="api_key"} 40000`)
	wantLine(t, got, `caudal_decisions_total{domain="shop",outcome="denied",rule="remote_address"} 0`)
}

// TestReloadKeepsCountsAndDropsRulesThatAreGone also counts decisions that began
// under the rules before.
func TestReloadKeepsCountsAndDropsRulesThatAreGone(t *testing.T) {
	m := New(Options{})
	before := load(t, twoRules)
	m.SetRules(before, "abc", time.Now())
	oldKey, oldAddress := limitOf(t, before, "api_key"), limitOf(t, before, "remote_address")
	m.Decided("shop", oldKey, httplimit.Allowed)
	m.Decided("shop", oldAddress, httplimit.Denied)

	after := load(t, strings.ReplaceAll(twoRules, "remote_address", "user"))
	m.SetRules(after, "def", time.Now())
	m.Decided("shop", oldKey, httplimit.Allowed)                       // under way
	m.Decided("shop", oldAddress, httplimit.Denied)                    // its rule is gone
	m.Decided("shop", limitOf(t, after, "api_key"), httplimit.Allowed) // new
	got := scrape(t, m, "caudal_")
	wantLine(t, got, `caudal_decisions_total{domain="shop",outcome="allowed",rule="api_key"} 3`)
	wantLine(t, got, `caudal_decisions_total{domain="shop",outcome="denied",rule="user"} 0`)
	wantLine(t, got, `caudal_config_info{hash="def"} 1`)
	for _, gone := range []string{"remote_address", `hash="abc"`} {
		if strings.Contains(got, gone) {
			t.Errorf("scrape after a reload still has %s:\n%s", gone, got)
		}
	}
}

func TestDecidedOfUnknownLimitCountsNothing(t *testing.T) {
	m := New(Options{})
	limit, err := caudal.PerMinute(5).Compile("stranger", "somewhere")
	if err != nil {
		t.Fatal(err)
	}
	m.Decided("nowhere", limit, httplimit.Allowed)
	m.SetRules(load(t, twoRules), "abc", time.Now())
	m.Decided("nowhere", limit, httplimit.Allowed)
	if got := scrape(t, m, "caudal_decisions_total"); strings.Contains(got, "stranger") || strings.Contains(got, " 1") {
		t.Errorf("Decided of a limit of no rule was counted:\n%s", got)
	}
}

func TestFailuresCountByKind(t *testing.T) {
	m := New(Options{})
	m.Failed("shop", &httplimit.PanicError{Value: "boom"})
	m.Failed("shop", fmt.Errorf("%w: gone", caudal.ErrStore))
	m.Failed("shop", fmt.Errorf("%w: gone", caudal.ErrStore))
	m.Failed("shop", errors.New("no key"))
	m.LoadFailed()
	got := scrape(t, m, "caudal_")
	wantLine(t, got, `caudal_store_errors_total{kind="panic"} 1`)
	wantLine(t, got, `caudal_store_errors_total{kind="store"} 2`)
	wantLine(t, got, `caudal_store_errors_total{kind="other"} 1`)
	wantLine(t, got, `caudal_config_loads_total{result="failure"} 1`)
	wantLine(t, got, `caudal_config_last_load_success 0`)
}

func TestStoreFiguresAreReadAtTheScrape(t *testing.T) {
	stats := StoreStats{Keys: 1}
	m := New(Options{Store: func() StoreStats { return stats }})
	wantLine(t, scrape(t, m, "caudal_keys"), "caudal_keys 1")
	stats = StoreStats{Keys: 7, Evicted: 3}
	wantLine(t, scrape(t, m, "caudal_keys"), "caudal_keys 7")
	wantLine(t, scrape(t, m, "caudal_evictions_total"), "caudal_evictions_total 3")
}

func TestProcessAndRuntimeAreShown(t *testing.T) {
	m := New(Options{})
	if scrape(t, m, "go_goroutines") == "" {
		t.Error("scrape has no go_goroutines")
	}
	if scrape(t, m, "process_") == "" {
		t.Error("scrape has no process_ series")
	}
}

type fixed struct{ calls int }

func (f *fixed) Decide(*http.Request) *httplimit.Outcome { f.calls++; return nil }

func (f *fixed) DecideShedding(*http.Request, *httplimit.Shedding) *httplimit.Outcome {
	f.calls++
	return nil
}

func TestTimeMeasuresASample(t *testing.T) {
	every, behind := New(Options{SampleEvery: 1}), new(fixed)
	d := every.Time(behind)
	for range 5 {
		d.Decide(nil)
		d.DecideShedding(nil, nil)
	}
	wantLine(t, scrape(t, every, "caudal_decision_duration_seconds_count"), "caudal_decision_duration_seconds_count 10")
	if behind.calls != 10 {
		t.Errorf("10 decisions asked the decider behind %d times", behind.calls)
	}
	for _, bucket := range []string{"1e-05", "0.0001", "0.001", "0.01"} {
		if scrape(t, every, fmt.Sprintf("caudal_decision_duration_seconds_bucket{le=%q}", bucket)) == "" {
			t.Errorf("no bucket of %s s", bucket)
		}
	}
}

func TestDecisionsOnASharedStoreAreAllTimed(t *testing.T) {
	m := New(Options{Calls: NewStoreCalls()})
	d := m.Time(new(fixed))
	for range 10 {
		d.Decide(nil)
	}
	m.Took(time.Millisecond)
	wantLine(t, scrape(t, m, "caudal_decision_duration_seconds_count"), "caudal_decision_duration_seconds_count 11")
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := New(Options{})
	before, after := load(t, twoRules), load(t, twoRules)
	m.SetRules(before, "abc", time.Now())
	m.SetRules(after, "abc", time.Now())
	for name, l := range map[string]*caudal.Compiled{"before": limitOf(t, before, "api_key"), "in force": limitOf(t, after, "api_key")} {
		if n := testing.AllocsPerRun(100, func() { m.Decided("shop", l, httplimit.Allowed) }); n != 0 {
			t.Errorf("Decided of a limit %s allocates %v times, want 0", name, n)
		}
	}
}

func BenchmarkDecided(b *testing.B) {
	m := New(Options{})
	d := load(b, twoRules)
	m.SetRules(d, "abc", time.Now())
	limit := limitOf(b, d, "api_key")
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			m.Decided("shop", limit, httplimit.Allowed)
		}
	})
	b.Run("all-cores", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				m.Decided("shop", limit, httplimit.Allowed)
			}
		})
	})
}
