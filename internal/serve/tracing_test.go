package serve

import (
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	parentID    = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + parentID + "-01"
)

const perAddress = `domain: shop
descriptors:
- key: remote_address
  rate_limit: {name: per_address, unit: hour, requests_per_unit: 1}
`

// headersAtUpstream starts an upstream that keeps the headers it was asked with.
func headersAtUpstream(t *testing.T, c *Config) <-chan http.Header {
	t.Helper()
	got := make(chan http.Header, 16)
	c.Upstream = upstream(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Clone() }))
	return got
}

var contextHeaders = []string{"Traceparent", traceparent, "Tracestate", "vendor=1", "Baggage", "user=alice"}

// TestTraceOfTheGateway: the request, the decision and the call of the store are one
// trace with the client's, and the upstream gets the gateway's span as parent.
func TestTraceOfTheGateway(t *testing.T) {
	collected := collectHTTP(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	var c Config
	got := headersAtUpstream(t, &c)
	f := start(t, perAddress, c, Deps{Version: "1.2.3"})
	f.ask(client(t, "127.0.0.1"), http.MethodGet, "/secret?token=t", contextHeaders...).want(t, "a request", http.StatusOK)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	request, decision, store := collected.named(t, "GET"), collected.named(t, "caudal.decide"), collected.named(t, "caudal.store take")
	wantChild(t, request, traceID, parentID)
	wantChild(t, decision, traceID, hex.EncodeToString(request.SpanId))
	wantChild(t, store, traceID, hex.EncodeToString(decision.SpanId))
	wantAttributes(t, request, "http.request.method", "GET", "http.response.status_code", "200", "caudal.outcome", "allowed")
	wantAttributes(t, decision, "caudal.domain", "shop", "caudal.rule", "per_address", "caudal.outcome", "allowed",
		"caudal.degraded", "false", "caudal.store", "memory")
	wantAttributes(t, store, "caudal.store", "memory", "caudal.limits", "1")
	if request.Kind != otlp.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's span is of kind %v, want server", request.Kind)
	}
	h := <-got
	if want := "00-" + traceID + "-" + hex.EncodeToString(request.SpanId) + "-01"; h.Get("Traceparent") != want {
		t.Errorf("the upstream got traceparent %q, want %q", h.Get("Traceparent"), want)
	}
	if h.Get("Tracestate") != "vendor=1" || h.Get("Baggage") != "user=alice" {
		t.Errorf("the upstream got tracestate %q, baggage %q; want them as sent", h.Get("Tracestate"), h.Get("Baggage"))
	}
	for name, want := range map[string]string{"service.name": "caudal", "service.version": "1.2.3", "deployment.environment": "test"} {
		if collected.resource[name] != want {
			t.Errorf("resource: %s = %q, want %q", name, collected.resource[name], want)
		}
	}
	wantNoSecrets(t, collected, "secret", "token", "127.0.0.1", "alice")
}

// wantNoSecrets fails if a span holds one of the texts.
func wantNoSecrets(t *testing.T, collected *spans, secrets ...string) {
	t.Helper()
	collected.mu.Lock()
	defer collected.mu.Unlock()
	for _, span := range collected.all {
		for _, secret := range secrets {
			if strings.Contains(span.String(), secret) {
				t.Errorf("span %q holds %q: %v", span.Name, secret, span)
			}
		}
	}
}

// TestTraceOfADenial is sent over gRPC, by a service with a name of its own.
func TestTraceOfADenial(t *testing.T) {
	collected := collectGRPC(t)
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	f := start(t, perAddress, Config{}, Deps{})
	c := client(t, "127.0.0.1")
	f.ask(c, http.MethodGet, "/").want(t, "the first", http.StatusOK)
	f.ask(c, "BREW", "/", contextHeaders...).want(t, "the second", http.StatusTooManyRequests)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantAttributes(t, collected.named(t, "HTTP"), "caudal.outcome", "denied", "caudal.rule", "per_address", "http.response.status_code", "429")
	if collected.resource["service.name"] != "edge" {
		t.Errorf("service.name = %q, want edge", collected.resource["service.name"])
	}
	denied := 0
	for _, span := range collected.allNamed("caudal.decide") {
		if hex.EncodeToString(span.TraceId) == traceID {
			denied++
			wantAttributes(t, span, "caudal.outcome", "denied", "caudal.rule", "per_address")
		}
	}
	if denied != 1 {
		t.Errorf("%d decisions in the trace of the denied request, want 1: %v", denied, collected.names())
	}
}

