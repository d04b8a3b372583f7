// Package cli is the commands of caudal, one file each.
//
// Start with [Main], which runs a command line and gives its exit code. Settings
// are read by this package (settings.go) from flags, the environment and
// caudal.yaml, in this order of precedence, and handed to package serve.
package cli
