// Package redistest starts real Redis servers for tests: a single one, a Cluster,
// a Sentinel group, with TLS or users where asked. Each listens on free loopback
// ports, keeps its files in the test's own directory, and is stopped when the
// test ends. No mock stands in for Redis.
//
//	r := redistest.Start(t)
//	store, err := redisstore.Open(ctx, r.URL(), redisstore.Options{})
//
// A test fails, and says what to install, where redis-server is missing.
package redistest
