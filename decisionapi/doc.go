// Package decisionapi answers "may this pass?" over HTTP, for gateways and
// programs that do not speak Go.
//
// [New] makes an [API] from a decider and the resolver that it decides with;
// [API.Register] puts its paths on a mux:
//
//	POST /v1/check         a decision, or several, asked with JSON
//	POST /v1/refund        take back what an allowed check was charged
//	POST /v1/renew         keep the permit of a call that is under way
//	POST /v1/release       give the permit back when the call has ended
//	GET  /v1/authorize     a decision about the request that a proxy has received
//	GET  /v1/openapi.yaml  all of this for machines
//
// # Check
//
// The body holds attributes, as the rules of a gateway match them, or
// descriptors, as Envoy sends them; and cost, peek and domain when the usual will
// not do. The answer is 200 whether or not the request may pass: a denial is an
// answer. Times are numbers of seconds with up to six decimals. Several checks in
// one body ({"checks": [...]}) are decided one after another, each by itself.
//
// # Receipts
//
// An allowed check that charged something carries a receipt. Whoever brings it to
// /v1/refund gets back up to its cost, once, whichever instance is asked:
// instances that share a store need the same [Options.Secret]. A receipt is worth
// something while its charge counts, and a minute more. A decision that was made
// without the shared store (degraded) carries none.
//
// # Permits
//
// Where the rules bound how many calls are under way (concurrency), an allowed check
// carries a permit. Its holder renews it well within its lease (every third of it)
// while the call runs, and releases it once when the call has ended. One that is
// neither renewed nor released ends by itself. When none is free the check is denied
// with a retry_after of 1, and what the other limits charged has been given back.
// A call with a delay holds its permit while it waits.
//
// # Authorize
//
// A proxy asks with the headers of its client's request and says in others which
// request that is. One family of headers is believed, and only from a trusted
// peer: X-Forwarded-Method, -Uri and -Host, which Traefik and Caddy send, or
// X-Original-Method and X-Original-URI, for proxies that send what they are told
// to. The parameter headers of the URL (forwarded or original) says which; without
// it the one that is there, and a request that has both, with different URIs, is
// refused with 403: a client could have written one of them.
//
// The answer is 200, or 429 with Retry-After, or what the rules say; deny_status
// replaces the status for proxies that accept only some (nginx: 403). The header
// Caudal-Status always holds the status that the client should get. Without that
// header no decision was made, and the proxy should let the request pass.
//
// An API is safe for concurrent use.
package decisionapi
