package rlsbench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes results as a table for people.
func Print(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "callers\trequests/s\tp50 us\tp99 us\tp99.9 us\tmax us\tover limit\terrors\tserver CPU us\t")
	for _, r := range results {
		cpu := "-"
		if r.ServerCPU > 0 {
			cpu = fmt.Sprintf("%.1f", r.ServerCPU)
		}
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%s\t\n",
			r.Callers, r.PerSecond, r.P50, r.P99, r.P999, r.Max, r.OverLimit, r.Errors, cpu)
	}
	return t.Flush()
}

// PrintJSON writes results for programs.
func PrintJSON(w io.Writer, results []Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}
