package tracing

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/caudal-dev/caudal"
	"github.com/caudal-dev/caudal/memstore"
)

func TestConfigured(t *testing.T) {
	for _, test := range []struct {
		environ string // NAME=value, separated by spaces
		want    protocol
		wrong   string // what the error must name
	}{
		{"", off, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", overHTTP, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318", overHTTP, ""},
		{"OTEL_TRACES_EXPORTER=otlp", overHTTP, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc", overGRPC, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", overHTTP, ""},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_SERVICE_NAME=x OTEL_TRACES_SAMPLER=always_on", off, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_EXPORTER=none", off, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_SDK_DISABLED=TRUE", off, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_SDK_DISABLED=false", overHTTP, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_EXPORTER=zipkin", off, "OTEL_TRACES_EXPORTER"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_PROTOCOL=http/json", off, "OTEL_EXPORTER_OTLP_PROTOCOL"},
	} {
		environ := map[string]string{}
		for pair := range strings.FieldsSeq(test.environ) {
			name, value, _ := strings.Cut(pair, "=")
			environ[name] = value
		}
		got, err := configured(func(name string) string { return environ[name] })
		if got != test.want || (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("configured(%s) = %d, %v; want %d and an error that names %q", test.environ, got, err, test.want, test.wrong)
		}
	}
}

// recording gives a Tracing whose spans are kept here.
func recording(t *testing.T) (*Tracing, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return &Tracing{provider: provider, tracer: provider.Tracer(scope)}, recorder
}

const (
	trace1, span1 = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	parent1       = "00-" + trace1 + "-" + span1 + "-01"
)

// TestContextOfARequest: what W3C says about headers that are odd or stand twice.
func TestContextOfARequest(t *testing.T) {
	for _, test := range []struct {
		name            string
		parents, states []string
		trace, state    string
	}{
		{"none", nil, nil, "", ""},
		{"one", []string{parent1}, []string{"a=1"}, trace1, "a=1"},
		{"a list in parts", []string{parent1}, []string{"a=1", "b=2"}, trace1, "a=1,b=2"},
		{"two parents", []string{parent1, parent1}, []string{"a=1"}, "", ""},
		{"no context", []string{"hello"}, []string{"a=1"}, "", ""},
		{"state alone", nil, []string{"a=1"}, "", ""},
		{"a state that is none", []string{parent1}, []string{"===="}, trace1, ""},
	} {
		tr, recorder := recording(t)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["Traceparent"], r.Header["Tracestate"] = test.parents, test.states
		r.Header["Baggage"] = []string{"k=v", "k=w"}
		out := tr.Request(r)
		tr.EndRequest(out.Context(), http.StatusOK, nil)
		span := recorder.Ended()[0]
		id := span.SpanContext().TraceID().String()
		if test.trace != "" && id != test.trace || test.trace == "" && id == trace1 {
			t.Errorf("%s: trace %s, want %q, or a new one where that is empty", test.name, id, test.trace)
		}
		if got, want := out.Header.Get("Traceparent"), "00-"+id+"-"+span.SpanContext().SpanID().String()+"-01"; got != want {
			t.Errorf("%s: traceparent %q goes on, want %q", test.name, got, want)
		}
		if got := out.Header.Get("Tracestate"); got != test.state {
			t.Errorf("%s: tracestate %q goes on, want %q", test.name, got, test.state)
		}
		if got := out.Header["Baggage"]; len(got) != 2 {
			t.Errorf("%s: baggage %q goes on, want it as sent", test.name, got)
		}
		if len(r.Header["Traceparent"]) != len(test.parents) {
			t.Errorf("%s: the request that came was changed: %q", test.name, r.Header)
		}
		if ID(out) != id {
			t.Errorf("%s: ID = %q, want %q", test.name, ID(out), id)
		}
	}
}

// TestIDWithoutTraces is what the client sent, if that is one.
func TestIDWithoutTraces(t *testing.T) {
	for parent, want := range map[string]string{parent1: trace1, "": "", "00-" + strings.Repeat("0", 32) + "-" + span1 + "-01": "", "<script>": ""} {
		r := &http.Request{Header: http.Header{"Traceparent": {parent}}}
		if got := ID(r); got != want {
			t.Errorf("ID with traceparent %q = %q, want %q", parent, got, want)
		}
	}
}

// lesser is a store that cannot give back.
type lesser struct{ caudal.Store }

// failing is a store whose errors name hosts and keys.
type failing struct{ *memstore.Store }

func (failing) Take(context.Context, caudal.Instant, []caudal.Call, []caudal.Decision) error {
	return errors.New("dial tcp 10.0.0.7: key user:alice")
}

func TestStoreKeepsItsAbilities(t *testing.T) {
	tr, _ := recording(t)
	store := memstore.New(memstore.Options{})
	defer store.Close()
	traced := tr.Store(store)
	if _, ok := traced.(caudal.Refunder); !ok || traced == caudal.Store(store) {
		t.Errorf("Store gives %T, want one that is traced and refunds", traced)
	}
	if _, ok := traced.(caudal.PermitStore); !ok {
		t.Errorf("Store gives %T, want one that gives permits", traced)
	}
	less := lesser{store}
	if got := tr.Store(less); got != caudal.Store(less) {
		t.Errorf("Store of one that cannot refund gives %T, want it as it is", got)
	}
	if got := (*Tracing)(nil).Store(store); got != caudal.Store(store) {
		t.Errorf("Store without traces gives %T, want it as it is", got)
	}
}

// TestErrorsOfTheStoreAreNotTold: they may name hosts and keys.
func TestErrorsOfTheStoreAreNotTold(t *testing.T) {
	tr, recorder := recording(t)
	store := memstore.New(memstore.Options{})
	defer store.Close()
	if err := tr.Store(failing{store}).Take(t.Context(), caudal.Instant{}, nil, nil); err == nil {
		t.Fatal("Take = nil, want the store's error")
	}
	span := recorder.Ended()[0]
	if s := span.Status(); s.Description != "the store failed" || len(span.Events()) > 0 {
		t.Errorf("the span says %+v, %v; want that the store failed and no more", s, span.Events())
	}
}
