// Package proxytest starts the programs that stand in front of an API (nginx,
// Caddy, HAProxy) with the configurations of deploy/, on free ports, for tests.
package proxytest