// TestTracesOfThoseWhoAsk: Envoy's protocol, over gRPC and HTTP, and the decision
// API take the parent from whoever asks.
func TestTracesOfThoseWhoAsk(t *testing.T) {
	collected := collectHTTP(t)
	f := start(t, perAddress, Config{HTTPListen: []string{"127.0.0.1:0"}, RLS: RLS{Listen: []string{"127.0.0.1:0"}}}, Deps{})
	conn, err := grpc.NewClient(f.GRPCAddrs()[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent)
	answer, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "shop",
		Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.7"}}}}})
	if err != nil || answer.OverallCode != pb.RateLimitResponse_OK {
		t.Fatalf("ShouldRateLimit = %v, %v; want OK", answer, err)
	}
	url := "http://" + f.APIAddrs()[0]
	do(t, client(t, "127.0.0.1"), http.MethodHead, url+"/v1/authorize", "Traceparent", traceparent, "X-Forwarded-Uri", "/x").want(t, "authorize", http.StatusOK)
	do(t, client(t, "127.0.0.1"), http.MethodGet, url+"/healthcheck").want(t, "healthcheck", http.StatusOK)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	asked := map[string]bool{}
	for _, name := range []string{"envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", http.MethodHead} {
		span := collected.named(t, name)
		wantChild(t, span, traceID, parentID)
		asked[string(span.SpanId)] = true
	}
	decisions := collected.allNamed("caudal.decide")
	for _, span := range decisions {
		if !asked[string(span.ParentSpanId)] {
			t.Errorf("a decision has parent %x, want the span of who asked", span.ParentSpanId)
		}
		wantAttributes(t, span, "caudal.domain", "shop", "caudal.rule", "per_address", "caudal.outcome", "allowed")
	}
	if len(decisions) != 2 || len(collected.allNamed(http.MethodGet)) != 0 {
		t.Errorf("spans are %v, want 2 decisions and nothing of healthcheck", collected.names())
	}
	wantNoSecrets(t, collected, "192.0.2.7", "127.0.0.1")
}

// TestNothingIsTracedUnlessConfigured: without an endpoint, or turned off, the
// context goes through as it came and nothing stands in the way of requests.
func TestNothingIsTracedUnlessConfigured(t *testing.T) {
	for name, environ := range map[string][]string{
		"nothing":  nil,
		"disabled": {"OTEL_SDK_DISABLED", "true"},
		"none":     {"OTEL_TRACES_EXPORTER", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			collected := collectHTTP(t)
			if environ == nil {
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
			} else {
				t.Setenv(environ[0], environ[1])
			}
			var c Config
			got := headersAtUpstream(t, &c)
			f := start(t, perAddress, c, Deps{})
			f.ask(client(t, "127.0.0.1"), http.MethodGet, "/", contextHeaders...).want(t, "a request", http.StatusOK)
			for h, i := <-got, 0; i < len(contextHeaders); i += 2 {
				if v := h[contextHeaders[i]]; len(v) != 1 || v[0] != contextHeaders[i+1] {
					t.Errorf("the upstream got %s %q, want %q as sent", contextHeaders[i], v, contextHeaders[i+1])
				}
			}
			next := http.NewServeMux()
			if f.tracing != nil || f.tracer() != nil || f.noteDecision() != nil || f.observe(next) != http.Handler(next) ||
				f.traceAsked(next) != http.Handler(next) || f.traced(f.store) != f.store {
				t.Error("something stands in the way of requests although nothing is traced")
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if names := collected.names(); len(names) > 0 {
				t.Errorf("the collector got %v, want nothing", names)
			}
		})
	}
}

// TestSamplerOfTheEnvironment: a parent that is not sampled is not, nor what comes
// after it, and the upstream is told.
func TestSamplerOfTheEnvironment(t *testing.T) {
	collected := collectHTTP(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	var c Config
	got := headersAtUpstream(t, &c)
	f := start(t, perAddress, c, Deps{})
	f.ask(client(t, "127.0.0.1"), http.MethodGet, "/").want(t, "a request", http.StatusOK)
	if h := <-got; !strings.HasSuffix(h.Get("Traceparent"), "-00") {
		t.Errorf("the upstream got traceparent %q, want one that is not sampled", h.Get("Traceparent"))
	}
	f.ask(client(t, "127.0.0.2"), http.MethodGet, "/", contextHeaders...).want(t, "a sampled request", http.StatusOK)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantChild(t, collected.named(t, "GET"), traceID, parentID)
}

// TestADeadCollectorSlowsNobody: one that takes connections and says nothing.
func TestADeadCollectorSlowsNobody(t *testing.T) {
	cleanEnvironment(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0") // connections wait in its backlog
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+ln.Addr().String())
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "2000") // milliseconds
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2000")
	f := start(t, strings.Replace(perAddress, "requests_per_unit: 1", "requests_per_unit: 1000", 1), Config{ShutdownTimeout: 10 * time.Second}, Deps{})
	c := client(t, "127.0.0.1")
	begin := time.Now()
	for range 200 { // far more spans than the queue holds
		f.ask(c, http.MethodGet, "/").want(t, "a request", http.StatusOK)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("200 requests beside a dead collector took %s", took)
	}
	begin = time.Now()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("Close took %s, want no more than flushing may take", took)
	}
}

// TestWrongExporterIsRefused at the start: traces that somebody waits for would not
// come.
func TestWrongExporterIsRefused(t *testing.T) {
	collectHTTP(t)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	c := Config{Limit: "1/s", Upstream: upstream(t, http.NotFoundHandler()), Listen: "127.0.0.1:0", AdminListen: Off}
	s, err := Start(c, Deps{})
	if mistake := new(Error); !errors.As(err, &mistake) || !strings.Contains(mistake.What, "http/protobuf") {
		t.Errorf("Start = %v, want an *Error that names the protocols", err)
	}
	if err == nil {
		_ = s.Close()
	}
}
