package gwbench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes results as a table for people: each loop without limits, with
// them, and the difference.
func Print(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "loop\tlimits\trequests/s\tCPU us\tp50 us\tp99 us\tp99.9 us\tdenied\terrors\t")
	for i, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.1f\t%.0f\t%.0f\t%.0f\t%d\t%d\t\n",
			r.Loop, r.Target, r.PerSecond, r.CPU, r.P50, r.P99, r.P999, r.Denied, r.Errors)
		if i%2 == 1 {
			a := results[i-1]
			fmt.Fprintf(t, "%s\tadded\t%+.0f\t%+.1f\t%+.0f\t%+.0f\t%+.0f\t\t\t\n",
				r.Loop, r.PerSecond-a.PerSecond, r.CPU-a.CPU, r.P50-a.P50, r.P99-a.P99, r.P999-a.P999)
		}
	}
	return t.Flush()
}

// PrintJSON writes results for programs.
func PrintJSON(w io.Writer, results []Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}
