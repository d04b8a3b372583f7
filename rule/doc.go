// Package rule reads rate-limit rules from YAML files and says which limits
// apply to a request.
//
// Start with [Load], which reads files or directories, and [Domain.Match], which
// turns a request into the calls that a [caudal.Store] takes:
//
//	set, warnings, err := rule.Load("/etc/caudal/rules")
//	domain, err := set.Default()
//	var m rule.Match                 // reuse it: it keeps its memory
//	domain.Match(request, &m)
//	err = store.Take(ctx, caudal.Instant{}, m.Calls, decisions)
//
// # The format
//
// A file holds one domain: a tree of descriptors in the format of Envoy's
// reference rate-limit service, with more algorithms.
//
//	domain: public-api
//	descriptors:
//	  - key: remote_address               # a ceiling for every address
//	    rate_limit: { unit: minute, requests_per_unit: 600, burst: 100 }
//	  - key: path
//	    value: /login
//	    descriptors:
//	      - key: remote_address           # and a strict one for logins
//	        rate_limit: { unit: minute, requests_per_unit: 5, algorithm: sliding_log }
//
// Reading is strict: an unknown key, a wrong type, a duplicate is an error that
// says file:line:column, the key's path, what is wrong and how to mend it.
// Scalars are taken as the text written or refused, never changed. A set loads
// whole or not at all.
//
// # Matching
//
// A request is a set of attributes. Every branch whose keys the request has is
// walked, and every limit on every walked node applies. Among the siblings of
// one key exactly one is chosen: an exact value beats a CIDR prefix (the longest
// wins), which beats a wildcard (the first in the file wins), which beats a key
// without value. A chosen node without limits and children exempts its branch:
// its siblings are not tried.
//
// [Domain.MatchDescriptor] matches an ordered list of entries instead, as Envoy
// sends them.
//
// [Domain.Explain] and [Domain.ExplainDescriptor] say why a request is limited as it
// is; [Diff] says what changed in meaning between two sets.
//
// # Counters
//
// A node without value, with a CIDR prefix or with a wildcard gives each value
// its own counter; share_threshold: true gives one to all. A wildcard on path is
// one counter unless share_threshold: false is written. The identity of a
// counter is the domain, the rule's path, the algorithm, the period, the limit's
// name inside rate_limits, and the request's values, each preceded by its
// length; numbers such as requests_per_unit are not in it.
//
// # Limits of the promise
//
// The package decides nothing itself and holds no counts. A [Set] and its
// domains do not change once loaded and are safe for concurrent use; a [Match]
// belongs to one goroutine at a time. Whether an attribute can be trusted is for
// those who make the [Request] to say (package identity).
package rule
