package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/caudal-dev/caudal/httplimit"
)

// Options are what a Tracing is told. The zero value is usable.
type Options struct {
	// Version is that of the service.
	Version string
	// Store is the kind of the store, such as memory or redis.
	Store string
	// Logger is told that traces are on, and when spans cannot be sent, at most once
	// a minute. Default slog.Default().
	Logger *slog.Logger
}

// Tracing traces. It is safe for concurrent use. A nil one traces nothing.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	context  propagation.TraceContext
	store    attribute.KeyValue
}

var _ httplimit.Tracer = (*Tracing)(nil)

const scope = "github.com/caudal-dev/caudal"

// New makes a Tracing as the environment says, nil when it asks for none. It does
// not wait for the collector. Where several are made, the failures of all are told
// to the Logger of the last.
func New(o Options) (*Tracing, error) {
	how, err := configured(os.Getenv)
	if how == off || err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	quiet(o.Logger)
	ctx := context.Background()
	var exporter sdk.SpanExporter
	if how == overGRPC {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("traces cannot be sent: %w", err)
	}
	// What the environment says about the resource comes later and so wins.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "caudal"), attribute.String("service.version", o.Version)),
		resource.WithFromEnv())
	if err != nil {
		o.Logger.Warn("traces: the resource is not as the environment says", "error", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about), sdk.WithRawSpanLimits(spanLimits))
	protocol := "http/protobuf"
	if how == overGRPC {
		protocol = "grpc"
	}
	o.Logger.Info("traces are on", "protocol", protocol) // not where to: the address may hold a secret
	return &Tracing{provider: provider, tracer: provider.Tracer(scope), store: attribute.String("caudal.store", o.Store)}, nil
}

// spanLimits bound what a span holds; ours hold far less.
var spanLimits = sdk.SpanLimits{AttributeValueLengthLimit: 256, AttributeCountLimit: 32, EventCountLimit: 8, LinkCountLimit: 1,
	AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8}

// Close sends what is left, until ctx ends. What the collector has not taken by then
// is lost. No spans may be begun after it.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// tellEvery is how often a collector that is gone makes a line of log.
const tellEvery = time.Minute

// quiet leads what the libraries have to say into the log: seldom, and without the
// values that they could not read, which may be secrets.
func quiet(log *slog.Logger) {
	var told atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now, last := time.Now().Unix(), told.Load()
		if now-last < int64(tellEvery/time.Second) || !told.CompareAndSwap(last, now) {
			return
		}
		log.Warn("traces cannot be sent or are not set up right", "error", err)
	}))
	otel.SetLogger(logr.FromSlogHandler(messages{log}))
}

// messages is a slog.Handler that passes on warnings and errors without their
// attributes.
type messages struct{ log *slog.Logger }

// Enabled takes what is worth a warning.
func (messages) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle writes the message.
func (m messages) Handle(ctx context.Context, r slog.Record) error {
	m.log.Log(ctx, r.Level, "traces: "+r.Message)
	return nil
}

// WithAttrs leaves them out.
func (m messages) WithAttrs([]slog.Attr) slog.Handler { return m }

// WithGroup leaves it out.
func (m messages) WithGroup(string) slog.Handler { return m }
