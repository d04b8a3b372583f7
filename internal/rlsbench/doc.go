// Package rlsbench measures servers of Envoy's rate limit protocol: a closed loop
// of callers ([Run]), and a server that answers without deciding ([Floor]), which
// is what the protocol costs by itself.
package rlsbench
