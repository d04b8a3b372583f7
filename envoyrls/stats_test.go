package envoyrls_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/caudal-dev/caudal/envoyrls"
)

// scrape gives the lines of an exposition that begin so, without those at 0.
func scrape(t *testing.T, c prometheus.Collector, prefix string) []string {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, prefix) && !strings.HasSuffix(line, " 0") {
			lines = append(lines, strings.TrimPrefix(line, prefix))
		}
	}
	return lines
}

func newStats(t *testing.T) *envoyrls.Stats {
	t.Helper()
	s, err := envoyrls.NewStats(0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const ruleSeries = "ratelimit_service_rate_limit_"

// TestB15Statistics: all count hits; X6: nothing wraps.
func TestB15Statistics(t *testing.T) {
	stats := newStats(t)
	f := start(t, windows+"- key: k\n  value: v\n  descriptors: [{key: s, rate_limit: {unit: hour, requests_per_unit: 10}}]\n"+
		"- {key: sh, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n- {key: u, rate_limit: {unlimited: true}}\n", envoyrls.Options{Compat: true, Stats: stats}, nil)
	f.ask(request(hits("k=v,s=1", 7)))  // within, not near
	f.ask(request(hits("k=v,s=1", 3)))  // within, two of it near
	f.ask(request(hits("k=v,s=1", 5)))  // over
	f.ask(request(hits("k=v,s=1", 0)))  // a peek
	f.ask(request(back("k=v,s=1", 15))) // given back
	f.ask(request(d("sh=x")))
	f.ask(request(d("sh=x"), hits("u=x", 4)))
	f.ask(&pb.RateLimitRequest{Domain: "unknown", Descriptors: one("k=v").Descriptors})
	if _, err := f.send(&pb.RateLimitRequest{Domain: "d"}); err == nil {
		t.Error("a request without descriptors was answered")
	}
	want := []string{
		`domain_not_found{domain="other"} 1`,
		`near_limit{domain="d",key1="k_v",key2="s"} 2`,
		`near_limit{domain="d",key1="sh"} 1`, // 80 % of 1 is 0, as there
		`over_limit{domain="d",key1="k_v",key2="s"} 5`,
		`over_limit{domain="d",key1="sh"} 1`,
		`shadow_mode{domain="d",key1="sh"} 1`,
		`total_hits{domain="d",key1="k_v",key2="s"} 15`,
		`total_hits{domain="d",key1="sh"} 2`,
		`total_hits{domain="d",key1="u"} 4`, // X5
		`total_negative_hits{domain="d",key1="k_v",key2="s"} 15`,
		`within_limit{domain="d",key1="k_v",key2="s"} 10`,
		`within_limit{domain="d",key1="sh"} 1`,
		`within_limit{domain="d",key1="u"} 4`,
	}
	got := scrape(t, stats, ruleSeries)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("statistics\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	for _, want := range []string{`ratelimit_service_should_rate_limit_error{err_type="service_error"} 1`,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 9`,
		`ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 9`} {
		if !slices.Contains(scrape(t, stats, ""), want) {
			t.Errorf("no line %s among\n%s", want, strings.Join(scrape(t, stats, ""), "\n"))
		}
	}
}

// TestB15StatisticsFollowWhatWasConsumed: #808 in the reference.
func TestB15StatisticsFollowWhatWasConsumed(t *testing.T) {
	stats := newStats(t)
	f := start(t, windows+"- {key: a, rate_limit: {unit: hour, requests_per_unit: 9}}\n- {key: z, rate_limit: {unit: hour, requests_per_unit: 0}}\n",
		envoyrls.Options{Stats: stats}, nil)
	f.ask(request(d("a=x"), d("z=x")))
	want := []string{`over_limit{domain="d",key1="z"} 1`, `total_hits{domain="d",key1="z"} 1`}
	if got := scrape(t, stats, ruleSeries); !slices.Equal(got, want) {
		t.Errorf("statistics = %q, want %q", got, want)
	}
}

// TestC85SeriesAreBounded: overrides make one series for all (#6), rules that are
// counted by value at most MaxSeries.
func TestC85SeriesAreBounded(t *testing.T) {
	stats := newStats(t)
	f := start(t, windows+"- {key: ip, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}\n", envoyrls.Options{Stats: stats}, nil)
	const more = 50
	for i := range envoyrls.MaxSeries + more {
		req := request(d(fmt.Sprintf("ip=192.0.2.%d", i)), overriding(fmt.Sprintf("k=%d", i), uint32(i), envoytype.RateLimitUnit_DAY))
		if _, err := f.service.ShouldRateLimit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	lines := scrape(t, stats, ruleSeries+"total_hits")
	if len(lines) > envoyrls.MaxSeries+2 {
		t.Errorf("%d series, want at most %d by value, one for the rest and one for overrides", len(lines), envoyrls.MaxSeries)
	}
	for _, want := range []string{`{domain="d",key1="ip_192_0_2_1"} 1`, fmt.Sprintf(`{domain="d",key1="other"} %d`, more),
		fmt.Sprintf(`{domain="d",key1="override"} %d`, envoyrls.MaxSeries+more)} {
		if !slices.Contains(lines, want) {
			t.Errorf("no series %s among %d", want, len(lines))
		}
	}
}

func TestB15SeriesFollowTheRules(t *testing.T) {
	stats := newStats(t)
	rules := func(key string) string {
		return windows + "- {key: stays, rate_limit: {unit: hour, requests_per_unit: 9}}\n- {key: " + key + ", rate_limit: {unit: hour, requests_per_unit: 9}}\n"
	}
	f := start(t, rules("goes"), envoyrls.Options{Stats: stats}, nil)
	f.ask(request(d("stays=x"), d("goes=x")))
	f.service.SetRules(parse(t, false, rules("comes")))
	f.ask(request(d("stays=x"), d("comes=x")))
	want := []string{`{domain="d",key1="comes"} 1`, `{domain="d",key1="stays"} 2`}
	if got := scrape(t, stats, ruleSeries+"total_hits"); !slices.Equal(got, want) {
		t.Errorf("series after a reload = %q, want %q", got, want)
	}
	stats.Loaded(true)
	stats.Loaded(false)
	if got := scrape(t, stats, "ratelimit_service_config_load_"); !slices.Equal(got, []string{"error 1", "success 1"}) {
		t.Errorf("loads = %q, want one of each", got)
	}
}
