// Package identity says who is asking: it turns an HTTP request into the
// attributes that rules match by.
//
// Most programs need [New], which makes a [Resolver] from [Options], and
// [Request.Reset], which binds one request to it:
//
//	who, err := identity.New(identity.Options{TrustedProxies: proxies})
//	...
//	var q identity.Request
//	q.Reset(who, r)
//	key, ok := q.Attribute("api_key")
//
// # Attributes
//
//	api_key         the API key: one header, as sent, or among those known
//	remote_address  the client's address; IPv6 as its /64 network
//	user, plan      who is asking, once that is verified; see below
//	path            the path for matching; see below
//	method          in upper case, whatever was sent
//	host            lower case, without port and final dot
//	user_agent      the User-Agent header
//	visitor         the identity in a signed cookie; see [Visitors]
//	header:NAME     a request header
//	cookie:NAME     a cookie
//	query:NAME      a query parameter
//	body:FIELD      a field of a JSON object or a form
//	jwt:CLAIM       a claim of a verified token; see [Tokens]
//	client_cert:KIND  names of a verified TLS certificate: san, dns, email, uri, ip
//
// To find a field of the body it is read, up to Options.MaxBody, and the request's
// Body is exchanged for one that gives all of it.
//
// An empty API key is an absent one: there is no bucket for "". Other attributes
// can be empty: what that means is for the rules to say. A header, cookie or
// query parameter that comes several times with the same value counts as one;
// with different values it becomes a list in which each value is preceded by its
// length, behind a zero byte, so that it equals no value that can be sent alone.
// For api_key such a request has no key: otherwise a client could send its real
// key first, a made-up one behind it, and have a fresh count with every call at
// an API that reads the first. [Request.Sent] tells of all of them.
//
// # Trust
//
// Nothing that a client sends is trusted until configured. The client's address
// is the peer's. When the peer is in Options.TrustedProxies, it is the right-most
// untrusted hop of one header; everything to the left of that hop may be
// invented and is never read. An entry that is no address ends the walk at the
// last hop that was one.
//
// User and plan come from one of three, the first that there is: what a [KeyRing]
// says of the API key, the claims of a token that [Tokens] verifies, and headers of
// a trusted proxy. What is not verified is absent: with a ring, so is an API key
// that is not in it.
//
// # Paths
//
// There are two forms. [ForwardPath] is what a gateway sends on: dot segments
// removed, slashes collapsed, needless escapes decoded. [MatchPath] is what
// rules and keys use. It is made from the first by a function that only ever
// joins spellings together, so two requests that a server behind may treat alike
// never differ for the limiter. Where that would take a request from one rule to
// another, because only some servers would go up a directory, see [AmbiguousPath].
//
// # What the package does not do
//
// Without a KeyRing an API key is taken as sent: the API behind has the last word.
// It keeps no state of requests, and gives out no cookie by itself.
package identity
