// Package shed keeps a slow or crowded service useful: it lets in as many calls
// at a time as the service can work at, and refuses the least important of the
// rest at once, instead of letting all of them wait until all are too late.
//
// Make a [Shedder] with [New], take a slot with [Shedder.Acquire] before a call,
// say [Slot.Answered] when the service begins to answer, and [Slot.Release] in
// any case when the call is over. httplimit and gateway do so by themselves.
//
// # How many at a time
//
// The limit is found and not configured: it falls when answers take longer than
// they used to, and rises while they do not. That part is failsafe-go's adaptive
// limiter. docs/overload.md tells how far it can be trusted.
//
// # Who goes first
//
// When all slots are taken, calls wait for a moment, in one short queue for all.
// A free slot goes to the highest priority that waits. When the queue is full,
// whoever comes pushes out a call of the lowest priority, so that the lowest are
// refused first, and the others only when no lower ones are left. A reserve keeps
// some slots for a priority whatever the others do.
//
// # Within a priority
//
// Clients share by max-min fairness: a slot goes to the client that has had the
// least of the upstream's time, by its weight; and the one pushed out is a call of
// the client that holds and awaits the most. A client alone may have it all, and
// loses it when others come.
//
// # Limits of the promise
//
// A call that was let in is not stopped for a more important one. Who a client is
// the caller must know by something that clients cannot make up at will: a
// thousand made-up clients have a thousand shares. Memory does not grow with the
// number of clients: only those are known that have calls under way or waiting, and
// some thousand more for a moment.
package shed
