// Command benchreport reads what go test -bench printed and puts each row of the
// table of costs beside its floor: the figure, the ratio to the floor, what it
// must reach (bar) and what we want (goal).
//
//	go test -run '^$' -bench . -benchmem -count 3 ./... > bench.txt
//	go run ./internal/benchreport bench.txt
//
// A benchmark that ran several times counts with its median. Rows whose
// benchmark did not run are left out; a benchmark that is in no row is printed
// below with its plain figure. Ratios are for reading, not for failing a build:
// the exit code is 0 whatever they are.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchreport:", err)
		os.Exit(1)
	}
}

// run reads the named file, or in when none is named.
func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) > 0 {
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	results, err := parse(in)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return fmt.Errorf("no benchmark results in the input: run go test with -bench")
	}
	return report(out, rows, results)
}
