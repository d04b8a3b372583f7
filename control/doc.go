// Package control holds what operators say by hand, for all instances at once:
// which clients are blocked until when, and whether limits are enforced at all.
//
// Make one [Controls] per process with [New] and give it to what decides, such as
// httplimit.Options.Controls. [Controls.Block], [Controls.Unblock] and
// [Controls.Enforce] say something; [Controls.Run] hears what others said.
//
//	controls := control.New(control.Options{Shared: redis}) // nil Shared: this process alone
//	go controls.Run(ctx)
//	target, err := control.ParseTarget("remote_address=203.0.113.9")
//	...
//	err = controls.Block(ctx, target, 15*time.Minute)
//
// # Cost and bounds
//
// A decision never asks the store: each instance holds the whole set, at most
// [MaxBlocks] blocks, and asks every [DefaultEvery] whether it has changed, by one
// cheap call. While nothing is blocked a decision pays for one load of a pointer.
// When the store is gone, what was heard last stays until its time is over.
//
// # Secrets
//
// Only addresses and the operator's own labels (user, plan, path, host, method)
// are held in clear. All other values, such as API keys, are known by their
// SHA-256 here and in the store.
package control
