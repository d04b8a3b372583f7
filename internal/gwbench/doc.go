// Package gwbench measures what limits add to a gateway: the same proxy with and
// without them, in turns, in one run.
package gwbench
