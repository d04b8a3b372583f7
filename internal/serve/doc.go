// Package serve is the life of a running caudal: it loads rules, opens the
// store, listens, reloads, and drains.
//
// Start with [Config], which holds every setting, and [Start], which gives a
// [Server] that listens; [Server.Run] keeps it until its context ends and then
// drains it.
//
// A Config is values only: package cli reads them from flags, environment and
// caudal.yaml.
package serve
