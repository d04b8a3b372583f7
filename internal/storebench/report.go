package storebench

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes results as a table for people.
func Print(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "loop\tkeys\twhat\tdecisions/s\tof floor\tp50 us\tp99 us\tp99.9 us\tmax us\tdenied\terrors\tcalls each\tgenerator late us\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%.1f%%\t%d\t%s\t%s\t\n", r.Loop, r.Keys, r.Target, r.PerSecond,
			unless(r.OfFloor == 0, "%.2fx", r.OfFloor), short(r.P50), short(r.P99), short(r.P999), short(r.Max),
			100*r.Denied, r.Errors, callsEach(r), unless(r.Loop == Closed, "%.0f", r.Late))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.Unsent > 0 {
			fmt.Fprintf(w, "%s, keys %s: could not keep %d a second; %d calls were due and never made: the true times are worse\n",
				r.Target, r.Keys, r.Rate, r.Unsent)
		}
	}
	return nil
}

func unless(without bool, format string, value float64) string {
	if without {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

func callsEach(r Result) string {
	if r.Calls == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *r.Calls)
}

// short shows microseconds with as many digits as say something.
func short(us float64) string {
	if us < 10 {
		return fmt.Sprintf("%.2f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// PrintJSON writes results for programs.
func PrintJSON(w io.Writer, results []Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}
