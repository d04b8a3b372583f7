package redistest

import (
	"fmt"
	"os"
	"testing"
)

// ForExample starts a server for an example, which has no test to end with: stop
// does what the end of a test would.
func ForExample() (r *Server, stop func()) {
	tb := &exampleTB{}
	return Start(tb), tb.end
}

// exampleTB is the part of testing.TB that starting a server needs.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (e *exampleTB) Helper()                   {}
func (e *exampleTB) Cleanup(f func())          { e.cleanups = append(e.cleanups, f) }
func (e *exampleTB) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (e *exampleTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func (e *exampleTB) TempDir() string {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		panic(err)
	}
	e.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is left is in the system's temporary directory
	return dir
}

func (e *exampleTB) end() {
	for i := len(e.cleanups) - 1; i >= 0; i-- {
		e.cleanups[i]()
	}
}
