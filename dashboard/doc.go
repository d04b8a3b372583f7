// Package dashboard is the page on which operators see what their limiter does: its
// state, what is decided, by which rule, and who is denied most.
//
// [Handler] serves the page and all that belongs to it; the page reads
// [Snapshot] and [History] as server-sent events from /v1/stream beside it, and looks
// up counters at /v1/counters. It changes nothing.
//
// The page is one file each of HTML, CSS and JavaScript, embedded and served as they
// are, and asks no other host for anything: its Content-Security-Policy forbids it.
// Charts are drawn by uPlot 1.6.32 (MIT, see page/uplot/LICENSE), in page/uplot as
// published on npm.
package dashboard
