package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
)

// row is one line of the table of costs.
type row struct {
	what  string
	bench string // the benchmark's name
	unit  string // what is measured; "" is ns/op
	floor string // the benchmark it is divided by; "" compares the figure itself
	bar   mark   // what must be reached
	goal  mark   // what we want
}

// mark is a figure to reach: a ratio to the floor when the row has one and abs
// is not set, else in the row's unit. The zero mark is none.
type mark struct {
	value float64
	abs   bool
	set   bool
}

func ratio(x float64) mark  { return mark{value: x, set: true} }
func figure(x float64) mark { return mark{value: x, abs: true, set: true} }

const nsPerOp = "ns/op"

// report prints the rows that were measured and then everything else.
func report(out io.Writer, rows []row, all results) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tFIGURE\tFLOOR\tRATIO\tBAR\tGOAL\t")
	used := map[string]bool{}
	for _, r := range rows {
		if r.print(w, all) {
			used[r.bench], used[r.floor] = true, true
		}
	}
	rest := slices.Sorted(maps.Keys(all))
	rest = slices.DeleteFunc(rest, func(name string) bool { return used[name] })
	if len(rest) > 0 {
		fmt.Fprintln(w, "\t\t\t\t\t\t")
	}
	for _, name := range rest {
		for _, unit := range slices.Sorted(maps.Keys(all[name])) {
			if unit == "B/op" || unit == "allocs/op" {
				continue
			}
			value, _ := all.median(name, unit)
			fmt.Fprintf(w, "%s\t%s\t\t\t\t\t\n", name, withUnit(value, unit))
		}
	}
	return w.Flush()
}

// print writes the row's line; it reports false when its benchmark did not run.
func (r row) print(w io.Writer, all results) bool {
	unit := r.unit
	if unit == "" {
		unit = nsPerOp
	}
	value, ok := all.median(r.bench, unit)
	if !ok {
		return false
	}
	floor, hasFloor := 0.0, false
	floorText, ratioText := "", ""
	if r.floor != "" {
		floor, hasFloor = all.median(r.floor, unit)
		floorText = "did not run"
	}
	if hasFloor && floor > 0 {
		floorText = withUnit(floor, unit)
		ratioText = times(value / floor)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t\n", r.what, withUnit(value, unit), floorText, ratioText,
		r.bar.judge(value, floor, unit), r.goal.judge(value, floor, unit))
	return true
}

// judge says the mark and whether it was reached.
func (m mark) judge(value, floor float64, unit string) string {
	switch {
	case !m.set:
		return ""
	case m.abs:
		return withUnit(m.value, unit) + verdict(value <= m.value)
	case floor <= 0:
		return times(m.value)
	}
	return times(m.value) + verdict(value <= m.value*floor)
}

func verdict(reached bool) string {
	if reached {
		return " yes"
	}
	return " no"
}

func times(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) + "x" }

// withUnit prints a figure with at most four digits after all that matter.
func withUnit(x float64, unit string) string {
	digits := 2
	switch {
	case x >= 1000 || x == float64(int64(x)):
		digits = 0
	case x >= 100:
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + " " + unit
}
