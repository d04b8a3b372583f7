package tracing

import (
	"fmt"
	"os"
	"strings"
)

// The standard names that this package reads itself; the libraries read the others,
// such as OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and OTEL_EXPORTER_OTLP_HEADERS.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// protocol is how spans are sent.
type protocol uint8

const (
	off protocol = iota
	overHTTP
	overGRPC
)

// Configured reports whether the environment asks for traces: it names an endpoint
// for OTLP, or the exporter otlp, whose endpoint is on this machine then. It is an
// error to name a protocol or exporter that there is not.
func Configured() (bool, error) {
	p, err := configured(os.Getenv)
	return p != off, err
}

func configured(getenv func(string) string) (protocol, error) {
	get := func(name string) string { return strings.ToLower(strings.TrimSpace(getenv(name))) }
	exporter := get(envExporter)
	switch {
	case get(envDisabled) == "true", exporter == "none":
		return off, nil
	case exporter != "" && exporter != "otlp":
		return off, fmt.Errorf("%s is %.40q: use otlp or none", envExporter, exporter)
	case exporter == "" && get(envEndpoint) == "" && get(envTracesEndpoint) == "":
		return off, nil
	}
	name := envTracesProtocol
	if get(name) == "" {
		name = envProtocol
	}
	switch p := get(name); p {
	case "", "http/protobuf":
		return overHTTP, nil
	case "grpc":
		return overGRPC, nil
	default:
		return off, fmt.Errorf("%s is %.40q: use grpc or http/protobuf", name, p)
	}
}
