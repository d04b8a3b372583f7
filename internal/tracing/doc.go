// Package tracing sends traces by OpenTelemetry: of requests at the gateway, of the
// decisions about them, and of the calls of the store. It is set up by the standard
// environment alone, see [Configured]; where that says nothing, New gives nil and
// nothing is traced, at no cost.
//
// A span holds what the rules say and never what a client sent: no path, host,
// address, user agent or key. The names of spans and the values of attributes are so
// few that no client can make them many.
//
// A collector that is slow or gone costs nobody any time: spans wait in a queue of
// bounded length, and those for which it has no room are dropped.
package tracing
