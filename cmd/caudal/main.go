// Command caudal limits requests in front of an API. Run caudal help.
package main

import (
	"os"
	_ "time/tzdata" // calendars of time zones, also where the system has none

	"github.com/caudal-dev/caudal/internal/cli"
)

// version is set by the linker: -X main.version=v1.2.3.
var version string

func main() { os.Exit(cli.Main(os.Args[1:], cli.System(version))) }
