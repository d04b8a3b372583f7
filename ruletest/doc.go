// Package ruletest runs tests of rule files: requests at given times, with what is
// expected of them, through the real limiter on a clock of the test's own. A year
// of a quota takes a moment.
//
// Start with [Run], which runs one file. A test file lies beside the rules, and
// its name ends in _test.yaml, which is how directories of rules know to leave it
// alone:
//
//	rules: public-api.yaml             # relative to this file; its folder when absent
//	tests:
//	  - name: five guesses a minute
//	    steps:
//	      - request: { path: /login, remote_address: 203.0.113.7 }
//	        times: 5
//	        expect: allowed
//	      - request: { path: /login, remote_address: 203.0.113.7 }
//	        expect: { outcome: denied, rule: login, retry_after: 1m }
//	      - at: 1m
//	        request: { path: /login, remote_address: 203.0.113.7 }
//	        expect: { outcome: allowed, remaining: 4 }
//
// Each test starts with nothing counted, at the instant that start names, by
// default the beginning of 2026 (UTC). at counts from there and never goes back. A
// request is attributes, or descriptors as Envoy sends them. response says what the
// API answers (a status, or a mapping of status and headers), for rules whose charge
// depends on it; without it nobody sees one, so the call counts and costs the most.
// Reading is as strict
// as that of rules.
package ruletest
