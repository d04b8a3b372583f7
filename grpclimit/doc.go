// Package grpclimit puts limits in front of gRPC servers.
//
// It decides with package httplimit, so that a limit means the same for HTTP and
// gRPC: make a *httplimit.Middleware for one limit and a key, or a
// *httplimit.Decider for rules, hand it to [New], and give its interceptors to the
// server:
//
//	limit, err := httplimit.New(limiter, httplimit.ByHeader("X-Api-Key"), httplimit.Options{})
//	...
//	on, err := grpclimit.New(limit, grpclimit.Options{})
//	...
//	server := grpc.NewServer(grpc.UnaryInterceptor(on.Unary), grpc.StreamInterceptor(on.Stream))
//
// Put it behind interceptors that authenticate and before those that work: in a
// chain the first runs first.
//
// # What a call looks like
//
// As what it is on the wire: a POST to the path /package.Service/Method, whose
// metadata are the headers, from the address of the peer. So path, host, api_key,
// header:NAME, remote_address and the key functions of httplimit work as for HTTP.
// Binary metadata (names that end in -bin) are left out.
//
// A call is charged once, a stream when it begins, whatever the number of its
// messages. Where a rule counts only some statuses (count_when), the code of the
// call counts as the status of HTTP that corresponds to it. A cost in a response
// header is its default. Health checks (package grpc.health.v1) are not limited
// unless Options.Exempt says otherwise.
//
// # Answers
//
// A denied call gets RESOURCE_EXHAUSTED, with the details QuotaFailure (the limits
// that deny), ErrorInfo (reason RATE_LIMITED, which tells it from a message that
// is too large) and RetryInfo, unless it can never succeed. The trailer
// grpc-retry-pushback-ms makes clients that retry by their service config come
// back at that time, or not at all (-1). No headers are sent before, as a client
// retries only answers that consist of trailers.
//
// A call that the rules demand an attribute of gets UNAUTHENTICATED. When the
// limiter cannot decide, calls pass, or get UNAVAILABLE where the policy is to
// deny. A panic of the limiter passes the call; one of the handler is not touched.
//
// # Queues
//
// A call with a turn in a leaky bucket is held until then. If the turn comes after
// its deadline it is denied at once, and when the client goes away before, turn
// and charges are given back.
//
// # In the tap
//
// [Interceptor.Tap] denies before the server takes the call in, at the least cost;
// it can hold no call and wait for no store.
package grpclimit
