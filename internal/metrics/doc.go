// Package metrics counts what the limiter decides and shows it to Prometheus.
//
// Start with [New] and [Metrics.SetRules], which makes the series of the rules;
// a *Metrics is an httplimit.Observer, and [Metrics.Time] measures a sample of
// the decisions. [Metrics.Handler] is what Prometheus scrapes.
//
// # Cost and bounds
//
// A decision costs an addition per limit: which counter is meant was settled
// when the rules were loaded, and counters are striped, so that many cores
// counting one rule do not wait for each other. Series come from the rules alone,
// never from what a client sends.
package metrics
