package serve

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// spans is a collector: it keeps what it is sent.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu       sync.Mutex
	all      []*otlp.Span
	resource map[string]string
}

// Export takes spans over gRPC.
func (s *spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range r.ResourceSpans {
		s.resource = attributesOf(of.Resource.GetAttributes())
		for _, in := range of.ScopeSpans {
			s.all = append(s.all, in.Spans...)
		}
	}
	return new(collector.ExportTraceServiceResponse), nil
}

// ServeHTTP takes spans over HTTP.
func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var message collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &message)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	answer, _ := s.Export(r.Context(), &message)
	body, _ = proto.Marshal(answer)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(body)
}

// attributesOf gives attributes as text.
func attributesOf(all []*common.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			texts[a.Key] = v.StringValue
		case *common.AnyValue_BoolValue:
			texts[a.Key] = strconv.FormatBool(v.BoolValue)
		case *common.AnyValue_IntValue:
			texts[a.Key] = strconv.FormatInt(v.IntValue, 10)
		}
	}
	return texts
}

// named gives the one span of a name.
func (s *spans) named(t *testing.T, name string) *otlp.Span {
	t.Helper()
	all := s.allNamed(name)
	if len(all) != 1 {
		t.Fatalf("%d spans %q, want 1; there are %v", len(all), name, s.names())
	}
	return all[0]
}

func (s *spans) allNamed(name string) (found []*otlp.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

func (s *spans) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		names = append(names, span.Name)
	}
	return names
}

// cleanEnvironment unsets what would say something about traces.
func cleanEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
		"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"} {
		t.Setenv(name, "")
	}
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")       // milliseconds
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "15000") // milliseconds
}

// collectHTTP starts a collector and names it to whoever starts next.
func collectHTTP(t *testing.T) *spans {
	t.Helper()
	cleanEnvironment(t)
	s := new(spans)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return s
}

func collectGRPC(t *testing.T) *spans {
	t.Helper()
	cleanEnvironment(t)
	s := new(spans)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ln) }()
	t.Cleanup(func() { server.Stop(); <-done })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+ln.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	return s
}

// wantChild fails unless a span is of the trace and has the parent, both in hex.
func wantChild(t *testing.T, span *otlp.Span, trace, parent string) {
	t.Helper()
	if got := hex.EncodeToString(span.TraceId); got != trace {
		t.Errorf("span %q is of trace %s, want %s", span.Name, got, trace)
	}
	if got := hex.EncodeToString(span.ParentSpanId); got != parent {
		t.Errorf("span %q has parent %s, want %s", span.Name, got, parent)
	}
}

// wantAttributes fails unless a span has these attributes: name, value, name, value.
func wantAttributes(t *testing.T, span *otlp.Span, want ...string) {
	t.Helper()
	got := attributesOf(span.Attributes)
	for i := 0; i < len(want); i += 2 {
		if got[want[i]] != want[i+1] {
			t.Errorf("span %q: %s = %q, want %q; all are %v", span.Name, want[i], got[want[i]], want[i+1], got)
		}
	}
}
