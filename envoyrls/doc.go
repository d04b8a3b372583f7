// Package envoyrls answers Envoy's rate limit protocol
// (envoy.service.ratelimit.v3) by rules: a drop-in for Envoy's reference rate
// limit service.
//
// Start with [New], which makes a [Service] from rules and a store, and
// [NewServer], which puts it on a gRPC server with health, reflection and TLS:
//
//	set, _, err := rule.Load("/etc/caudal/rules")
//	service, err := envoyrls.New(set, memstore.New(memstore.Options{}), envoyrls.Options{})
//	server, err := envoyrls.NewServer(service, envoyrls.ServerOptions{})
//	err = server.Serve(listener)
//
// [Service.JSON], [Service.Healthcheck] and [Service.Config] are the reference's
// HTTP endpoints.
//
// # What is charged
//
// A request asks about a list of descriptors. By default all limits that they
// match are checked together: all are charged, or, when one denies, none is. With
// [Options.Compat] each descriptor is charged by itself and fixed windows count
// denied hits too, as the reference does; docs/envoy.md lists every difference
// that is left.
//
// Hits are those of the descriptor, where 0 is a peek, else those of the request,
// where 0 is 1. Negative hits give back, never below nothing used; they are
// always OK, and are given back whatever becomes of the other descriptors.
//
// # Answers that take time
//
// The protocol only knows yes and no. When a leaky bucket gives a call its turn
// later, the answer is held until then, if the turn comes at least 5 ms before the
// caller's deadline (or, without one, within [Options.MaxHold]). Otherwise the call
// is denied at once and charged nothing. A caller that hangs up gives its turn
// back.
//
// # Errors
//
// InvalidArgument for a request that nobody could answer; it says what is wrong.
// Unavailable when no decision was made, or a limit says to deny without its
// store. A panic of the limiter passes the request: it never takes down what it
// protects.
package envoyrls
