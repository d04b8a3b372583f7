package cli

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what scripts print into them")

// TestMain makes this test binary the command caudal, in the PATH of scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"caudal": func() { os.Exit(Main(os.Args[1:], System("v1.2.3"))) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}
