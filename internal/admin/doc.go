// Package admin answers operators over HTTP: what counters a client has, and what
// is said by hand (blocks, enforcement, reset and refund).
//
// Make one with [New] and put it on the admin listener's mux with [API.Register].
//
// # Who may ask
//
// Without a token only clients on this machine may; with one, everybody must show
// it, also on this machine. A request that came through a proxy is not of this
// machine. What changes something must be POST with JSON, not from another site's
// page; a name that leads to this machine is not enough of an address, so that no
// page can be made to speak to it. Everything that changes something is logged, with
// keys as hashes.
package admin
