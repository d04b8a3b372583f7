package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const twoDomains = `domain: one
descriptors:
- {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}
`

// startRLS runs a server as the reference's environment says, on two files.
func startRLS(t *testing.T, environ ...string) (*fixture, *grpc.ClientConn) {
	t.Helper()
	root := t.TempDir()
	rewriteIn(t, filepath.Join(root, "config"), map[string]string{"one.yaml": twoDomains, "two.yaml": strings.Replace(twoDomains, "one", "two", 1)})
	c := Config{Compat: true, HTTPListen: []string{"127.0.0.1:0"}, AdminListen: "127.0.0.1:0", RLS: RLS{Listen: []string{"127.0.0.1:0"}}}
	if _, err := ReadEnvoyEnv(append(environ, "RUNTIME_ROOT="+root), &c); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, clock: newClock(), log: new(logs)}
	var err error
	if f.Server, err = Start(c, Deps{Logger: slog.New(slog.NewTextHandler(f.log, nil)), Clock: f.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	conn, err := grpc.NewClient(f.GRPCAddrs()[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return f, conn
}

func askRLS(t *testing.T, conn *grpc.ClientConn, domain string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: domain,
		Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.OverallCode.String()
}

// TestReferenceEnvironmentServesWhatItServed: two domains, gRPC, /json,
// /healthcheck, /rlconfig, statistics.
func TestReferenceEnvironmentServesWhatItServed(t *testing.T) {
	f, conn := startRLS(t, "USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "LIMIT_RESPONSE_HEADERS_ENABLED=true")
	for i, want := range []string{"OK", "OVER_LIMIT"} {
		for _, domain := range []string{"one", "two"} {
			if got := askRLS(t, conn, domain); got != want {
				t.Errorf("call %d of domain %s = %s, want %s", i+1, domain, got, want)
			}
		}
	}
	health, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil || health.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health = %v, %v, want SERVING", health, err)
	}
	addrs := f.APIAddrs()
	if len(addrs) != 2 {
		t.Fatalf("addresses = %q, want the API and Prometheus", addrs)
	}
	resp, err := http.Post("http://"+addrs[0]+"/json", "application/json", strings.NewReader(`{"domain":"one","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != 429 || !strings.Contains(string(body), `"responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"1"}`) {
		t.Errorf("POST /json = %d %s, want 429 with headers", resp.StatusCode, body)
	}
	http.DefaultClient.CloseIdleConnections()
	c := client(t, "127.0.0.1")
	do(t, c, "GET", "http://"+addrs[0]+"/healthcheck").want(t, "healthcheck", 200)
	if a := f.readAdmin("/rlconfig"); !strings.Contains(a.body, "two.k: unit=HOUR requests_per_unit=1, shadow_mode: false, quota_mode: false\n") {
		t.Errorf("/rlconfig = %d %s", a.status, a.body)
	}
	for _, body := range []string{f.readAdmin("/metrics").body, do(t, c, "GET", "http://"+addrs[1]+"/metrics").body} {
		for _, line := range []string{`ratelimit_service_rate_limit_over_limit{domain="one",key1="k"} 2`,
			`caudal_decisions_total{domain="two",outcome="denied",rule="k"} 1`, `ratelimit_service_config_load_success 1`} {
			if !strings.Contains(body, line+"\n") {
				t.Errorf("metrics lack %s", line)
			}
		}
	}
}

func rewriteIn(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		rewrite(t, filepath.Join(dir, name), text)
	}
}

func TestReloadOfAllDomains(t *testing.T) {
	f, conn := startRLS(t)
	askRLS(t, conn, "two")
	rewrite(t, filepath.Join(f.config.Rules[0], "two.yaml"), strings.ReplaceAll(strings.Replace(twoDomains, "one", "two", 1), "unit: 1}", "unit: 3}"))
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := askRLS(t, conn, "two"); got != "OK" {
		t.Errorf("after the limit was raised: %s, want OK", got)
	}
	rewrite(t, filepath.Join(f.config.Rules[0], "two.yaml"), "domain: one\n")
	if err := f.Reload(); err == nil {
		t.Error("a duplicate domain was loaded")
	}
	if got := askRLS(t, conn, "two"); got != "OK" {
		t.Errorf("after a bad reload: %s, want OK by the last good rules", got)
	}
}
